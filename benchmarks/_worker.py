"""Runs one case in a process of its own, so that neither memory nor imports of others count.

Called as ``python -m benchmarks._worker JOB.json``; writes progress to standard output, one JSON
object a line, and the result to the file that the job names.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentmem import Document
from benchmarks._datasets import DataError
from benchmarks._household import OWN_SETS
from benchmarks._load import under_load
from benchmarks._material import Asked, Material, NoisyEmbedder, prepare
from benchmarks._own import run_own
from benchmarks._suite import Case
from benchmarks.systems import find_system
from benchmarks.systems.base import System

_BATCH = 256
_LARGE_BATCH = 2_000
_DEPTH = 100
_WARM = 10


async def run_case(job: dict[str, Any]) -> dict[str, Any]:
    """Measure one case and return facts, times and rankings."""
    case = Case.model_validate(job["case"])
    if case.data in OWN_SETS:
        return await run_own(case, Path(job["folder"]))
    kind = find_system(case.system)
    material = await prepare(case, Path(job["data"]) if job["data"] else None)
    folder = Path(job["folder"])
    system = kind(folder, material.embedder, case.settings)
    if job["again"]:
        return await _opened_again(system, material, case.k)
    bare = await _bare(material)
    await system.open()
    try:
        facts = await _fill(system, material)
        if bare is not None:
            facts["share_of_embedding"] = facts["rows_per_s"] / bare
        facts["disk_bytes_per_row"] = _size(folder) / material.count
        times = await _timed(system, material.questions, case.k)
        facts["rss_mb"] = _memory("VmRSS")
        rankings = await _ranked(system, material.questions)
        if case.load:
            facts |= await under_load(system, material, case.k)
    finally:
        await system.close()
        await material.embedder.close()
    facts["peak_mb"] = _memory("VmHWM")
    return {"facts": facts, "times": times, "rankings": rankings}


async def _opened_again(system: System, material: Material, k: int) -> dict[str, Any]:
    """Measure opening a store that is there, and its first search."""
    start = time.perf_counter()
    await system.open()
    opened = time.perf_counter()
    await system.search(material.questions[0].question, k)
    end = time.perf_counter()
    await system.close()
    await material.embedder.close()
    facts = {"open_s": opened - start, "open_and_search_s": end - start}
    return {"facts": facts, "times": [], "rankings": []}


async def _bare(material: Material) -> float | None:
    """Return how many texts a second the model alone embeds; None where it does not embed them."""
    if isinstance(material.embedder, NoisyEmbedder):
        return None
    texts = [document.content for document in material.sample]
    await material.embedder.embed_passages(texts[:_WARM])
    start = time.perf_counter()
    await material.embedder.embed_passages(texts)
    return len(texts) / (time.perf_counter() - start)


async def _fill(system: System, material: Material) -> dict[str, float]:
    size = _BATCH if material.count < 10 * _LARGE_BATCH else _LARGE_BATCH
    done, spent = 0, 0.0
    batch: list[Document] = []
    for document in material.documents:
        batch.append(document)
        if len(batch) == size or done + len(batch) == material.count:
            start = time.perf_counter()
            await system.write(batch)
            spent += time.perf_counter() - start
            done += len(batch)
            batch = []
            _tell("writing", done, material.count)
    start = time.perf_counter()
    await system.settle()
    settled = time.perf_counter() - start
    return {
        "rows": float(material.count),
        "rows_per_s": material.count / spent,
        "settle_s": settled,
    }


async def _timed(
    system: System, questions: Sequence[Asked], k: int
) -> list[tuple[str, dict[str, float]]]:
    for asked in questions[:_WARM]:
        await system.search(asked.question, k)
    times = []
    for number, asked in enumerate(questions, start=1):
        answer = await system.search(asked.question, k)
        times.append((asked.id, answer.milliseconds))
        _tell("asking", number, len(questions))
    return times


async def _ranked(system: System, questions: Sequence[Asked]) -> list[dict[str, Any]]:
    """Return deep rankings of the questions whose answers are known."""
    judged = [asked for asked in questions if asked.relevant]
    rows = []
    for number, asked in enumerate(judged, start=1):
        answer = await system.explain(asked.question, _DEPTH)
        for name, keys in {**answer.rankings, "full": answer.keys}.items():
            rows.append(
                {
                    "query": asked.id,
                    "category": asked.category,
                    "ranking": name,
                    "documents": keys,
                    "relevant": sorted(asked.relevant),
                }
            )
        _tell("ranking", number, len(judged))
    return rows


def _tell(what: str, done: int, total: int) -> None:
    print(json.dumps({"what": what, "done": done, "total": total}), flush=True)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _memory(name: str) -> float:
    """Return resident memory of this process in MiB, now (VmRSS) or at most (VmHWM)."""
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux: the peak is the nearest that can be asked for
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(row for row in status.read_text().splitlines() if row.startswith(name))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Run the job that the command line names."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        result = asyncio.run(run_case(job))
    except DataError as error:
        result = {"error": str(error)}
    Path(job["out"]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
