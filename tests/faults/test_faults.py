"""Every storage step of the history fails in turn, in each way; nothing acknowledged is lost."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentmem.errors import ModelMismatchError
from tests.faults.conftest import RunHistory
from tests.faults.history import HISTORIES, check, former, make

# `make torture` takes every step; otherwise a sample spread over all of them is taken.
STRIDE = int(os.environ.get("FAULT_STRIDE", "7"))
OURS = {"StoreError", "StoreFullError", "StoreCorruptError", "StoreAccessError"}


def steps(run_history: RunHistory, tmp_path: Path, name: str) -> int:
    """Return how many storage steps a history has without a fault."""
    report = run_history(tmp_path / "count", name, 0, "none")
    assert report["acknowledged"] == len(HISTORIES[name].steps), report
    return int(report["seen"])


async def _reopened(folder: Path, name: str, report: dict[str, Any]) -> None:
    history = HISTORIES[name]
    if name == "reembed":  # until it is complete, the former model finds everything
        with suppress(ModelMismatchError):
            async with former(folder) as memory:
                await check(memory, history, report["acknowledged"])
    memory = make(folder)
    await history.open(memory)
    async with memory:
        if name == "repair":  # what was cut short is taken up again
            await memory.verify(repair=True)
        await check(memory, history, report["acknowledged"])


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", ["kill", "io error", "disk full"])
@pytest.mark.parametrize("name", HISTORIES)
async def test_every_storage_step_fails_in_turn(
    run_history: RunHistory, tmp_path: Path, name: str, kind: str, record_property: Any
) -> None:
    total = steps(run_history, tmp_path, name)
    # The short histories are taken step by step.
    stride = STRIDE if name == "life" else min(STRIDE, 2)
    outcomes: Counter[str] = Counter()
    for number in range(1, total + 1, stride):
        folder = tmp_path / str(number)
        report = run_history(folder, name, number, kind)
        assert not report.get("crashed"), f"step {number}: {report['error']}"
        error = report["error"]
        assert error is None or error == "killed" or error in OURS, f"step {number}: {error}"
        outcomes[str(error)] += 1
        try:
            await _reopened(folder, name, report)
        except BaseException as fault:
            raise AssertionError(f"{kind} at step {number} of {total}: {report}") from fault
    record_property("fault points", sum(outcomes.values()))
    print(
        f"\n{name}, {kind}: {sum(outcomes.values())} of {total} points, outcomes {dict(outcomes)}"
    )
    assert outcomes.total() - outcomes["None"] > 0
