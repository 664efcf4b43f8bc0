"""The process that runs the history with faults, and the shim that makes them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
RunHistory = Callable[[Path, str, int, str], dict[str, Any]]


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled shim."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("faults are made with a C compiler and the preloading of Linux")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    source = str(HERE / "shim.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", str(library), source, "-ldl"],
        check=True,
    )
    return library


@pytest.fixture(scope="session")
def run_history(shim: Path) -> Iterator[RunHistory]:
    """Return a function that runs the history with one fault and returns what became of it."""
    environment = {**os.environ, "LD_PRELOAD": str(shim), "PYTHONPATH": str(HERE.parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=HERE.parents[1],
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def run(folder: Path, history: str, number: int, kind: str) -> dict[str, Any]:
        order = {"folder": str(folder), "history": history, "number": number, "kind": kind}
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        report: dict[str, Any] = json.loads(stdout.readline())
        return report

    yield run
    stdin.close()
    process.wait()
    stdout.close()
