"""Runs the history in forked children of one warm process, with the fault shim preloaded.

Reads one JSON object a line from standard input, {"folder", "history", "number", "kind"}, and
answers with one:
{"acknowledged", "seen", "failed", "error"}. A child that was killed leaves "error" at "killed".
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import agentmem._build
import agentmem.backends.embedded
import agentmem.pipeline  # noqa: F401 - everything is imported before the process forks
from agentmem import AgentMemError, Memory
from tests.faults.history import HISTORIES, History, make

SHIM = ctypes.CDLL(None)
SHIM.fault_seen.restype = SHIM.fault_failed.restype = ctypes.c_long
KINDS = {"none": 0, "kill": 1, "io error": 2, "disk full": 3}


async def live(folder: Path, order: dict[str, Any], out: int) -> None:
    """Run the history; after a fault that left the process alive, show that it still works."""
    history = HISTORIES[order["history"]]
    await history.prepare(folder)
    SHIM.fault_arm(str(folder).encode(), ctypes.c_long(order["number"]), KINDS[order["kind"]])
    acknowledged = 0
    error = None
    memory = make(folder)
    try:
        await history.open(memory)
        for step in history.steps:
            await step.call(memory)
            acknowledged += 1
            os.write(out, b"+")
    except AgentMemError as caught:
        error = type(caught).__name__
    seen, failed = SHIM.fault_seen(), SHIM.fault_failed()
    SHIM.fault_disarm()
    if error is not None:
        await _goes_on(memory, history, folder)
    await memory.close()
    report = {"seen": seen, "failed": failed, "error": error}
    os.write(out, json.dumps(report).encode())


async def _goes_on(memory: Memory, history: History, folder: Path) -> None:
    """Show that a memory that met an error works as soon as the fault is gone."""
    if memory._parts is None:
        other = make(folder)
        await history.open(other)
        await other.write("omega probe", key="probe")
        await other.close()
        return
    await memory.write("omega probe", key="probe")
    found = await memory.search("probe omega", k=1)
    assert found.hits[0].text == "omega probe", found


def serve(order: dict[str, Any]) -> dict[str, Any]:
    """Run one order in a child and return its report."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 0
        try:
            os.close(read)
            asyncio.run(live(Path(order["folder"]), order, write))
        except BaseException:
            os.write(write, b"!" + traceback.format_exc().encode())
            status = 1
        os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    acknowledged = len(said) - len(said.lstrip("+"))
    rest = said[acknowledged:]
    if rest.startswith("!"):
        return {"acknowledged": acknowledged, "error": rest[1:], "crashed": True}
    report = json.loads(rest) if rest else {"error": "killed"}
    return {"acknowledged": acknowledged, **report}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(serve(json.loads(line))), flush=True)
