"""What stands around a chunk: the rule that every engine follows.

A turn of a conversation often says only with the turns before it what it is about, and a part of a
text with the part before; what stands behind shows what it led to. Before a chunk stand the chunks
that were written before it, and behind it those that were written after it, as far as

* they belong to the same user (or are shared, as it is) and to the same collection,
* the search sees them, apart from its `where` filter,
* each lies no more than an hour from the one next to it, by the time from which it holds, or else
  that of writing.

Chunks of a document are written in their order. Nothing of this is stored: what is forgotten stands
beside nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentmem.backends.base import ChunkRow, Micros, begin_of

REACH = 2
"""Most chunks that stand before a chunk, and behind it; measured in docs/decisions/context.md."""

FIRST = 80
"""Of fused candidates whose token codes leave the store this many, from the best on, come with
those of what stands around them. A folder scores where the codes are, and chooses by that."""

PAUSE: Micros = 3_600_000_000
"""Longest time between two chunks that stand together."""


def set_around(
    row: ChunkRow,
    before: Iterable[tuple[Micros, bytes | None, str]],
    behind: Iterable[tuple[Micros, bytes | None]],
) -> None:
    """Set what stands before `row` and behind it.

    Parameters
    ----------
    before
        Begin, token codes and text of the chunks before it, the nearest first.
    behind
        Begin and token codes of the chunks behind it, the nearest first.
    """
    near = list(_together(begin_of(row.valid_from, row.created_at), before))
    row.codes_before = tuple(code for code, _ in near)
    row.texts_before = tuple(text for _, text in near)
    row.codes_after = tuple(
        code
        for code, _ in _together(
            begin_of(row.valid_from, row.created_at), ((at, code, "") for at, code in behind)
        )
    )


def _together(
    last: Micros, others: Iterable[tuple[Micros, bytes | None, str]]
) -> Iterable[tuple[bytes, str]]:
    """Yield codes and texts of those that stand together with what begins at `last`."""
    for at, code, text in others:
        if abs(last - at) > PAUSE or code is None:
            return
        yield code, text
        last = at
