"""Says what evaluations show: as tables, as sentences, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentmem.evaluation._answers import RANKINGS, Answer, Evaluation
from agentmem.evaluation._measures import MEASURES, Difference, compare

SHOWN = ("success@1", "recall@1", "recall@5", "recall@10", "mrr", "ndcg@10")
MAIN = "ndcg@10"
"""The measure that questions are compared by."""

_SIGNIFICANT = 0.05
Named = Mapping[str, Evaluation]
"""Evaluations of the same questions by name; the second is compared with the first."""
Table = tuple[str, list[str], list[list[str]]]
"""Title, headers, rows."""


def number(value: float) -> str:
    """Return a number with as many digits as say something."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.3f}"


def cut(text: str, longest: int = 160) -> str:
    """Return the beginning of a text in one line."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def quality_table(named: Named) -> Table:
    """Return the measures of each ranking."""
    rows = []
    for name, evaluation in named.items():
        for ranking in RANKINGS:
            values = evaluation.measures(ranking)
            cells = (f"{values[measure]:.3f}" for measure in SHOWN)
            rows.append([_title(named, name, ranking), *cells])
    return "Quality after each stage", ["ranking", *SHOWN], rows


def time_table(named: Named) -> Table:
    """Return milliseconds of each stage."""
    stages = dict.fromkeys(stage for e in named.values() for stage in e.times())
    rows = [
        [_title(named, name, stage), *(f"{value:.2f}" for value in evaluation.times()[stage])]
        for stage in stages
        for name, evaluation in named.items()
        if stage in evaluation.times()
    ]
    return "Milliseconds of a search", ["stage", "p50", "p95"], rows


def _title(named: Named, name: str, what: str) -> str:
    return f"{name}: {what}" if len(named) > 1 else what


def difference_table(named: Named) -> Table:
    """Return how the second evaluation differs from the first, measure by measure."""
    headers = ["measure", "questions", "difference", "95 % interval", "p"]
    found = differences(named)
    rows = [[measure, *difference_cells(entry)] for measure, entry in found.items()]
    return "Difference, second minus first", headers, rows


def differences(named: Named) -> dict[str, Difference]:
    """Return the paired comparison by measure; empty when there is nothing to compare."""
    if len(named) != 2:
        return {}
    first, second = named.values()
    found = {m: compare(first.by_question(m), second.by_question(m)) for m in SHOWN}
    return {measure: entry for measure, entry in found.items() if entry is not None}


def difference_cells(found: Difference) -> list[str]:
    """Return a difference as cells: questions, mean, interval, chance."""
    return [
        str(found.queries),
        f"{found.mean:+.3f}",
        f"{found.low:+.3f} to {found.high:+.3f}",
        f"{found.p:.4f}",
    ]


def verdict(named: Named) -> str:
    """Return one sentence about the difference in the main measure, empty without a second."""
    found = differences(named).get(MAIN)
    if found is None:
        return ""
    if found.mean == found.low == found.high == 0.0:
        return f"No question is answered differently by {MAIN}."
    change = "better" if found.mean > 0 else "worse"
    chance = (
        f"this is beyond chance (p = {found.p:.4f})"
        if found.p < _SIGNIFICANT
        else f"this may be chance (p = {found.p:.2f}; more questions would tell)"
    )
    return (
        f"The second is {change} by {abs(found.mean):.3f} in {MAIN} (95 % interval "
        f"{found.low:+.3f} to {found.high:+.3f}, {found.queries} questions): {chance}."
    )


def changed_table(named: Named) -> Table:
    """Return the questions that the second answers better or worse than the first."""
    rows = [
        [cut(answer.question.query), f"{before:.3f}", f"{after:.3f}", f"{after - before:+.3f}"]
        for answer, before, after in changes(named)
    ]
    return "Questions that changed, worst first", ["question", "first", "second", MAIN], rows


def changes(named: Named) -> list[tuple[Answer, float, float]]:
    """Return the answers whose main measure changed, before and after, the worst change first."""
    if len(named) != 2:
        return []
    first, second = named.values()
    before, after = first.by_question(MAIN), second.by_question(MAIN)
    found = [(a, before[a.question.id], after[a.question.id]) for a in second.answers]
    return sorted(
        (entry for entry in found if entry[1] != entry[2]), key=lambda entry: entry[2] - entry[1]
    )


def missing_lines(evaluation: Evaluation) -> list[str]:
    """Return a line for each right answer that the memory does not have."""
    return [
        f"question {answer.question.id}: the memory has no document with {target}; it counts as "
        "not found"
        for answer in evaluation.answers
        for target in answer.missing
    ]


def remarks(evaluation: Evaluation) -> list[str]:
    """Return what else has to be known about the question set."""
    lines = []
    drafts = sum(answer.question.draft for answer in evaluation.answers)
    if drafts:
        lines.append(
            f"{drafts} of the questions are drafts whose answers came from the memory itself: look "
            "at them, correct them and remove 'draft'"
        )
    if evaluation.unanswerable:
        lines.append(f"{evaluation.unanswerable} unanswerable questions were not asked")
    return lines


def check_bounds(evaluation: Evaluation, bounds: Sequence[tuple[str, float]]) -> list[str]:
    """Return a sentence for each measure of the whole pipeline that is below its bound."""
    values = evaluation.measures()
    return [
        f"{name} is {number(values[name])}, below {number(least)}"
        for name, least in bounds
        if values[name] < least
    ]


def as_json(named: Named, about: Mapping[str, str]) -> dict[str, object]:
    """Return everything that can be said, in JSON's types; `about` describes the settings."""
    shown: dict[str, object] = {
        name: _evaluation(evaluation, about.get(name, "")) for name, evaluation in named.items()
    }
    if len(named) == 2:
        shown["verdict"] = verdict(named)
        shown["differences"] = [
            {
                "measure": m,
                "questions": d.queries,
                "mean": d.mean,
                "low": d.low,
                "high": d.high,
                "p": d.p,
            }
            for m, d in differences(named).items()
        ]
        shown["changed"] = [
            {"id": answer.question.id, "first": before, "second": after}
            for answer, before, after in changes(named)
        ]
    return shown


def _evaluation(evaluation: Evaluation, about: str) -> dict[str, object]:
    values = {name: evaluation.by_question(name) for name in MEASURES}
    return {
        "settings": about,
        "questions": len(evaluation.answers),
        "measures": {ranking: evaluation.measures(ranking) for ranking in RANKINGS},
        "milliseconds": {
            stage: {"p50": median, "p95": high}
            for stage, (median, high) in evaluation.times().items()
        },
        "tokens": evaluation.tokens(),
        "missing": missing_lines(evaluation),
        "remarks": remarks(evaluation),
        "answers": [
            _answer(answer, {name: found[answer.question.id] for name, found in values.items()})
            for answer in evaluation.answers
        ],
    }


def _answer(answer: Answer, values: Mapping[str, float]) -> dict[str, object]:
    return {
        "id": answer.question.id,
        "query": answer.question.query,
        "relevant": answer.relevant,
        "places": {ranking: answer.place(ranking) for ranking in RANKINGS},
        "measures": dict(values),
        "found": answer.judged()[:10],
        "tokens": answer.tokens,
        "milliseconds": dict(answer.milliseconds),
    }
