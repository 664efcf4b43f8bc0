"""The life of a memory: new, open, closed; and the calls that are under way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from agentmem.errors import ClosedError, NotOpenError, WrongLoopError

T = TypeVar("T")


class Lifecycle:
    """Counts running calls, so that closing waits for them, and refuses calls out of place."""

    def __init__(self) -> None:
        self._open = False
        self._closed = False
        self._running = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._idle: asyncio.Event | None = None
        self._opening: asyncio.Lock | None = None
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[bool]:
        """Wrap the opening; yields whether there is anything to open."""
        self._bind()
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._closed:
                raise ClosedError("this memory was closed; make a new Memory to open it again")
            if self._open:
                yield False
                return
            yield True
            self._open = True

    async def closing(self) -> bool:
        """Refuse new calls, wait for running ones, and return whether to close anything."""
        if self._closed or not self._open:
            self._closed = True
            return False
        self._check_place()
        self._closed = True
        while self._running:
            self._idle = asyncio.Event()
            await self._idle.wait()
        return True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Wrap a call.

        A crowd of calls begins one in each round of the loop: each has a piece of work to do on
        the loop before its first wait, and all of them together would hold it up.

        Raises
        ------
        NotOpenError, ClosedError, WrongLoopError
            The memory cannot be used here and now.
        """
        self.check()
        self._running += 1
        try:
            if self._running > 1:
                async with self._turn:
                    await asyncio.sleep(0)
            yield
        finally:
            self._running -= 1
            if not self._running and self._idle is not None:
                self._idle.set()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that opened the memory.

        Raises
        ------
        NotOpenError
            It was not opened yet.
        """
        if self._loop is None:
            raise NotOpenError("this memory is not open, so it belongs to no event loop yet")
        return self._loop

    def check(self) -> None:
        """Raise unless the memory is open, in this process and on this event loop."""
        if self._closed:
            raise ClosedError("this memory is closed; make a new Memory to use it again")
        if not self._open:
            raise NotOpenError(
                "this memory is not open; use 'async with Memory(...) as memory' or await "
                "memory.open() first"
            )
        self._check_place()

    def _bind(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._process = os.getpid()
        self._check_place()

    def _check_place(self) -> None:
        if self._process != os.getpid():
            raise WrongLoopError(
                "this memory was opened in the parent process; open one of its own after a fork"
            )
        if self._loop is not asyncio.get_running_loop():
            raise WrongLoopError(
                "this memory was opened on another event loop; open one of its own on this loop"
            )
