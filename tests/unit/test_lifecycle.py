"""New, open, closed; loops, forks, cancellation, concurrency."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agentmem import (
    ClosedError,
    ConfigurationError,
    DeadlineExceededError,
    Memory,
    NotOpenError,
    SearchResult,
    WrongLoopError,
)
from agentmem.models.base import Encoding
from tests.support import MakeMemory, WordEmbedder, texts


async def test_use_before_opening(make_memory: MakeMemory) -> None:
    memory = make_memory()
    with pytest.raises(NotOpenError, match="not open"):
        await memory.search("x")
    with pytest.raises(NotOpenError):
        await memory.write("x")
    with pytest.raises(NotOpenError):
        print(memory.pipeline)
    await memory.close()


async def test_use_after_closing(make_memory: MakeMemory) -> None:
    memory = make_memory()
    await memory.open()
    await memory.open()
    await memory.close()
    await memory.close()
    with pytest.raises(ClosedError):
        await memory.count()
    with pytest.raises(ClosedError, match="new Memory"):
        await memory.open()


def test_the_constructor_does_nothing(tmp_path: Path) -> None:
    Memory(tmp_path / "memory")
    assert not (tmp_path / "memory").exists()


async def test_closing_lets_running_calls_finish(make_memory: MakeMemory) -> None:
    memory = make_memory()
    await memory.open()
    write = asyncio.create_task(memory.write([f"row {n}" for n in range(500)]))
    await asyncio.sleep(0)
    await memory.close()
    assert (await write).created == 500


async def test_what_is_written_survives_reopening(tmp_path: Path) -> None:
    for turn in range(3):
        async with Memory(tmp_path / "m", embedder=WordEmbedder()) as memory:
            assert await memory.count() == turn
            await memory.write(f"tide {turn}")
            assert len((await memory.search("tide")).hits) == turn + 1


def test_another_loop_is_refused(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m", embedder=WordEmbedder())
    with asyncio.Runner() as first:
        first.run(memory.open())
        with asyncio.Runner() as second, pytest.raises(WrongLoopError, match="another event loop"):
            second.run(memory.count())
        first.run(memory.close())


def _in_child(memory: Memory, queue: Any) -> None:
    try:
        memory._lifecycle.check()
    except Exception as error:
        queue.put(type(error).__name__)
    else:
        queue.put("no error")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
async def test_a_forked_process_is_refused(make_memory: MakeMemory) -> None:
    async with make_memory() as memory:
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=_in_child, args=(memory, queue))
        child.start()
        assert await asyncio.to_thread(queue.get, True, 20) == "WrongLoopError"
        child.join()
        queue.close()
        queue.join_thread()
        assert await memory.count() == 0


class SlowEmbedder(WordEmbedder):
    """Takes its time with a query."""

    async def embed_query(self, text: str) -> Encoding:
        await asyncio.sleep(5)
        return await super().embed_query(text)


async def test_a_deadline_ends_a_search(make_memory: MakeMemory) -> None:
    async with make_memory(embedder=SlowEmbedder()) as memory:
        await memory.write("x")
        with pytest.raises(DeadlineExceededError, match=r"0\.05 s"):
            await memory.search("x", deadline=0.05)
        assert await memory.count() == 1


@pytest.mark.parametrize("awaits", range(0, 40, 3))
async def test_cancelling_anywhere_leaves_the_memory_usable(
    make_memory: MakeMemory, awaits: int
) -> None:
    async with make_memory() as memory:
        await memory.write("tide before", key="before")

        async def work() -> SearchResult:
            await memory.write([f"tide {n}" for n in range(10)])
            await memory.forget(key="before")
            return await memory.search("tide")

        task = asyncio.create_task(work())
        for _ in range(awaits):
            await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await memory.write("tide after")
        found = set(texts(await memory.search("tide", k=20)))
        rows = found - {"tide before", "tide after"}
        assert "tide after" in found
        assert len(rows) in (0, 10)
        assert (await memory.verify()).ok


async def test_many_calls_at_once(make_memory: MakeMemory) -> None:
    async with make_memory() as memory:

        async def one(number: int) -> None:
            await memory.write(f"tide row{number}", key=f"k{number}")
            found = await memory.search(f"row{number}", k=1)
            assert texts(found) == [f"tide row{number}"]

        await asyncio.gather(*(one(number) for number in range(60)))
        assert await memory.count() == 60


async def test_of_a_crowd_one_call_begins_in_each_round_of_the_loop(
    make_memory: MakeMemory,
) -> None:
    rounds, begun = 0, []

    class Noting(WordEmbedder):
        async def embed_query(self, text: str) -> Encoding:
            begun.append(rounds)
            return await super().embed_query(text)

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    async with make_memory(embedder=Noting()) as memory:
        await memory.write("tide")
        counting = asyncio.create_task(count_rounds())
        await asyncio.gather(*(memory.search("tide") for _ in range(50)))
        counting.cancel()
    assert len(begun) == 50
    # The first finds nobody else and does not wait.
    assert max(begun.count(number) for number in begun) <= 2


async def test_the_deadline_counts_from_the_call(make_memory: MakeMemory) -> None:
    async with make_memory(embedder=SlowEmbedder()) as memory:
        await memory.write("x")
        start = asyncio.get_running_loop().time()
        asked = (memory.search("x", deadline=0.05) for _ in range(100))
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(error) for error in found} == {DeadlineExceededError}
        assert asyncio.get_running_loop().time() - start < 2


async def test_a_clock_without_a_time_zone_is_named(tmp_path: Path) -> None:
    async with Memory(tmp_path / "m", embedder=WordEmbedder(), clock=datetime.now) as memory:
        with pytest.raises(ConfigurationError, match="the clock returned"):
            await memory.write("x")
        with pytest.raises(ConfigurationError, match="the clock returned"):
            await memory.search("x")
