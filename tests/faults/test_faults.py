"""Every storage step of the history fails in turn, in each way; nothing acknowledged is lost."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import RunHistory
from tests.faults.history import STEPS, check, make

# `make torture` takes every step; otherwise a sample spread over all of them is taken.
STRIDE = int(os.environ.get("FAULT_STRIDE", "7"))
OURS = {"StoreError", "StoreFullError", "StoreCorruptError", "StoreAccessError"}


def steps(run_history: RunHistory, tmp_path: Path) -> int:
    """Return how many storage steps the history has without a fault."""
    report = run_history(tmp_path / "count", 0, "none")
    assert report["acknowledged"] == len(STEPS), report
    return int(report["seen"])


async def _reopened(folder: Path, report: dict[str, Any]) -> None:
    async with make(folder) as memory:
        await check(memory, report["acknowledged"])


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", ["kill", "io error", "disk full"])
async def test_every_storage_step_fails_in_turn(
    run_history: RunHistory, tmp_path: Path, kind: str, record_property: Any
) -> None:
    total = steps(run_history, tmp_path)
    outcomes: Counter[str] = Counter()
    for number in range(1, total + 1, STRIDE):
        folder = tmp_path / str(number)
        report = run_history(folder, number, kind)
        assert not report.get("crashed"), f"step {number}: {report['error']}"
        error = report["error"]
        assert error is None or error == "killed" or error in OURS, f"step {number}: {error}"
        outcomes[str(error)] += 1
        try:
            await _reopened(folder, report)
        except BaseException as fault:
            raise AssertionError(f"{kind} at step {number} of {total}: {report}") from fault
    record_property("fault points", sum(outcomes.values()))
    print(f"\n{kind}: {sum(outcomes.values())} of {total} points, outcomes {dict(outcomes)}")
    assert outcomes.total() - outcomes["None"] > 0
