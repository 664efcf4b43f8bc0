"""The programs on the pages of docs/ run, and print what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROGRAM = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)
PROGRAMS = [
    pytest.param(program, output, id=f"{page.stem}-{number}")
    for page in sorted(DOCS.rglob("*.md"))
    for number, (program, output) in enumerate(PROGRAM.findall(page.read_text(encoding="utf-8")))
]


def test_there_are_programs() -> None:
    assert PROGRAMS


@pytest.mark.parametrize(("program", "output"), PROGRAMS)
def test_a_program_prints_what_the_page_says(tmp_path: Path, program: str, output: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == output
