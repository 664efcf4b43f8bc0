"""Runs the cases of a suite one after the other, each in a process of its own, and keeps what came.

A case that fails does not stop the others; what it said is kept as its error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks._material import is_there
from benchmarks._results import Results
from benchmarks._suite import Case, Suite

_ROOT = Path(__file__).resolve().parents[1]
_LAST_LINES = 5


@dataclass(frozen=True, slots=True)
class Place:
    """Where data sets lie and temporary files may."""

    data: Path | None
    temporary: Path | None = None


def run_suite(
    name: str,
    suite: Suite,
    results: Results,
    place: Place,
    console: Console,
    *,
    only: Sequence[str] = (),
) -> str:
    """Run a suite and return the name of the run. `only` chooses cases by id."""
    run = results.start(name, suite.title)
    chosen = [case for case in suite.case if not only or case.id in only]
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as bar:
        whole = bar.add_task(name, total=len(chosen))
        for case in chosen:
            results.add_case(run, case)
            if not is_there(case, place.data):
                results.add_error(run, case.id, f"the set {case.data!r} is not here; see --data")
            else:
                task = bar.add_task(case.id)

                def tell(step: dict[str, Any], task: Any = task, title: str = case.id) -> None:
                    bar.update(
                        task,
                        description=f"{title}: {step['what']}",
                        completed=step["done"],
                        total=step["total"],
                    )

                results.add_result(run, case.id, run_alone(case, place, tell))
                bar.remove_task(task)
            bar.advance(whole)
    return run


def run_alone(case: Case, place: Place, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run a case in a new process and return its result, or what went wrong."""
    with tempfile.TemporaryDirectory(prefix="agentmem-", dir=place.temporary) as temporary:
        folder = Path(temporary) / "store"
        folder.mkdir()
        job = {
            "case": case.model_dump(mode="json"),
            "data": None if place.data is None else str(place.data.resolve()),
            "folder": str(folder),
            "again": False,
        }
        result = _worked(job, Path(temporary), tell)
        if case.reopen and "error" not in result:
            again = _worked({**job, "again": True}, Path(temporary), tell)
            if "error" in again:
                return again
            result["facts"] |= again["facts"]
        return result


def _worked(
    job: dict[str, Any], place: Path, tell: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Have a job done by a new process."""
    path, out, said = (place / name for name in ("job.json", "out.json", "said.txt"))
    out.unlink(missing_ok=True)
    path.write_text(json.dumps({**job, "out": str(out)}), encoding="utf-8")
    with said.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._worker", str(path)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=_ROOT,
            env={**os.environ, **_QUIET},
        )
        with process:
            for line in process.stdout or ():
                if line.startswith('{"what"'):
                    tell(json.loads(line))
    if not out.exists():
        last = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return {"error": "\n".join(last[-_LAST_LINES:]) or f"exit code {process.returncode}"}
    result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return result


# Packages of others that would call home; a measurement is nobody's business.
_QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "MEM0_TELEMETRY": "False",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
