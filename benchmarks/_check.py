"""Holds what was measured against what a suite expects: OK, near or FAIL for each measure."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from agentmem.evaluation._tables import number
from benchmarks._results import Results, all_values, measured
from benchmarks._suite import Expected, Verdict

_STYLES: dict[Verdict, str] = {
    "OK": "green",
    "near": "yellow",
    "FAIL": "bold red",
    "not measured": "dim",
}
_SIGNS = {"about": "", "least": ">= ", "most": "<= "}


@dataclass(frozen=True, slots=True)
class Row:
    """One expected value and what came of it."""

    case: str
    measure: str
    expected: Expected
    value: float | None
    verdict: Verdict


def rows_of(results: Results, run: str) -> list[Row]:
    """Return every expectation of a run with its verdict, in the order of the suite."""
    cases = [case for case, _ in results.cases(run)]
    values = all_values(results, run, cases)
    rows = []
    for case in cases:
        for measure, expected in case.expect.items():
            value = measured(measure, case.id, values)
            rows.append(Row(case.id, measure, expected, value, expected.verdict(value)))
    return rows


def print_check(rows: list[Row], errors: dict[str, str], console: Console) -> None:
    """Print a line for each expectation, and why cases gave nothing."""
    table = Table(title="measured against expected")
    for header in ("case", "measure", "expected", "measured", ""):
        right = header in ("expected", "measured")
        table.add_column(header, justify="right" if right else "left")
    for row in rows:
        table.add_row(
            row.case,
            row.measure,
            wanted(row.expected),
            "" if row.value is None else number(row.value),
            f"[{_STYLES[row.verdict]}]{row.verdict}[/]",
        )
    console.print(table)
    for case, error in errors.items():
        console.print(f"{case}: {error}", markup=False, soft_wrap=True)


def wanted(expected: Expected) -> str:
    """Return an expected value as it is shown."""
    tolerance = f" ± {number(expected.tolerance)}" if expected.tolerance else ""
    return f"{_SIGNS[expected.bound]}{number(expected.value)}{tolerance}"
