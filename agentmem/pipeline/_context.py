"""Renders hits as numbered, cited text for a prompt."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem._clock import from_micros
from agentmem.backends.base import ChunkRow, begin_of

SEPARATOR = "\n\n"


def render_heading(number: int, row: ChunkRow) -> str:
    """Return the line above a hit: ``[1] title (source, date)``.

    Parts that are unknown are left out. The date is the day from which the statement holds, else
    the day of writing.
    """
    source = [row.source_uri] if row.source_uri else []
    day = from_micros(begin_of(row.valid_from, row.created_at)).date()
    facts = ", ".join([*source, day.isoformat()])
    title = f" {row.title}" if row.title else ""
    return f"[{number}]{title} ({facts})"


def render_block(number: int, row: ChunkRow) -> str:
    """Return one hit: its heading and the text below it.

    A number in brackets inside a text stays as it is: only one that starts a block, after an empty
    line, is a citation.
    """
    return f"{render_heading(number, row)}\n{row.text}"


def render(rows: Sequence[ChunkRow]) -> str:
    """Return the whole context; empty without rows."""
    blocks = (render_block(number, row) for number, row in enumerate(rows, start=1))
    return SEPARATOR.join(blocks)
