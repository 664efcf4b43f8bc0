"""One page about an evaluation: what it comes to, plots, and the questions worth a look."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from agentmem.evaluation._answers import RANKINGS, Answer, Evaluation
from agentmem.evaluation._page import INK, axes, cards, colour, drawing, html_table, page, svg
from agentmem.evaluation._tables import (
    MAIN,
    Named,
    Table,
    changed_table,
    changes,
    cut,
    difference_table,
    missing_lines,
    number,
    quality_table,
    remarks,
    time_table,
    verdict,
)

_WORST = 20
_QUOTE = 120
_BARS = ("success@1", "recall@10", MAIN)


def html_report(named: Named, *, source: str, about: Mapping[str, str]) -> str:
    """Return a page about one or two evaluations.

    Parameters
    ----------
    named
        The evaluations; the second is compared with the first.
    source
        Name of the question set.
    about
        Describes the settings of each evaluation.
    """
    last = list(named.values())[-1]
    parts = [_heading(last, source), *_settings(named, about), cards(_figures(named))]
    if len(named) == 2:
        parts += ["<h2>Is the second better?</h2>", f"<p>{escape(verdict(named))}</p>"]
        parts += [html_table(difference_table(named)), _changes_plot(named)]
        parts += _folded(changed_table(named))
    parts += ["<h2>Quality</h2>", _quality_note(), _quality_plot(named)]
    parts += [_untitled(quality_table(named)), "<h2>Time</h2>", _time_plot(named)]
    parts += [_untitled(time_table(named)), *_worst(last, several=len(named) > 1)]
    lines = [*missing_lines(last), *remarks(last)]
    if lines:
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        parts.append(f"<h2>About the question set</h2><ul>{items}</ul>")
    return page("How well the memory answers", parts)


def _heading(evaluation: Evaluation, source: str) -> str:
    stats = evaluation.stats
    text = (
        f"{len(evaluation.answers):,} questions of {source}, asked of "
        f"{stats.documents:,} documents ({stats.chunks:,} chunks). Embedder: {stats.embedder}."
    )
    return f'<p class="soft">{escape(text)}</p>'


def _settings(named: Named, about: Mapping[str, str]) -> list[str]:
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(about.get(name, ''))}</dd>"
        for name in named
        if len(named) > 1
    )
    return [f"<dl>{rows}</dl>"] if rows else []


def _figures(named: Named) -> list[tuple[str, str]]:
    """Return the numbers that one looks for first; two of them where there is a comparison."""
    sides = [(e.measures(), e.times()["total"], e.tokens()) for e in named.values()]
    shown = [
        (name, " → ".join(f"{values[name]:.3f}" for values, _, _ in sides))
        for name in (MAIN, "recall@10", "success@1")
    ]
    shown.append(("median, ms", " → ".join(number(times[0]) for _, times, _ in sides)))
    shown.append(("p95, ms", " → ".join(number(times[1]) for _, times, _ in sides)))
    return [*shown, ("tokens of a context", " → ".join(f"{t:,.0f}" for _, _, t in sides))]


def _quality_note() -> str:
    return (
        '<p class="soft">A ranking is of documents, each where its best chunk stands: of the '
        "vector pool, of the lexical pool, after fusion, and of the full pipeline. 1 is best.</p>"
    )


def _quality_plot(named: Named) -> str:
    bars: list[tuple[str, list[float]]] = []
    for name, evaluation in named.items():
        values = [evaluation.measures(ranking) for ranking in RANKINGS]
        if len(named) > 1:
            bars.append((name, [entry[MAIN] for entry in values]))
        else:
            bars += [(measure, [entry[measure] for entry in values]) for measure in _BARS]
    with drawing():
        title = f"{MAIN} after each stage" if len(named) > 1 else "Quality after each stage"
        figure, plot = axes(title, "", "")
        width = 0.8 / len(bars)
        for place, (label, heights) in enumerate(bars):
            spots = [n + place * width for n in range(len(RANKINGS))]
            drawn = plot.bar(spots, heights, width * 0.92, color=colour(place), label=label)
            plot.bar_label(drawn, fmt="{:.2f}", padding=2, fontsize=9)
        middle = (len(bars) - 1) * width / 2
        plot.set_xticks([n + middle for n in range(len(RANKINGS))], RANKINGS)
        plot.set_ylim(0, 1.08)
        plot.set_yticks([0, 0.25, 0.5, 0.75, 1.0])
        plot.tick_params(axis="x", length=0)
        plot.grid(visible=False, axis="x")
        figure.legend(loc="outside lower center", ncols=len(bars))
        return svg(figure)


def _time_plot(named: Named) -> str:
    stages = list(dict.fromkeys(stage for e in named.values() for stage in e.times()))
    height = 0.7 / len(named)
    with drawing():
        figure, plot = axes("Time of a search by stage", "milliseconds", "")
        for side, evaluation in enumerate(named.values()):
            spots = [n + (side - (len(named) - 1) / 2) * height for n in range(len(stages))]
            drawn = plot.boxplot(
                [evaluation.series(stage) for stage in stages],
                positions=spots,
                widths=height * 0.8,
                orientation="horizontal",
                manage_ticks=False,
                showfliers=False,
                whis=(5, 95),
                patch_artist=True,
                boxprops={"facecolor": colour(side), "edgecolor": INK, "linewidth": 0.8},
                medianprops={"color": INK, "linewidth": 1.6},
                whiskerprops={"color": INK, "linewidth": 0.8},
                capprops={"color": INK, "linewidth": 0.8},
            )
            drawn["boxes"][0].set_label(list(named)[side])
        plot.set_yticks(range(len(stages)), stages)
        plot.invert_yaxis()
        plot.set_xlim(left=0)
        plot.tick_params(axis="y", length=0)
        plot.grid(visible=False, axis="y")
        if len(named) > 1:
            figure.legend(loc="outside lower center", ncols=2)
        figure.set_size_inches(9.6, 1.5 + 0.42 * len(stages) * (0.6 + 0.4 * len(named)))
        note = "Box: the middle half of all searches, with the median; whiskers: 5 to 95 %."
        return svg(figure, note)


def _changes_plot(named: Named) -> str:
    gaps = [after - before for _, before, after in changes(named)]
    if not gaps:
        return ""
    same = len(list(named.values())[-1].answers) - len(gaps)
    worse = sum(gap < 0 for gap in gaps)
    with drawing():
        figure, plot = axes("Question by question", "", f"change of {MAIN}")
        shades = [colour(1) if gap < 0 else colour(2) for gap in gaps]
        plot.bar(range(len(gaps)), gaps, color=shades, width=0.85)
        plot.axhline(0, color=INK, linewidth=0.8)
        plot.set_xlim(-0.6, max(len(gaps), 12) - 0.4)
        plot.set_xticks([])
        plot.spines["bottom"].set_visible(False)
        plot.grid(visible=False, axis="x")
        figure.set_size_inches(9.6, 3.2)
        note = (
            f"A bar for each question that changed: {worse} got worse, {len(gaps) - worse} better, "
            f"{same} stayed as they were."
        )
        return svg(figure, note)


def _untitled(table: Table) -> str:
    """Return a table under a heading that says what it shows."""
    return html_table(("", *table[1:]))


def _folded(table: Table) -> list[str]:
    if not table[2]:
        return []
    summary = f"{table[0]} ({len(table[2])})"
    return [f"<details><summary>{escape(summary)}</summary>{_untitled(table)}</details>"]


def _worst(evaluation: Evaluation, *, several: bool) -> list[str]:
    scores = evaluation.by_question(MAIN)
    worst = sorted(evaluation.answers, key=lambda a: scores[a.question.id])[:_WORST]
    rows = [_worst_row(a, scores[a.question.id]) for a in worst if scores[a.question.id] < 1]
    if not rows:
        return []
    title = "Questions that the second answers worst" if several else "Questions answered worst"
    note = (
        '<p class="soft">Where the first right document stands after each stage: a dash in both '
        "pools means that it was never a candidate; a good place that gets worse names the stage "
        "that loses it.</p>"
    )
    headers = ["question", "wanted", "found first", MAIN, *RANKINGS]
    return [f"<h2>{title}</h2>", note, html_table(("", headers, rows), words=3)]


def _worst_row(answer: Answer, score: float) -> list[str]:
    first = answer.place()
    wanted = " / ".join(cut(w.text, _QUOTE) for w in answer.wanted[:3])
    found = cut(answer.found[0], _QUOTE) if answer.found else "nothing"
    places = [answer.place(ranking) for ranking in RANKINGS]
    return [
        cut(answer.question.query),
        wanted,
        "a right answer" if first == 1 else found,
        f"{score:.3f}",
        *("-" if place is None else str(place) for place in places),
    ]
