"""Keeps raw results in a DuckDB file: one row a run, one a query and ranking."""

from __future__ import annotations

import json
import os
import platform
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run VARCHAR PRIMARY KEY, started TIMESTAMPTZ, kind VARCHAR, dataset VARCHAR,
    machine JSON, versions JSON, settings JSON
);
CREATE TABLE IF NOT EXISTS rankings (
    run VARCHAR, query VARCHAR, category VARCHAR, ranking VARCHAR,
    documents VARCHAR[], relevant VARCHAR[]
);
CREATE TABLE IF NOT EXISTS timings (
    run VARCHAR, query VARCHAR, stage VARCHAR, milliseconds DOUBLE
);
ALTER TABLE rankings ADD COLUMN IF NOT EXISTS scores DOUBLE[];
"""
_PACKAGES = ("agentmem", "numpy", "onnxruntime", "tokenizers", "tantivy", "apsw", "sqlite-vec")


class Record:
    """An open file of results and the run that is being added to it.

    Parameters
    ----------
    path
        DuckDB file; created when missing.
    kind, dataset, settings
        What is measured.
    """

    def __init__(self, path: Path, *, kind: str, dataset: str, settings: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = duckdb.connect(str(path))
        self._connection.execute(_SCHEMA)
        self.run = uuid.uuid4().hex
        self._connection.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                self.run,
                datetime.now(UTC),
                kind,
                dataset,
                json.dumps(machine()),
                json.dumps({name: version(name) for name in _PACKAGES}),
                json.dumps(dict(settings), default=str),
            ],
        )

    def __enter__(self) -> Record:
        """Return the record."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._connection.close()

    def add_rankings(
        self, rows: Iterable[tuple[str, str, str, list[str], list[str], list[float | None]]]
    ) -> None:
        """Add (query, category, ranking, documents, relevant, scores of the documents)."""
        self._insert("rankings", rows)

    def add_timings(self, rows: Iterable[tuple[str, str, float]]) -> None:
        """Add (query, stage, milliseconds)."""
        self._insert("timings", rows)

    def _insert(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        values = [[self.run, *row] for row in rows]
        if not values:
            return
        marks = ", ".join("?" * len(values[0]))
        self._connection.begin()
        self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
        self._connection.commit()


def machine() -> dict[str, Any]:
    """Describe the machine."""
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "processor": _processor(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    """Return the processor's name where the system tells it, else its kind."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line)
    return next(names, platform.machine())
