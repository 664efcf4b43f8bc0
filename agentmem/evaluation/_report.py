"""Shows evaluations: as tables for a terminal, and as one page with plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from agentmem.evaluation._measures import Difference, compare
from agentmem.evaluation._page import Table, axes, colour, drawing, html_table, number, page, svg
from agentmem.evaluation._run import RANKINGS, Answer, Evaluation

SHOWN = ("recall@1", "recall@5", "recall@10", "success@5", "mrr", "ndcg@10")
_WORST = 15
_LONGEST = 160
_COMPARED = "ndcg@10"
Named = Mapping[str, Evaluation]
"""Evaluations of the same questions by name; the second is compared with the first."""


def quality_table(named: Named) -> Table:
    """Return the measures of each ranking."""
    several = len(named) > 1
    rows = []
    for name, evaluation in named.items():
        for ranking in RANKINGS:
            values = evaluation.measures(ranking)
            title = f"{name}: {ranking}" if several else ranking
            rows.append([title, *(number(values[measure]) for measure in SHOWN)])
    return "Quality after each stage", ["ranking", *SHOWN], rows


def time_table(named: Named) -> Table:
    """Return milliseconds of each stage, and tokens."""
    rows = []
    for name, evaluation in named.items():
        for stage, (median, high) in evaluation.times().items():
            title = f"{name}: {stage}" if len(named) > 1 else stage
            rows.append([title, number(median), number(high)])
    return "Milliseconds", ["stage", "p50", "p95"], rows


def difference_table(named: Named) -> Table:
    """Return how the second evaluation differs from the first, measure by measure."""
    headers = ["measure", "questions", "difference", "95 % interval", "p"]
    rows = []
    if len(named) == 2:
        first, second = named.values()
        for measure in SHOWN:
            found = compare(first.by_question(measure), second.by_question(measure))
            if found is not None:
                rows.append([measure, *difference_cells(found)])
    return "Difference, second minus first", headers, rows


def difference_cells(found: Difference) -> list[str]:
    """Return a difference as cells: questions, mean, interval, chance."""
    return [
        str(found.queries),
        f"{found.mean:+.3f}",
        f"{found.low:+.3f} to {found.high:+.3f}",
        f"{found.p:.4f}",
    ]


def changed_table(named: Named) -> Table:
    """Return the questions that the second answers better or worse than the first."""
    rows: list[tuple[float, list[str]]] = []
    if len(named) == 2:
        first, second = named.values()
        before, after = first.by_question(_COMPARED), second.by_question(_COMPARED)
        for answer in second.answers:
            name = answer.question.id
            gap = after[name] - before[name]
            if gap:
                values = [f"{before[name]:.3f}", f"{after[name]:.3f}", f"{gap:+.3f}"]
                rows.append((gap, [_cut(answer.question.query), *values]))
    rows.sort(key=lambda row: row[0])
    headers = ["question", "first", "second", _COMPARED]
    return "Questions that changed, worst first", headers, [row for _, row in rows]


def missing_lines(evaluation: Evaluation) -> list[str]:
    """Return a line for each target that is nowhere, and for drafts that nobody has looked at."""
    lines = [
        f"question {answer.question.id}: {target} is not in the memory or among its candidates"
        for answer in evaluation.answers
        for target in answer.missing
    ]
    drafts = sum(answer.question.draft for answer in evaluation.answers)
    if drafts:
        lines.append(
            f"{drafts} questions are drafts whose answers came from the memory itself: look at "
            "them, correct them and remove 'draft'"
        )
    return lines


def as_json(named: Named) -> dict[str, object]:
    """Return everything that the tables show, and every answer."""
    shown: dict[str, object] = {
        name: {
            "questions": len(evaluation.answers),
            "measures": {ranking: evaluation.measures(ranking) for ranking in RANKINGS},
            "milliseconds": {
                stage: {"p50": median, "p95": high}
                for stage, (median, high) in evaluation.times().items()
            },
            "tokens": evaluation.tokens(),
            "missing": missing_lines(evaluation),
            "answers": [
                {
                    "id": answer.question.id,
                    "query": answer.question.query,
                    "relevant": answer.relevant,
                    "found": answer.rankings["full"][:10],
                }
                for answer in evaluation.answers
            ],
        }
        for name, evaluation in named.items()
    }
    _, headers, rows = difference_table(named)
    if rows:
        shown["difference"] = [dict(zip(headers, row, strict=True)) for row in rows]
    return shown


# ------------------------------------------------------------------------- the page


def html_report(named: Named, *, source: str) -> str:
    """Return a page about one or two evaluations of the question set `source`."""
    count = len(next(iter(named.values())).answers)
    parts = [f'<p class="soft">{count} questions of {escape(source)}</p>']
    parts += [_quality_plot(named), _time_plot(named)]
    if len(named) == 2:
        parts.append(_difference_plot(named))
    tables = [quality_table(named), difference_table(named), time_table(named)]
    tables += [_tokens(named), changed_table(named), _worst(list(named.values())[-1])]
    tables.append(_missing(list(named.values())[-1]))
    parts += [html_table(table) for table in tables if table[2]]
    return page("agentmem: evaluation", parts)


def _quality_plot(named: Named) -> str:
    with drawing():
        figure, plot = axes("Quality after each stage", "", "")
        width = 0.8 / len(named)
        for place, (name, evaluation) in enumerate(named.items()):
            values = [evaluation.measures(ranking)["ndcg@10"] for ranking in RANKINGS]
            spots = [n + place * width for n in range(len(RANKINGS))]
            bars = plot.bar(spots, values, width=width * 0.92, color=colour(place), label=name)
            plot.bar_label(bars, fmt="{:.3f}", padding=2, fontsize=9)
        middle = (len(named) - 1) * width / 2
        plot.set_xticks([n + middle for n in range(len(RANKINGS))], RANKINGS)
        plot.set_ylabel("nDCG@10")
        plot.set_ylim(0, 1.05)
        plot.grid(visible=False, axis="x")
        if len(named) > 1:
            figure.legend(loc="outside lower center", ncols=2)
        return svg(figure)


def _time_plot(named: Named) -> str:
    with drawing():
        figure, plot = axes("Time of a search", "milliseconds", "")
        names, series = [], []
        for name, evaluation in named.items():
            for stage in evaluation.times():
                names.append(f"{name}: {stage}" if len(named) > 1 else stage)
                series.append([a.milliseconds.get(stage, 0.0) for a in evaluation.answers])
        plot.boxplot(
            series[::-1],
            orientation="horizontal",
            tick_labels=names[::-1],
            showfliers=False,
            whis=(5, 95),
            medianprops={"color": colour(1)},
        )
        plot.grid(visible=False, axis="y")
        plot.set_title("Time of a search (box: half of all; whiskers: 5 to 95 %)", loc="left")
        figure.set_size_inches(8.2, 1.4 + 0.34 * len(names))
        return svg(figure)


def _difference_plot(named: Named) -> str:
    first, second = named.values()
    before, after = first.by_question(_COMPARED), second.by_question(_COMPARED)
    gaps = sorted(after[name] - before[name] for name in after if name in before)
    with drawing():
        figure, plot = axes("Question by question", "questions, worst change first", "change")
        shades = [colour(1) if gap < 0 else colour(2) for gap in gaps]
        plot.bar(range(len(gaps)), gaps, color=shades, width=1.0)
        plot.set_ylabel(f"change of {_COMPARED}")
        return svg(figure)


def _tokens(named: Named) -> Table:
    rows = [[name, number(evaluation.tokens())] for name, evaluation in named.items()]
    return "Tokens of a context", ["settings", "mean"], rows


def _worst(evaluation: Evaluation) -> Table:
    scores = evaluation.by_question(_COMPARED)
    worst = sorted(evaluation.answers, key=lambda a: scores[a.question.id])[:_WORST]
    rows = [_worst_row(answer, scores[answer.question.id]) for answer in worst]
    rows = [row for row in rows if row[1] != "1.000"]
    headers = ["question", _COMPARED, "wanted", "found first"]
    return "Questions answered worst", headers, rows


def _worst_row(answer: Answer, score: float) -> list[str]:
    wanted = "; ".join(str(target) for target in answer.question.relevant[:3])
    found = _cut(answer.found[0]) if answer.found else "nothing"
    return [_cut(answer.question.query), f"{score:.3f}", _cut(wanted), found]


def _missing(evaluation: Evaluation) -> Table:
    return "To be looked at", ["what"], [[line] for line in missing_lines(evaluation)]


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def check_bounds(evaluation: Evaluation, bounds: Sequence[tuple[str, float]]) -> list[str]:
    """Return a sentence for each measure of the whole pipeline that is below its bound."""
    values = evaluation.measures()
    return [
        f"{name} is {number(values[name])}, below {number(least)}"
        for name, least in bounds
        if values[name] < least
    ]
