"""Draws a run: quality against latency, where the time goes, latency against rows, costs."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks._results import Results, all_values
from benchmarks._suite import Case

mpl.use("svg")

_SIZE = (8.2, 4.2)
_COLOURS = (
    "#2f6690", "#d1603d", "#4d9078", "#8a5a83", "#c9a227", "#5b6770",
    "#a23b5a", "#7fb069", "#1d3557", "#e9a17c", "#b5c9c3", "#3d3a4b",
)  # fmt: skip
_PARAMETERS: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e6e8",
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "agentmem",
    "legend.frameon": False,
}
Values = dict[str, dict[str, float]]


def plots_of(results: Results, run: str) -> list[str]:
    """Return the plots that the measures of a run allow, as SVG."""
    cases = [case for case, error in results.cases(run) if error is None]
    values = all_values(results, run, cases)
    with mpl.rc_context(_PARAMETERS):
        drawn = [draw(cases, values) for draw in _PLOTS]
    return [svg for svg in drawn if svg is not None]


def _quality_against_latency(cases: Sequence[Case], values: Values) -> str | None:
    shown = [c for c in cases if {"ndcg@10", "p50_ms"} <= values[c.id].keys()]
    if len(shown) < 2:
        return None
    figure, axes = _axes("Quality against latency", "median milliseconds of a search", "nDCG@10")
    for place, case in enumerate(shown):
        x, y = values[case.id]["p50_ms"], values[case.id]["ndcg@10"]
        axes.scatter([x], [y], s=60, color=_colour(place), zorder=3, label=case.id)
    axes.set_xlim(left=0)
    figure.legend(loc="outside right upper")
    return _svg(figure)


def _time_by_part(cases: Sequence[Case], values: Values) -> str | None:
    shown = [c for c in cases if any(n.startswith("mean_ms/") for n in values[c.id])]
    if not shown:
        return None
    parts = list(
        dict.fromkeys(
            name.partition("/")[2]
            for case in shown
            for name in values[case.id]
            if name.startswith("mean_ms/")
        )
    )
    figure, axes = _axes("Where the time goes", "mean milliseconds of a search", "")
    names = [case.id for case in shown][::-1]
    left = [0.0] * len(shown)
    for place, part in enumerate(parts):
        widths = [values[name].get(f"mean_ms/{part}", 0.0) for name in names]
        axes.barh(names, widths, left=left, color=_colour(place), label=part, height=0.62)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.grid(visible=False, axis="y")
    figure.legend(ncols=min(len(parts), 6), loc="outside lower center")
    figure.set_size_inches(_SIZE[0], 1.8 + 0.42 * len(shown))
    return _svg(figure)


def _latency_against_rows(cases: Sequence[Case], values: Values) -> str | None:
    groups: dict[str, list[tuple[int, float]]] = {}
    for case in cases:
        if case.rows is not None and "p50_ms" in values[case.id]:
            name = case.system
            name += f", {case.users:,} users" if case.users > 1 else ""
            name += f", filter {case.passing:.2%}" if case.passing < 1 else ""
            groups.setdefault(name, []).append((case.rows, values[case.id]["p50_ms"]))
    if not any(len(points) > 1 for points in groups.values()):
        return None
    figure, axes = _axes("Latency against rows", "rows in the store", "median milliseconds")
    for place, (name, points) in enumerate(groups.items()):
        rows, times = zip(*sorted(points), strict=True)
        axes.plot(rows, times, marker="o", color=_colour(place), label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend()
    return _svg(figure)


def _bars(measure: str, title: str, label: str) -> Callable[[Sequence[Case], Values], str | None]:
    def draw(cases: Sequence[Case], values: Values) -> str | None:
        shown = [case for case in cases if measure in values[case.id]]
        if len(shown) < 2:
            return None
        figure, axes = _axes(title, label, "")
        names = [case.id for case in shown][::-1]
        bars = axes.barh(names, [values[n][measure] for n in names], color=_colour(0), height=0.62)
        axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=9)
        axes.grid(visible=False, axis="y")
        figure.set_size_inches(_SIZE[0], 1.2 + 0.36 * len(shown))
        return _svg(figure)

    return draw


_PLOTS: tuple[Callable[[Sequence[Case], Values], str | None], ...] = (
    _quality_against_latency,
    _time_by_part,
    _latency_against_rows,
    _bars("rows_per_s", "Writing", "rows a second, embedding included"),
    _bars("rss_mb", "Memory", "resident MiB after the questions"),
    _bars("disk_bytes_per_row", "Disk", "bytes a row"),
)


def _axes(title: str, x: str, y: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]


def _svg(figure: Figure) -> str:
    """Return the drawing as the text of an `svg` element."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]
