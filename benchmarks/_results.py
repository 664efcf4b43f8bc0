"""Keeps raw results in a DuckDB file and derives every measure from them.

One row for a run, a case, a fact of a case, the time of a part of a question, and a ranking of a
question. Nothing is averaged before it is stored.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from agentmem.evaluation import measures_of
from benchmarks._machine import machine, versions
from benchmarks._suite import Case, ratio_of

_SCHEMA = """
CREATE TABLE IF NOT EXISTS suite_runs (
    run VARCHAR PRIMARY KEY, suite VARCHAR, title VARCHAR, started TIMESTAMPTZ,
    machine JSON, versions JSON
);
CREATE TABLE IF NOT EXISTS cases (
    run VARCHAR, "case" VARCHAR, place INTEGER, system VARCHAR, data VARCHAR, definition JSON,
    error VARCHAR, PRIMARY KEY (run, "case")
);
CREATE TABLE IF NOT EXISTS facts (run VARCHAR, "case" VARCHAR, name VARCHAR, value DOUBLE);
CREATE TABLE IF NOT EXISTS times (
    run VARCHAR, "case" VARCHAR, query VARCHAR, part VARCHAR, milliseconds DOUBLE
);
CREATE TABLE IF NOT EXISTS ranked (
    run VARCHAR, "case" VARCHAR, query VARCHAR, category VARCHAR, ranking VARCHAR,
    documents VARCHAR[], relevant VARCHAR[]
);
"""
_PERCENTILES = """
SELECT part, quantile_cont(milliseconds, [0.5, 0.95, 0.99]), avg(milliseconds)
FROM times WHERE run = ? AND "case" = ? GROUP BY part ORDER BY min(rowid)
"""


class Results:
    """An open file of results."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = duckdb.connect(str(path), read_only=read_only)
        if not read_only:
            self._connection.execute(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    # ------------------------------------------------------------------ writing

    def start(self, suite: str, title: str) -> str:
        """Begin a run and return its name."""
        run = uuid.uuid4().hex
        self._connection.execute(
            "INSERT INTO suite_runs VALUES (?, ?, ?, ?, ?, ?)",
            [run, suite, title, datetime.now(UTC), json.dumps(machine()), json.dumps(versions())],
        )
        return run

    def add_case(self, run: str, case: Case) -> None:
        """Note that a case belongs to a run."""
        self._connection.execute(
            "INSERT INTO cases SELECT ?, ?, COUNT(*), ?, ?, ?, NULL FROM cases WHERE run = ?",
            [run, case.id, case.system, case.data, case.model_dump_json(), run],
        )

    def add_error(self, run: str, case: str, error: str) -> None:
        """Note why a case gave nothing."""
        self._connection.execute(
            'UPDATE cases SET error = ? WHERE run = ? AND "case" = ?', [error, run, case]
        )

    def add_result(self, run: str, case: str, result: dict[str, Any]) -> None:
        """Store what a worker has measured."""
        if "error" in result:
            self.add_error(run, case, result["error"])
            return
        self._insert("facts", ([run, case, *fact] for fact in result["facts"].items()))
        self._insert(
            "times",
            (
                [run, case, query, part, milliseconds]
                for query, parts in result["times"]
                for part, milliseconds in parts.items()
            ),
        )
        names = ("query", "category", "ranking", "documents", "relevant")
        self._insert(
            "ranked", ([run, case, *(row[name] for name in names)] for row in result["rankings"])
        )

    def _insert(self, table: str, rows: Iterable[list[Any]]) -> None:
        values = list(rows)
        if values:
            marks = ", ".join("?" * len(values[0]))
            self._connection.begin()
            self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
            self._connection.commit()

    # ------------------------------------------------------------------ reading

    def last_run(self, suite: str) -> str | None:
        """Return the newest run of a suite."""
        row = self._connection.execute(
            "SELECT run FROM suite_runs WHERE suite = ? ORDER BY started DESC LIMIT 1", [suite]
        ).fetchone()
        return None if row is None else str(row[0])

    def about(self, run: str) -> dict[str, Any]:
        """Return title, time, machine and versions of a run."""
        row = self._connection.execute(
            "SELECT suite, title, started, machine, versions FROM suite_runs WHERE run = ?", [run]
        ).fetchone()
        if row is None:
            raise KeyError(run)
        return {
            "suite": row[0],
            "title": row[1],
            "started": row[2],
            "machine": json.loads(row[3]),
            "versions": json.loads(row[4]),
        }

    def cases(self, run: str) -> list[tuple[Case, str | None]]:
        """Return the cases of a run in order, each with its error."""
        rows = self._connection.execute(
            "SELECT definition, error FROM cases WHERE run = ? ORDER BY place", [run]
        ).fetchall()
        return [(Case.model_validate_json(row[0]), row[1]) for row in rows]

    def values(self, run: str, case: str) -> dict[str, float]:
        """Return every measure of a case: facts, percentiles of times, quality of rankings."""
        found: dict[str, float] = dict(
            self._connection.execute(
                'SELECT name, value FROM facts WHERE run = ? AND "case" = ?', [run, case]
            ).fetchall()
        )
        for part, (median, high, highest), mean in self._connection.execute(
            _PERCENTILES, [run, case]
        ).fetchall():
            suffix = "" if part == "total" else f"/{part}"
            found[f"p50_ms{suffix}"], found[f"p95_ms{suffix}"] = median, high
            found[f"p99_ms{suffix}"], found[f"mean_ms{suffix}"] = highest, mean
        for ranking, rows in self.rankings(run, case).items():
            suffix = "" if ranking == "full" else f"/{ranking}"
            for name, value in measures_of(rows).items():
                found[f"{name}{suffix}"] = value
        return found

    def rankings(self, run: str, case: str) -> dict[str, list[tuple[str, list[str], list[str]]]]:
        """Return (query, documents, relevant) of each ranking of a case."""
        found: dict[str, list[tuple[str, list[str], list[str]]]] = {}
        for ranking, query, documents, relevant in self._connection.execute(
            'SELECT ranking, query, documents, relevant FROM ranked WHERE run = ? AND "case" = ? '
            "ORDER BY ranking, query",
            [run, case],
        ).fetchall():
            found.setdefault(ranking, []).append((query, documents, relevant))
        return found

    def times(self, run: str, case: str, part: str = "total") -> list[float]:
        """Return the milliseconds of one part of every question."""
        rows = self._connection.execute(
            'SELECT milliseconds FROM times WHERE run = ? AND "case" = ? AND part = ?',
            [run, case, part],
        ).fetchall()
        return [row[0] for row in rows]


def measured(measure: str, case: str, values: dict[str, dict[str, float]]) -> float | None:
    """Return a measure of a case, or the ratio that its name describes."""
    ratio = ratio_of(measure)
    if ratio is None:
        return values.get(case, {}).get(measure)
    name, other = ratio
    above, below = values.get(case, {}).get(name), values.get(other, {}).get(name)
    return None if above is None or not below else above / below


def all_values(results: Results, run: str, cases: Sequence[Case]) -> dict[str, dict[str, float]]:
    """Return every measure of every case."""
    return {case.id: results.values(run, case.id) for case in cases}
