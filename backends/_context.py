"""What stands before a chunk: the rule that every engine follows.

A turn of a conversation often says only with the turns before it what it is about, and a part of a
text with the part before. Before a chunk stand the chunks that were written before it, as far as

* they belong to the same user (or are shared, as it is) and to the same collection,
* the search sees them, apart from its `where` filter,
* each lies no more than an hour from the one behind it, by the time from which it holds, or else
  that of writing.

Chunks of a document are written in their order. Nothing of this is stored: what is forgotten stands
before nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentmem.backends.base import ChunkRow, Earlier, Micros, begin_of

REACH = 2
"""Most chunks that stand before a chunk; measured in docs/decisions/context.md."""

FIRST = 80
"""Of fused candidates this many, from the best on, are looked at with what stands before."""

PAUSE: Micros = 3_600_000_000
"""Longest time between two chunks that stand together."""


def set_before(row: ChunkRow, earlier: Iterable[tuple[Micros, bytes | None, str]]) -> None:
    """Set `row.before` from begin, token codes and text of the chunks before it, nearest first."""
    last, before = begin_of(row.valid_from, row.created_at), []
    for at, code, text in earlier:
        if abs(last - at) > PAUSE or code is None:
            break
        before.append(Earlier(code, text))
        last = at
    row.before = tuple(before)
