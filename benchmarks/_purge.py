"""How long forgetting with proof takes, and that the proof can fail."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agentmem import F, Memory
from benchmarks._material import prepare
from benchmarks._suite import Case

_BATCH = 2_000


async def run_purge(folder: Path, data: Path | None, rows: int, console: Console) -> None:
    """Purge one document, then half of the rest, from a memory of `rows` documents."""
    case = Case(id="purge", system="embedded", data="scale", rows=rows, passing=0.5)
    material = await prepare(case, data)
    documents = list(material.documents)
    table = Table(title=f"purge from {rows:,} documents")
    headers = ("documents", "seconds", "scan s", "files", "MB scanned", "fingerprints", "found")
    for header in headers:
        table.add_column(header, justify="right")
    async with Memory(folder, embedder=material.embedder) as memory:
        for start in range(0, rows, _BATCH):
            await memory.write(documents[start : start + _BATCH])
        await memory.search("build the text index")
        for wanted in ({"key": documents[rows // 2].key}, {"where": F("gate") == 0}):
            begin = time.perf_counter()
            result = await memory.forget(**wanted, purge=True, confirm=True)
            seconds = time.perf_counter() - begin
            scan = result.scan
            if scan is None:
                raise RuntimeError("a purge in a folder must be followed by a scan")
            table.add_row(
                str(result.count),
                f"{seconds:.2f}",
                f"{scan.milliseconds / 1000:.2f}",
                str(scan.files),
                f"{scan.bytes / 1e6:.1f}",
                str(scan.fingerprints),
                ", ".join(scan.found) or "nothing",
            )
        verified = (await memory.verify()).ok
    console.print(table)
    await material.embedder.close()
    console.print(f"verify: {'no findings' if verified else 'FINDINGS'}")
