"""The README's program runs, and its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from agentmem import Settings

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_program_runs(tmp_path: Path) -> None:
    programs = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(programs) == 1
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", programs[0]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1] == "The cabin's wifi password is heron-42."
    assert lines[4] == (
        "The cabin's wifi password is otter-17. - The cabin's wifi password is heron-42."
    )
    assert lines[5] == "['Jonas is allergic to peanuts.']"
    assert lines[6] == "1 forgotten for good"


def test_the_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make (\w+)", README):
        if target != "and":
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_settings_and_their_defaults_are_right() -> None:
    settings = Settings()
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|", README, re.MULTILINE)
    checked = 0
    for names, values in rows:
        for name, value in zip(names.split(", "), values.strip().split(", "), strict=True):
            assert str(getattr(settings, name.strip("`"))) == value.strip("`"), name
            checked += 1
    assert checked >= 12
