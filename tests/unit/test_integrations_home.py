"""A memory that is used from any thread and any loop, and the errors of missing extras."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agentmem import (
    ClosedError,
    ConfigurationError,
    InvalidQueryError,
    Memory,
    NotOpenError,
    StoreAccessError,
    WrongLoopError,
)
from agentmem.integrations.home import THREAD_NAME, MemoryHome, as_home
from tests.support import WordEmbedder


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == THREAD_NAME]


async def texts_of(memory: Memory) -> int:
    return await memory.count()


def at(folder: Path) -> MemoryHome:
    return MemoryHome(url=folder, embedder=WordEmbedder())


async def test_from_every_side_at_once(tmp_path: Path) -> None:
    with at(tmp_path / "m") as home:

        async def write(memory: Memory) -> int:
            await memory.write(f"tea {threading.get_ident()}", collection="c")
            return threading.get_ident()

        done = await asyncio.gather(
            *(home.arun(write) for _ in range(5)),
            *(asyncio.to_thread(home.run, write) for _ in range(5)),
            asyncio.to_thread(lambda: asyncio.run(home.arun(write))),
        )
        assert len(set(done)) == 1
        assert len(threads()) == 1
        assert home.run(texts_of) == 1
    assert threads() == []


async def test_work_starts_in_the_order_of_the_calls(tmp_path: Path) -> None:
    with at(tmp_path / "m") as home:
        started: list[int] = []

        async def work(number: int, memory: Memory) -> None:
            started.append(number)

        await asyncio.gather(*(home.arun(partial(work, n)) for n in range(50)))
        assert started == list(range(50))


async def test_errors_come_through(tmp_path: Path) -> None:
    with at(tmp_path / "m") as home:
        with pytest.raises(InvalidQueryError):
            home.run(lambda memory: memory.search("?"))
        with pytest.raises(InvalidQueryError):
            await home.arun(lambda memory: memory.search("?"))


async def test_a_memory_that_cannot_be_opened_can_be_tried_again(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("x")
    with at(tmp_path / "m") as home:
        with pytest.raises(StoreAccessError):
            home.run(texts_of)
        with pytest.raises(StoreAccessError):
            await home.arun(texts_of)
        (tmp_path / "m").unlink()
        assert await home.arun(texts_of) == 0
    assert threads() == []


async def test_cancelling_one_caller_leaves_the_others(tmp_path: Path) -> None:
    with at(tmp_path / "m") as home:
        first, second = (asyncio.create_task(home.arun(texts_of)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 0
        assert first.cancelled()
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def forever(memory: Memory) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                loop.call_soon_threadsafe(stopped.set)

        task = asyncio.create_task(home.arun(forever))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait_for(stopped.wait(), 10)


async def test_closing(tmp_path: Path) -> None:
    home = at(tmp_path / "m")
    await home.arun(texts_of)
    home.close()
    home.close()
    with pytest.raises(ClosedError, match="make a new one"):
        home.run(texts_of)
    with pytest.raises(ClosedError, match="make a new one"):
        await home.arun(texts_of)
    at(tmp_path / "m").close()
    assert threads() == []


async def test_an_open_memory_stays_the_callers(tmp_path: Path) -> None:
    async with Memory(tmp_path / "m", embedder=WordEmbedder()) as memory:
        with as_home(memory, None, None) as home:
            assert await home.arun(texts_of) == 0
            with pytest.raises(WrongLoopError, match="use the asynchronous method"):
                home.run(texts_of)
            assert await asyncio.to_thread(home.run, texts_of) == 0
            assert await asyncio.to_thread(lambda: asyncio.run(home.arun(texts_of))) == 0
            assert as_home(home, None, None) is home
        assert await memory.count() == 0


def test_an_open_memory_whose_loop_stands_still(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m", embedder=WordEmbedder())
    home = MemoryHome(memory)
    with pytest.raises(NotOpenError):
        home.run(texts_of)
    with asyncio.Runner() as runner:
        runner.run(memory.open())
        with pytest.raises(WrongLoopError, match="does not run"):
            home.run(texts_of)
        runner.run(memory.close())


async def test_sync_work_on_the_homes_own_loop_is_refused(tmp_path: Path) -> None:
    with at(tmp_path / "m") as home:

        async def nested(memory: Memory) -> int:
            return home.run(texts_of)

        with pytest.raises(WrongLoopError, match="on this very event loop"):
            await home.arun(nested)


_FORK = """
import os, sys, warnings
from agentmem import WrongLoopError
from agentmem.integrations.home import MemoryHome
home = MemoryHome(url=sys.argv[1])
home.run(lambda memory: memory.count())
warnings.simplefilter("ignore")  # of forking with threads, which is the case here
if child := os.fork():
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    home.close()
    sys.exit(code)
try:
    home.run(lambda memory: memory.count())
except WrongLoopError as error:
    home.close()
    os._exit(0 if "parent process" in str(error) else 2)
os._exit(3)
"""


def test_a_forked_process_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORK, str(tmp_path / "m")], timeout=60, check=False
    )
    assert done.returncode == 0


async def test_one_place_is_needed(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m")
    ways: list[Callable[[], MemoryHome]] = [
        MemoryHome,
        partial(MemoryHome, memory, url="x"),
        partial(MemoryHome, memory, tenant="acme"),
        partial(as_home, MemoryHome(memory), "x", None),
    ]
    for make in ways:
        with pytest.raises(ConfigurationError):
            make()


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("langgraph_store", "langgraph", "langgraph"),
        ("langgraph_graph", "langgraph", "langgraph"),
        ("langchain", "langchain_core", "langchain"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(module: str, package: str, extra: str) -> None:
    program = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
import agentmem
try:
    import agentmem.integrations.{module}
except agentmem.ConfigurationError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"needs the package '{package}'" in done.stdout
    assert f'pip install "agentmem[{extra}]"' in done.stdout
