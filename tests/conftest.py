"""Fixtures for all tests: a clean environment, no network, a set clock, memories of each kind."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings

from agentmem import Memory, Settings
from agentmem.models.onnx_embedder import OnnxEmbedder
from tests.databases import KINDS, OracleStore, StandInStore, local_url, use_standin
from tests.support import SetClock, WordEmbedder

settings.register_profile(
    "default",
    deadline=None,  # times of a busy machine say nothing
    print_blob=True,  # a failure prints what reproduces it
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# The same examples in every run of CI; new ones are searched for at the desk.
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# The hub's own switch, read when its client is imported: it then answers without the network.
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.upper().startswith("AGENTMEM_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def no_network(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """Forbid the network: nothing here may need it. Yields what was tried, which must be nothing.

    Pairs of local sockets, as event loops use them, are allowed. What was tried is looked at again
    after the test, since code may catch the error.
    """
    tried: list[str] = []
    if "oracle" in request.node.keywords or "[oracle" in request.node.name:
        yield tried  # a real server, which the caller has named
        return

    def refuse(what: str) -> NoReturn:
        tried.append(what)
        raise OSError(f"the tests forbid the network: {what}")

    make = socket.socket.__init__

    def only_local(self: socket.socket, family: int = -1, *rest: Any, **named: Any) -> None:
        handed_over = bool(named.get("fileno") or rest[2:])
        if family in (socket.AF_INET, socket.AF_INET6) or (family == -1 and not handed_over):
            refuse(f"a socket of family {family}")
        make(self, family, *rest, **named)

    monkeypatch.setattr(socket.socket, "__init__", only_local)
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "create_connection"):
        monkeypatch.setattr(
            socket, name, lambda *a, _name=name, **k: refuse(f"socket.{_name}{a!r}")
        )
    yield tried
    assert not tried, f"the test tried to use the network: {tried}"


@pytest.fixture(autouse=True)
def _no_leaks(tmp_path: Path) -> Iterator[None]:
    """Fail when a test leaves a thread of ours or an open file in its folder behind."""
    before = set(_leftovers(tmp_path))  # what a fixture of a whole module keeps open
    yield
    if not set(_leftovers(tmp_path)) - before:
        return
    gc.collect()
    deadline = time.monotonic() + 5
    while (left := set(_leftovers(tmp_path)) - before) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left, f"left behind: {left}"


def _leftovers(folder: Path) -> list[str]:
    names = ("agentmem-write", "agentmem-read")
    found = [t.name for t in threading.enumerate() if t.name.startswith(names)]
    handles = Path("/proc/self/fd")
    if handles.is_dir():
        for handle in handles.iterdir():
            try:
                target = str(handle.readlink())
            except OSError:
                continue
            if target.startswith(f"{folder}/") or "memory.db" in target:
                found.append(target)
    return found


@pytest.fixture
def clock() -> SetClock:
    """Return a clock that the test sets."""
    return SetClock()


@pytest.fixture(scope="session")
def real_embedder() -> OnnxEmbedder:
    """Return the bundled model, loaded once for all tests."""
    return OnnxEmbedder()


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInStore]:
    """Yield a stand-in for Oracle, in the place of the driver."""
    yield from use_standin(monkeypatch)


@pytest.fixture(params=KINDS)
def make_memory(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SetClock
) -> Callable[..., Memory]:
    """Return a maker of memories over one store; each engine runs every test that asks for it.

    It takes the arguments of `Memory`, and `settings` for those that are settings only.
    """
    kind = request.param
    store: StandInStore | None = None
    if kind == "standin":
        store = request.getfixturevalue("standin")
    oracle = OracleStore()

    def make(**arguments: Any) -> Memory:
        arguments.setdefault("clock", clock)
        embedder = arguments.pop("embedder", None) or WordEmbedder()
        more = arguments.pop("settings", {})
        if store is not None:
            return store.memory(embedder, arguments, **more)
        if kind == "oracle":
            return oracle.memory(embedder, arguments, **more)
        url = local_url(kind, tmp_path / "memory")
        return Memory(Settings(url=url, **more), embedder=embedder, **arguments)

    return make


@pytest.fixture
async def memory(make_memory: Callable[..., Memory]) -> AsyncIterator[Memory]:
    """Yield an open memory with a fast embedder."""
    async with make_memory() as memory:
        yield memory


@pytest.fixture
async def real_memory(
    make_memory: Callable[..., Memory], real_embedder: OnnxEmbedder
) -> AsyncIterator[Memory]:
    """Yield an open memory with the bundled model."""
    async with make_memory(embedder=real_embedder) as memory:
        yield memory


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Return a function that opens memories on the same folder; all are closed at the end."""
    async with AsyncExitStack() as stack:

        async def open_one(**arguments: Any) -> Memory:
            arguments.setdefault("embedder", WordEmbedder())
            return await stack.enter_async_context(Memory(tmp_path / "memory", **arguments))

        yield open_one
