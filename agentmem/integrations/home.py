"""Where the memory of an integration lives: on the caller's loop, or on one of its own.

A memory belongs to the event loop that opened it, while frameworks call from any thread and any
loop, also synchronously from inside a running one. A `MemoryHome` takes the work to the memory's
loop. It is given an open memory, which stays the caller's, or it opens one by its URL at first use,
on a loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from agentmem import Memory, Settings
from agentmem.errors import ClosedError, ConfigurationError, WrongLoopError

T = TypeVar("T")
Work = Callable[[Memory], Coroutine[Any, Any, T]]

THREAD_NAME = "agentmem-home"


@contextmanager
def extra(name: str, package: str) -> Iterator[None]:
    """Wrap the imports that need an extra.

    Raises
    ------
    ConfigurationError
        The package is not installed; the message names the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ConfigurationError(
            f"this integration needs the package {package!r}, which is not installed; "
            f'run pip install "agentmem[{name}]"'
        ) from error


class MemoryHome:
    """A memory that can be used from any thread and any event loop, async and sync.

        with MemoryHome(url="./memory") as home:
            store = AgentMemStore(home)
            graph = retrieval_graph(home, user_id="ada")

    Parameters
    ----------
    memory
        An open memory, which stays the caller's.
    url
        Where a memory is, instead of an open one; it is opened at first use, on a loop in a thread
        of its own, and closed by `close`.
    tenant, arguments
        Tenant and further arguments of a memory that is opened by URL, as for `Memory`.

    Raises
    ------
    ConfigurationError
        Not exactly one of memory and URL is given.
    """

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        url: str | Path | Settings | None = None,
        tenant: str | None = None,
        **arguments: Any,
    ) -> None:
        if (memory is None) == (url is None):
            raise ConfigurationError("give either an open memory or a url")
        if memory is not None and (tenant is not None or arguments):
            raise ConfigurationError("an open memory has its tenant and its arguments already")
        self._memory = memory
        self._make = partial(Memory, url, tenant=tenant, **arguments)
        self._own: _OwnLoop | None = None
        self._closed = False
        self._process = os.getpid()
        self._lock = threading.Lock()

    def run(self, work: Work[T]) -> T:
        """Do the work and wait for it, from any thread but the one of the memory's loop.

        Raises
        ------
        WrongLoopError
            The memory was opened on the loop that runs here, on one that no longer runs, or in the
            parent process.
        ClosedError
            `close` was called before.
        """
        memory = self._memory
        if memory is None:
            memory = self._opening().ready()
        loop = self._loop_of(memory)
        if _current_loop() is loop:
            raise WrongLoopError(
                "a synchronous call cannot wait for a memory on this very event loop; use the "
                "asynchronous method, or give a url instead of an open memory"
            )
        return _waited(asyncio.run_coroutine_threadsafe(work(memory), loop))

    async def arun(self, work: Work[T]) -> T:
        """Do the work, from any event loop.

        Raises
        ------
        WrongLoopError
            The memory was opened on another loop, which no longer runs, or in the parent process.
        ClosedError
            `close` was called before.
        """
        memory = self._memory
        if memory is None:
            memory = await self._opening().aready()
        loop = self._loop_of(memory)
        if asyncio.get_running_loop() is loop:
            return await work(memory)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(memory), loop))

    def close(self) -> None:
        """Close the memory that was opened here, and end its thread. Closing twice is harmless."""
        with self._lock:
            self._closed = True
            own, self._own = self._own, None
        if own is not None and self._process == os.getpid():
            own.close()

    def __enter__(self) -> Self:
        """Return the home itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def _opening(self) -> _OwnLoop:
        with self._lock:
            if self._closed:
                raise ClosedError("this was closed; make a new one to use the memory again")
            if self._own is None or self._own.failed:
                self._own = _OwnLoop(self._make())
                self._process = os.getpid()
            return self._own

    def _loop_of(self, memory: Memory) -> asyncio.AbstractEventLoop:
        if self._process != os.getpid():
            raise WrongLoopError(
                "this memory was opened in the parent process; open one of its own after a fork"
            )
        loop = memory.loop
        if not loop.is_running():
            raise WrongLoopError(
                "the event loop on which this memory was opened does not run; open the memory on "
                "a loop that does, or give a url instead of an open memory"
            )
        return loop


class _OwnLoop:
    """A memory on a loop in a thread of its own, which opens it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name=THREAD_NAME, daemon=True)
        self._opened: Future[None] = Future()
        self._thread.start()

    @property
    def failed(self) -> bool:
        """Whether the memory could not be opened; the thread has ended then."""
        return self._opened.done() and self._opened.exception() is not None

    def ready(self) -> Memory:
        """Wait until the memory is open."""
        self._opened.exception()
        return self._memory_or_error()

    async def aready(self) -> Memory:
        """Wait until the memory is open; giving up does not stop the opening."""
        if not self._opened.done():
            await asyncio.shield(asyncio.wrap_future(self._opened))
        return self._memory_or_error()

    def close(self) -> None:
        """Close the memory and end the thread."""
        if self._opened.exception() is not None:
            return
        try:
            _waited(asyncio.run_coroutine_threadsafe(self._memory.close(), self._loop))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _memory_or_error(self) -> Memory:
        if self._opened.exception() is not None:
            self._thread.join()  # telling of the error is the last thing that it does
        self._opened.result()
        return self._memory

    def _live(self) -> None:
        failed: Exception | None = None
        try:
            self._loop.run_until_complete(self._memory.open())
            # On the loop: whoever is told finds it running.
            self._loop.call_soon(self._opened.set_result, None)
            self._loop.run_forever()
        except Exception as error:  # the callers get it
            failed = error
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
        if failed is not None:
            self._opened.set_exception(failed)


def as_home(
    memory: Memory | MemoryHome | None, url: str | Path | Settings | None, tenant: str | None
) -> MemoryHome:
    """Return the home that a caller gave, or one for the memory or URL that it gave."""
    if isinstance(memory, MemoryHome):
        if url is not None or tenant is not None:
            raise ConfigurationError("a home has its url and its tenant already")
        return memory
    return MemoryHome(memory, url=url, tenant=tenant)


def _waited(future: Future[T]) -> T:
    try:
        return future.result()
    except BaseException:
        future.cancel()  # such as an interrupt from the keyboard: nobody waits any more
        raise


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
