"""Copying a large memory between engines, cut short twice on each way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from agentmem import Document, Memory, MoveResult, Progress, StoreError
from tests.databases import StandInStore, use_standin
from tests.support import WordEmbedder

# `make soak` copies 20,000 documents.
NUMBER = 20_000 if os.environ.get("SOAK") == "1" else 600
standin = pytest.fixture(use_standin)


def documents(number: int) -> list[Document]:
    return [
        Document(
            f"tide number{n} at pier{n % 97}, seen by keeper{n % 13}",
            key=f"k{n}",
            user_id=None if n % 3 else f"user{n % 5}",
            collection=f"c{n % 4}",
            metadata={"n": n, "kind": ["a", "b"][n % 2]},
        )
        for n in range(number)
    ]


async def fill(memory: Memory, number: int = NUMBER) -> None:
    await memory.write(documents(number))
    await memory.write([Document(f"tide rewritten{n}", key=f"k{n}") for n in range(1, number, 10)])
    await memory.forget(collection="c1", user_id="user0", confirm=True)


async def copy_cut_twice(
    source: Callable[[], Memory],
    destination: Callable[[], Memory],
    *cuts: Callable[[], object],
) -> MoveResult:
    """Copy with two attempts that end badly, each by new memories; return the last result."""
    done: list[int] = []
    for share, cut in zip((0.3, 0.6), cuts, strict=True):
        async with both(source, destination) as (mine, theirs):

            def tell(
                progress: Progress, share: float = share, cut: Callable[[], object] = cut
            ) -> None:
                done.append(progress.done)
                if progress.done >= share * NUMBER:
                    cut()

            with suppress(asyncio.CancelledError, StoreError):
                await mine.copy_to(theirs, on_progress=tell)
                raise AssertionError("the copy was not cut short")
    assert max(done) < NUMBER
    async with both(source, destination) as (mine, theirs):
        return await mine.copy_to(theirs)


@asynccontextmanager
async def both(
    source: Callable[[], Memory], destination: Callable[[], Memory]
) -> AsyncIterator[tuple[Memory, Memory]]:
    async with source() as mine, destination() as theirs:
        yield mine, theirs


def check(result: MoveResult) -> None:
    assert result.comparison is not None
    assert result.comparison.ok, result.comparison
    assert result.comparison.source == result.documents == result.stored + result.present
    assert result.present >= 0.3 * NUMBER  # what the attempts have stored was not done again
    assert result.embedded == 0
    assert result.comparison.agreeing == result.comparison.searches > 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
async def test_there_and_back_again(tmp_path: Path, standin: StandInStore) -> None:
    def first() -> Memory:
        return Memory(tmp_path / "first", embedder=WordEmbedder())

    def server() -> Memory:
        return standin.memory(WordEmbedder(), {}, oracle_retries=0)

    def last() -> Memory:
        return Memory(tmp_path / "last", embedder=WordEmbedder())

    async with first() as memory:
        await fill(memory)
    lose_sessions = standin.server.kill_sessions
    there = await copy_cut_twice(first, server, lose_sessions, cancel)
    check(there)
    back = await copy_cut_twice(server, last, cancel, lose_sessions)
    check(back)
    assert there.comparison is not None
    assert back.comparison is not None
    assert back.comparison.checksum == there.comparison.checksum
    async with both(first, last) as (mine, theirs):
        again = await mine.copy_to(theirs)
        assert again.stored == 0
        assert again.comparison is not None
        assert again.comparison.ok
        assert (await theirs.verify()).findings == ()
    print(f"\n{there.documents} documents, {there.versions} versions there and back: identical")


def cancel() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@pytest.mark.slow
@pytest.mark.timeout(7200)
async def test_the_command_is_killed_twice(tmp_path: Path) -> None:
    source, small = tmp_path / "source", tmp_path / "small"
    for folder, number in ((source, NUMBER), (small, NUMBER // 10)):
        async with Memory(folder) as memory:
            await fill(memory, number)
    destination = tmp_path / "destination"
    for share in (0.2, 0.5):
        process = command(source, destination)
        while stored(destination) < share * NUMBER:
            assert process.poll() is None, "the copy ended before it was killed"
            await asyncio.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    start = stored(destination)
    result, peak = finished(command(source, destination))
    assert start <= result["present"] < result["documents"]
    comparison = result["comparison"]
    assert comparison["missing"] == comparison["different"] == []
    assert comparison["agreeing"] == comparison["searches"] > 0
    async with Memory(destination) as memory:
        assert (await memory.verify()).findings == ()
    _, small_peak = finished(command(small, tmp_path / "other"))
    print(
        f"\n{result['documents']} documents copied, killed twice; most memory {peak:,} kB, "
        f"for a tenth {small_peak:,} kB"
    )
    # The vectors of both memories may be held in RAM, nothing else grows.
    vectors = 2 * 1.3 * NUMBER * 384 * 4 / 1024
    assert peak < 1.1 * small_peak + vectors


def command(source: Path, destination: Path) -> subprocess.Popen[str]:
    # The peak that the kernel keeps for this program; the usual one starts with the parent's.
    code = (
        "import sys; from agentmem._cli._app import app\n"
        "try: app()\n"
        "finally:\n"
        "    rows = open('/proc/self/status').read().splitlines()\n"
        "    print(next(r for r in rows if 'VmHWM' in r).split()[1], file=sys.stderr)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, "copy", str(source), str(destination), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[dict[str, Any], int]:
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return json.loads(out), int(errors.split()[-1])


def stored(folder: Path) -> int:
    """Return how many documents a folder holds, by looking into its database."""
    if not (folder / "memory.db").exists():
        return 0
    connection = apsw.Connection(str(folder / "memory.db"), apsw.SQLITE_OPEN_READONLY)
    try:
        number: int = connection.execute("SELECT COUNT(*) FROM documents WHERE is_head").get
    except apsw.Error:  # the tables are not made yet, or are being made
        return 0
    finally:
        connection.close()
    return number
