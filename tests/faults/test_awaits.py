"""The n-th await of each call is cancelled, for every n; the memory stays whole and usable."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.history import HISTORIES, STEPS, check, make


class CancelAt:
    """Drives a coroutine and cancels it where it waits for the n-th time."""

    def __init__(self, work: Coroutine[Any, Any, Any], number: int) -> None:
        self._work = work
        self._number = number
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            try:
                waiting = self._work.throw(error) if error else self._work.send(None)
            except StopIteration as done:
                return done.value
            error = None
            self.waits += 1
            if self.waits == self._number:
                if waiting is not None:
                    waiting.cancel()
                    # The future may be shielded or done; the task itself is cancelled in any case.
                error = asyncio.CancelledError()
                continue
            try:
                yield waiting
            except BaseException as caught:
                error = caught


async def _cancelled_at(folder: Path, step: int, number: int) -> tuple[bool, int]:
    """Run the history up to `step`, cancel that one at its n-th wait, and check everything."""
    async with make(folder) as memory:
        for earlier in STEPS[:step]:
            await earlier.call(memory)

        async def call() -> None:
            await STEPS[step].call(memory)

        driver = CancelAt(call(), number)
        try:
            await driver
            finished = True
        except asyncio.CancelledError:
            finished = False
        # A job that had begun is finished by its thread: wait behind it on the same thread.
        await memory.restore("nothing")
        await check(memory, HISTORIES["life"], step + 1 if finished else step)
    return finished, driver.waits


@pytest.mark.parametrize("step", range(len(STEPS)), ids=lambda n: STEPS[n].name)
async def test_every_await_is_cancelled_in_turn(tmp_path: Path, step: int) -> None:
    number = 1
    while True:
        finished, waits = await _cancelled_at(tmp_path / str(number), step, number)
        if finished and waits < number:
            break
        number += 1
        assert number < 100, "the call never ends by itself"
    print(f"{STEPS[step].name}: {number - 1} awaits cancelled")
    assert number > 1
