"""What a store gives while much is asked of it at once: throughput, writes, held-up loops."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import numpy as np

from agentmem import Document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from benchmarks._material import Asked, Material
    from benchmarks.systems.base import System

_TOGETHER = 16
_ASKED = 400
_SINGLE = 60
_TASKS = 200
_ROUNDS = 5
# What a small transaction appends to a log.
_PAGE = b"\0" * 4096
_TICK = 0.001

Ask = Callable[[int], Awaitable[None]]


async def under_load(system: System, material: Material, k: int) -> dict[str, float]:
    """Return facts about an open, filled system.

    ``write_ms`` is the median of durable writes of one document, ``write_over_bare`` its ratio to
    the embedding of one and an fsync. ``together`` is the throughput of sixteen searches at a time
    over that of one at a time, ``slowest`` their p95 over their median. ``stall_ms`` is the 99.9th
    percentile of how late the loop comes back to a task that sleeps a millisecond, while 200 tasks
    write and search at once.
    """
    questions = [asked.question for asked in material.questions]

    async def ask(number: int) -> None:
        await system.search(questions[number % len(questions)], k)

    number = 0

    async def write() -> None:
        nonlocal number
        number += 1
        document = material.sample[number % len(material.sample)]
        await system.write([_renamed(document, number, material.questions)])

    facts = await _single_writes(write, material, system.folder)
    facts |= await _throughput(ask)
    facts["stall_ms"] = await _stall(ask, write)
    return facts


def _renamed(document: Document, number: int, asked: Sequence[Asked]) -> Document:
    """Return a document of one of the users who ask, under a key of its own."""
    owner = asked[number % len(asked)].question
    return Document(
        document.content,
        key=f"load-{number}",
        user_id=owner.user_id,
        collection=owner.collection,
        metadata=dict(owner.where),
    )


async def _single_writes(
    write: Callable[[], Awaitable[None]], material: Material, folder: Path
) -> dict[str, float]:
    """Measure writes and their parts in turns, so that both see the same machine."""
    whole, bare = [], []
    with (folder / "appended").open("ab") as log:
        for number in range(_SINGLE):
            start = time.perf_counter()
            await material.embedder.embed_passages([material.sample[number].content])
            log.write(_PAGE)
            log.flush()
            await asyncio.to_thread(os.fsync, log.fileno())
            middle = time.perf_counter()
            await write()
            bare.append(middle - start)
            whole.append(time.perf_counter() - middle)
    middle_write = float(np.median(whole))
    return {
        "write_ms": 1000 * middle_write,
        "write_over_bare": middle_write / float(np.median(bare)),
    }


async def _throughput(ask: Ask) -> dict[str, float]:
    alone = await _pace(ask, 1)
    together = await _pace(ask, _TOGETHER)
    return {
        "searches_per_s": len(alone[0]) / alone[1],
        "together": alone[1] / together[1],
        "slowest": float(np.quantile(together[0], 0.95) / np.median(together[0])),
    }


async def _pace(ask: Ask, at_once: int) -> tuple[list[float], float]:
    """Return the seconds of each search and of all, with so many under way at any time."""
    numbers = iter(range(_ASKED))
    taken = []

    async def worker() -> None:
        for number in numbers:
            start = time.perf_counter()
            await ask(number)
            taken.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return taken, time.perf_counter() - start


async def _stall(ask: Ask, write: Callable[[], Awaitable[None]]) -> float:
    """Return the 99.9th percentile of the loop's lateness over some rounds of 200 tasks, in ms."""
    async with _watched() as late:
        for _ in range(_ROUNDS):
            await asyncio.gather(*(write() if n % 2 else ask(n) for n in range(_TASKS)))
    return 1000 * float(np.quantile(late, 0.999))


@asynccontextmanager
async def _watched() -> AsyncIterator[list[float]]:
    late: list[float] = []

    async def watch() -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(_TICK)
            late.append(time.perf_counter() - start - _TICK)

    watcher = asyncio.create_task(watch())
    try:
        yield late
    finally:
        watcher.cancel()
