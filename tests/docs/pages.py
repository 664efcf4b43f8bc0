"""The pages of docs/ as lists of blocks: programs, commands, files, and what they print.

A block is a fenced piece of code. What a program prints stands in a ``text`` block right below it;
what a command prints stands below it in its ``console`` block; ``...`` stands for anything. A block
with a title is a file. A comment in front of a block says why it is not run, or where a page runs:

    <!-- not run: needs a network -->
    <!-- runs on: the stand-in -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RUN_FROM_THE_WHEEL = DOCS / "first-session.md"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page != RUN_FROM_THE_WHEEL]

_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")
_STAND_IN = "<!-- runs on: the stand-in -->"
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """A fenced piece of code and where it stands."""

    language: str
    text: str
    line: int
    title: str | None = None
    not_run: str | None = None
    shown: str | None = None


@dataclass(frozen=True)
class Command:
    """A command, and what is shown of what it prints."""

    text: str
    shown: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, each program with the output that is shown for it.

    Raises
    ------
    ValueError
        A piece of code says nothing about what it is, so that nothing could be checked.
    """
    found: list[Block] = []
    reason = None
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            match = _NOT_RUN.search(token.content)
            reason = match[1] if match else reason
            continue
        if token.type == "code_block" or (token.type == "fence" and not token.info.strip()):
            raise ValueError(f"{page}:{line}: code without a language; write ```console")
        if token.type == "fence":
            language, _, rest = token.info.strip().partition(" ")
            title = _TITLE.search(rest)
            found.append(Block(language, token.content, line, title and title[1], reason))
        reason = None
    return list(_with_output(found))


def _with_output(found: list[Block]) -> Iterator[Block]:
    """Give each program the text block that follows it."""
    for place, block in enumerate(found):
        follower = found[place + 1] if place + 1 < len(found) else None
        if block.language == "python" and follower is not None and _is_output(follower):
            yield Block(**{**vars(block), "shown": follower.text})
        elif not (_is_output(block) and place and found[place - 1].language == "python"):
            yield block


def _is_output(block: Block) -> bool:
    return block.language == "text" and block.title is None


def on_stand_in(page: Path) -> bool:
    """Return whether the programs of a page talk to the stand-in for Oracle."""
    return _STAND_IN in page.read_text(encoding="utf-8")


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block; a line that ends with a backslash goes on."""
    lines = block.text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    if not starts or starts[0] != 0:
        raise ValueError(f"line {block.line}: a console block starts with '$ '")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        last = start
        while lines[last].endswith("\\"):
            last += 1
        text = "\n".join(lines[start : last + 1]).removeprefix("$ ")
        yield Command(text, "\n".join(lines[last + 1 : end]), block.line + 1 + start)


def fits(printed: str, shown: str) -> bool:
    """Return whether an output is the one that is shown."""
    pattern = ".*?".join(re.escape(part) for part in shown.strip().split("..."))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None
