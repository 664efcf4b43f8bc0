"""Writes what was measured as one HTML page with plots, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from agentmem.evaluation import by_query, compare
from agentmem.evaluation._page import html_table, page
from agentmem.evaluation._tables import Table, difference_cells, number
from benchmarks._check import Row, rows_of, wanted
from benchmarks._plots import plots_of
from benchmarks._results import Results, all_values
from benchmarks._suite import Case

# Column of a table, and the measure in it.
_QUALITY = ("recall@1", "recall@10", "mrr", "ndcg@10")
_SPEED = ("p50_ms", "p95_ms", "rows_per_s", "share_of_embedding", "open_and_search_s")
_SIZE = ("rss_mb", "disk_bytes_per_row")
_LOAD = ("write_ms", "write_over_bare", "searches_per_s", "together", "slowest", "stall_ms")
_NAMES = {
    "p50_ms": "p50, ms",
    "p95_ms": "p95, ms",
    "rows_per_s": "rows written/s",
    "share_of_embedding": "of bare embedding",
    "open_and_search_s": "open + search, s",
    "rss_mb": "memory, MB",
    "disk_bytes_per_row": "disk, bytes/row",
    "write_ms": "one write, ms",
    "write_over_bare": "over embedding + fsync",
    "searches_per_s": "searches/s, one at a time",
    "together": "16 at a time over one",
    "slowest": "p95/p50 of 16",
    "stall_ms": "loop late with 200 calls, p99.9 ms",
}


def write_report(
    results: Results, runs: Sequence[str], *, html: Path | None, markdown: Path | None
) -> list[Path]:
    """Write the runs in the forms that are asked for and return the files."""
    written = []
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(_page(results, runs), encoding="utf-8")
        written.append(html)
    if markdown is not None:
        markdown.parent.mkdir(parents=True, exist_ok=True)
        markdown.write_text(_markdown(results, runs), encoding="utf-8")
        written.append(markdown)
    return written


def tables_of(results: Results, run: str) -> list[Table]:
    """Return what a run says as tables: each case, its rankings, expectations, comparisons."""
    cases = [case for case, error in results.cases(run) if error is None]
    values = all_values(results, run, cases)
    tables = [_cases(cases, values), _loaded(cases, values)]
    tables += [_stages(cases, values), _rankings(cases, values)]
    tables += [_expectations(rows_of(results, run)), _comparisons(results, run, cases)]
    tables.append(_errors(results, run))
    return [table for table in tables if table[2]]


def _cases(cases: Sequence[Case], values: dict[str, dict[str, float]]) -> Table:
    known = [
        name for name in (*_QUALITY, *_SPEED, *_SIZE) if any(name in v for v in values.values())
    ]
    rows = [
        [case.id, case.system, _size(case), *(_shown(values[case.id], name) for name in known)]
        for case in cases
    ]
    return "Cases", ["case", "system", "data", *(_NAMES.get(n, n) for n in known)], rows


def _loaded(cases: Sequence[Case], values: dict[str, dict[str, float]]) -> Table:
    rows = [
        [case.id, *(_shown(values[case.id], name) for name in _LOAD)]
        for case in cases
        if _LOAD[0] in values[case.id]
    ]
    return "Under load", ["case", *(_NAMES[name] for name in _LOAD)], rows


def _size(case: Case) -> str:
    if case.data != "scale":
        return case.data
    users = f", {case.users:,} users" if case.users > 1 else ""
    passing = f", filter {case.passing:.2%}" if case.passing < 1 else ""
    return f"{case.rows or 0:,} rows{users}{passing}"


def _shown(values: dict[str, float], name: str) -> str:
    value = values.get(name)
    return "" if value is None else number(value)


def _stages(cases: Sequence[Case], values: dict[str, dict[str, float]]) -> Table:
    parts = list(
        dict.fromkeys(
            name.partition("/")[2]
            for case in cases
            for name in values[case.id]
            if name.startswith("p50_ms/")
        )
    )
    rows = [
        [case.id, *(_shown(values[case.id], f"p50_ms/{part}") for part in parts)] for case in cases
    ]
    return "Median milliseconds by part", ["case", *parts], rows if parts else []


def _rankings(cases: Sequence[Case], values: dict[str, dict[str, float]]) -> Table:
    rows = []
    for case in cases:
        for ranking in ("vector", "lexical", "fused"):
            if f"ndcg@10/{ranking}" in values[case.id]:
                shown = [_shown(values[case.id], f"{name}/{ranking}") for name in _QUALITY]
                rows.append([f"{case.id}: {ranking}", *shown])
        if rows and rows[-1][0].startswith(f"{case.id}: "):
            shown = [_shown(values[case.id], name) for name in _QUALITY]
            rows.append([f"{case.id}: full", *shown])
    return "Quality after each stage", ["ranking", *_QUALITY], rows


def _expectations(rows: Sequence[Row]) -> Table:
    return (
        "Expected and measured",
        ["case", "measure", "expected", "measured", "verdict"],
        [
            [
                r.case,
                r.measure,
                wanted(r.expected),
                "" if r.value is None else number(r.value),
                r.verdict,
            ]
            for r in rows
        ],
    )


def _comparisons(results: Results, run: str, cases: Sequence[Case]) -> Table:
    """Compare every case with the first one on the same data, question by question."""
    first: dict[str, tuple[str, dict[str, float]]] = {}
    rows = []
    for case in cases:
        ranked = results.rankings(run, case.id).get("full")
        if not ranked:
            continue
        mine = by_query(ranked, "ndcg@10")
        if case.data not in first:
            first[case.data] = case.id, mine
            continue
        name, theirs = first[case.data]
        difference = compare(theirs, mine)
        if difference is not None:
            rows.append([f"{case.id} against {name}", *difference_cells(difference)])
    headers = ["nDCG@10, paired", "questions", "difference", "95 % interval", "p"]
    return "Differences", headers, rows


def _errors(results: Results, run: str) -> Table:
    rows = [[case.id, error] for case, error in results.cases(run) if error is not None]
    return "Not measured", ["case", "why"], rows


# ------------------------------------------------------------------------- forms


def _page(results: Results, runs: Sequence[str]) -> str:
    parts = []
    for run in runs:
        about = results.about(run)
        parts.append(f"<h2>{escape(about['title'])}</h2>")
        parts.append(f'<p class="soft">{escape(_about(about))}</p>')
        parts += plots_of(results, run)
        parts += [html_table(table) for table in tables_of(results, run)]
    return page("agentmem: measurements", parts)


def _markdown(results: Results, runs: Sequence[str]) -> str:
    parts = []
    for run in runs:
        about = results.about(run)
        parts += [f"## {about['title']}", _about(about)]
        for title, headers, rows in tables_of(results, run):
            lines = [f"| {' | '.join(headers)} |", f"|{'---|' * len(headers)}"]
            lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
            parts += [f"### {title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _about(about: dict[str, Any]) -> str:
    machine = about["machine"]
    packages = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    return (
        f"{about['started']:%Y-%m-%d %H:%M} UTC, {machine['cores']} cores of "
        f"{machine['processor']}, {machine['system']}, Python {machine['python']}; {packages}."
    )
