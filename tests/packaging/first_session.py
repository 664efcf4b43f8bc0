"""Runs the page docs/first-session.md as a newcomer would, from a built wheel, and checks it.

    python first_session.py WHEEL PAGE

Each command is run in an empty folder and must print what the page shows; ``...`` stands for
anything. The seconds of each step are printed. Constraints on versions come from PIP_CONSTRAINT.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_BLOCK = re.compile(r'```(console|python title="(?P<name>[^"]+)")\n(?P<text>.*?)```', re.DOTALL)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def sections(page: str) -> Iterator[tuple[str, str]]:
    """Yield title and text of each section."""
    parts = _HEADING.split(page)[1:]
    yield from zip(parts[::2], parts[1::2], strict=True)


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a block with the output that is shown for it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def fits(printed: str, shown: str) -> bool:
    """Return whether an output is the one that is shown."""
    pattern = ".*?".join(re.escape(part) for part in shown.strip().split("..."))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def run(command: str, folder: Path, wheel: str) -> str:
    """Run a command as the page says, with the wheel in the place of the published package."""
    done = subprocess.run(
        ["bash", "-eu", "-c", command.replace("agentmem[", f"{wheel}[")],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{command}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Run the page."""
    wheel, page = sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8")
    checked = 0
    with tempfile.TemporaryDirectory(prefix="agentmem-session-") as place:
        folder = Path(place)
        for title, text in sections(page):
            start = time.perf_counter()
            for block in _BLOCK.finditer(text):
                if block["name"]:
                    (folder / block["name"]).write_text(block["text"], encoding="utf-8")
                    continue
                for command, shown in commands(block["text"]):
                    printed = run(command, folder, wheel)
                    if not fits(printed, shown):
                        sys.exit(f"{command}\nprinted\n{printed}\nbut the page shows\n{shown}")
                    checked += 1
            print(f"{title}: {time.perf_counter() - start:.1f} s")
    if not checked:
        sys.exit("the page shows no command")
    print(f"{checked} commands print what the page shows")


if __name__ == "__main__":
    main()
