"""How long forgetting with proof takes, and that the proof can fail."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agentmem import F, Memory
from benchmarks._datasets import Dataset
from benchmarks._scale import build


async def run_purge(folder: Path, dataset: Dataset, rows: int, console: Console) -> None:
    """Purge one document, then half of the rest, from a memory of `rows` documents."""
    await build(folder, dataset, rows, console)
    table = Table(title=f"purge from {rows:,} documents")
    headers = ("documents", "seconds", "scan s", "files", "MB scanned", "fingerprints", "found")
    for header in headers:
        table.add_column(header, justify="right")
    async with Memory(folder) as memory:
        for where in (F("row") == rows // 2, F("percent") < 50):
            start = time.perf_counter()
            result = await memory.forget(where=where, purge=True)
            seconds = time.perf_counter() - start
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
    console.print(f"verify: {'no findings' if verified else 'FINDINGS'}")
