"""Read-only opening, on folders that may not be written, and who holds a lock."""

from __future__ import annotations

import asyncio
import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from agentmem import (
    CapabilityError,
    Memory,
    Settings,
    StoreAccessError,
    StoreError,
    StoreLockedError,
)
from tests.support import WordEmbedder, texts

NOBODY = 65534


def read_only(folder: Path) -> Memory:
    return Memory(Settings(url=str(folder), read_only=True), embedder=WordEmbedder())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    place = tmp_path / "memory"
    async with Memory(place, embedder=WordEmbedder()) as memory:
        await memory.write(["tea with milk", "the kettle boils"])
        await memory.search("tea")  # brings the text index up to date
    return place


async def test_it_answers_and_leaves_no_trace(folder: Path) -> None:
    before = contents(folder)
    async with read_only(folder) as memory:
        assert texts(await memory.search("kettle", k=1)) == ["the kettle boils"]
        assert await memory.count() == 2
        assert (await memory.verify()).ok
        assert (await memory.stats()).documents == 2
    after = {k: v for k, v in contents(folder).items() if not k.endswith(("-shm", "-wal"))}
    assert after == before


WRITES: dict[str, Callable[[Memory], Any]] = {
    "write": lambda m: m.write("x"),
    "forget": lambda m: m.forget(everything=True),
    "restore": lambda m: m.restore("a" * 24),
    "repair": lambda m: m.verify(repair=True),
    "compact": lambda m: m.compact(),
}


@pytest.mark.parametrize("name", WRITES)
async def test_writing_is_refused(folder: Path, name: str) -> None:
    async with read_only(folder) as memory:
        with pytest.raises(CapabilityError, match=f"could not {name}.*read-only"):
            await WRITES[name](memory)
        assert (await memory.forget(everything=True, dry_run=True)).count == 2


async def test_it_sees_what_others_write_meanwhile(folder: Path) -> None:
    async with read_only(folder) as reader, Memory(folder, embedder=WordEmbedder()) as writer:
        await writer.write("a cup of coffee")
        assert texts(await reader.search("coffee", k=1)) == ["a cup of coffee"]
        await writer.write("sugar for the coffee")
        assert set(texts(await reader.search("coffee", k=2))) == {
            "a cup of coffee", "sugar for the coffee",
        }  # fmt: skip


async def test_a_text_index_that_is_missing_is_made_in_ram(folder: Path) -> None:
    shutil.rmtree(folder / "text")
    async with read_only(folder) as memory:
        result = await memory.search("kettle", k=1)
        assert result.hits[0].scores.lexical_rank == 1
    assert not (folder / "text").exists()


async def test_there_must_be_a_memory(tmp_path: Path) -> None:
    with pytest.raises(StoreAccessError, match="there is no memory at"):
        await read_only(tmp_path / "none").open()
    assert not (tmp_path / "none").exists()


# ------------------------------------------------------------------ folders without permission


@pytest.fixture
def locked(folder: Path, tmp_path: Path) -> Iterator[Path]:
    """Yield a copy of the memory in a folder that nobody may write, as another user sees it."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    place = Path("/var/tmp") / f"agentmem-read-only-{os.getpid()}"
    shutil.copytree(folder, place)
    for path in (place, *place.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield place
    shutil.rmtree(place)


def as_nobody(work: Callable[[], None]) -> None:
    """Run `work` in a child that may not write the folder; fail when it fails."""
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.chdir("/")
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            work()
        except BaseException as error:
            traceback.print_exception(error)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_read_only_folder(locked: Path) -> None:
    async def look() -> None:
        async with read_only(locked) as memory:
            assert texts(await memory.search("kettle", k=1)) == ["the kettle boils"]
            assert (await memory.verify()).ok

    as_nobody(lambda: asyncio.run(look()))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_read_only_folder_with_a_log_left_behind(locked: Path) -> None:
    locked.chmod(0o755)
    (locked / "memory.db-wal").write_bytes(b"left behind")
    locked.chmod(0o555)

    async def look() -> None:
        with pytest.raises(StoreAccessError, match="was not closed cleanly"):
            await read_only(locked).open()

    as_nobody(lambda: asyncio.run(look()))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_opening_a_read_only_folder_for_writing(locked: Path) -> None:
    async def look() -> None:
        with pytest.raises(StoreError):
            await Memory(locked, embedder=WordEmbedder()).open()

    as_nobody(lambda: asyncio.run(look()))


# ------------------------------------------------------------------ who holds the lock


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux lists locks")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_lock_names_the_process_that_holds_it(folder: Path) -> None:
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        connection = apsw.Connection(str(folder / "memory.db"))
        connection.execute("BEGIN IMMEDIATE")
        os.write(ready[1], b".")
        os.read(done[0], 1)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        settings = Settings(url=str(folder), lock_timeout=0.1)
        async with Memory(
            Settings(url=str(folder), read_only=True), embedder=WordEmbedder()
        ) as reader:
            assert await reader.count() == 2  # readers do not wait
        with pytest.raises(StoreLockedError, match=rf"held by process {child} \("):
            await Memory(settings, embedder=WordEmbedder()).open()
    finally:
        os.write(done[1], b".")
        os.waitpid(child, 0)  # noqa: ASYNC222 - it ends at once
        for handle in (*ready, *done):
            os.close(handle)
