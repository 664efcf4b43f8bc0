"""Draws a run: quality against latency, where the time goes, latency against rows, costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentmem.evaluation._page import SIZE, axes, colour, drawing, svg
from benchmarks._results import Results, all_values
from benchmarks._suite import Case

Values = dict[str, dict[str, float]]


def plots_of(results: Results, run: str) -> list[str]:
    """Return the plots that the measures of a run allow, as SVG."""
    cases = [case for case, error in results.cases(run) if error is None]
    values = all_values(results, run, cases)
    with drawing():
        drawn = [draw(cases, values) for draw in _PLOTS]
    return [text for text in drawn if text is not None]


def _quality_against_latency(cases: Sequence[Case], values: Values) -> str | None:
    shown = [c for c in cases if {"ndcg@10", "p50_ms"} <= values[c.id].keys()]
    if len(shown) < 2:
        return None
    figure, plot = axes("Quality against latency", "median milliseconds of a search", "nDCG@10")
    for place, case in enumerate(shown):
        x, y = values[case.id]["p50_ms"], values[case.id]["ndcg@10"]
        plot.scatter([x], [y], s=60, color=colour(place), zorder=3, label=case.id)
    plot.set_xlim(left=0)
    figure.legend(loc="outside right upper")
    return svg(figure)


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
    figure, plot = axes("Where the time goes", "mean milliseconds of a search", "")
    names = [case.id for case in shown][::-1]
    left = [0.0] * len(shown)
    for place, part in enumerate(parts):
        widths = [values[name].get(f"mean_ms/{part}", 0.0) for name in names]
        plot.barh(names, widths, left=left, color=colour(place), label=part, height=0.62)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    plot.grid(visible=False, axis="y")
    figure.legend(ncols=min(len(parts), 6), loc="outside lower center")
    figure.set_size_inches(SIZE[0], 1.8 + 0.42 * len(shown))
    return svg(figure)


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
    figure, plot = axes("Latency against rows", "rows in the store", "median milliseconds")
    for place, (name, points) in enumerate(groups.items()):
        rows, times = zip(*sorted(points), strict=True)
        plot.plot(rows, times, marker="o", color=colour(place), label=name)
    plot.set_xscale("log")
    plot.set_yscale("log")
    plot.legend()
    return svg(figure)


def _bars(measure: str, title: str, label: str) -> Callable[[Sequence[Case], Values], str | None]:
    def draw(cases: Sequence[Case], values: Values) -> str | None:
        shown = [case for case in cases if measure in values[case.id]]
        if len(shown) < 2:
            return None
        figure, plot = axes(title, label, "")
        names = [case.id for case in shown][::-1]
        bars = plot.barh(names, [values[n][measure] for n in names], color=colour(0), height=0.62)
        plot.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=9)
        plot.grid(visible=False, axis="y")
        figure.set_size_inches(SIZE[0], 1.2 + 0.36 * len(shown))
        return svg(figure)

    return draw


_PLOTS: tuple[Callable[[Sequence[Case], Values], str | None], ...] = (
    _quality_against_latency,
    _time_by_part,
    _latency_against_rows,
    _bars("rows_per_s", "Writing", "rows a second, embedding included"),
    _bars("rss_mb", "Memory", "resident MiB after the questions"),
    _bars("disk_bytes_per_row", "Disk", "bytes a row"),
)
