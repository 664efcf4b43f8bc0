"""What a search reads from SQLite of the chunks that it found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import numpy as np

from agentmem._filters import read_metadata
from agentmem.backends._context import set_around
from agentmem.backends._rules import searchable_text
from agentmem.backends.base import Candidate, ChunkRow
from agentmem.backends.embedded._around import around
from agentmem.backends.embedded._resident import Mask, Snapshot
from agentmem.backends.embedded._vectors import Places

# In the order of the fields of `ChunkRow`.
_ROWS = """
SELECT c.chunk_row, d.document_id, d.version, c.chunk_index, c.start, c.stop,
       substr(d.content, c.start + 1, c.stop - c.start), c.tokens,
       d.key, d.title, d.source_uri, d.user_id, d.collection, d.metadata,
       d.created_at, d.valid_from, d.valid_until
FROM chunks c JOIN documents d USING (version_row)
WHERE c.chunk_row IN (SELECT value FROM json_each(?))
"""
_METADATA = 13
_TEXTS = """
SELECT c.chunk_row, d.title, substr(d.content, c.start + 1, c.stop - c.start)
FROM chunks c JOIN documents d USING (version_row)
WHERE c.chunk_row IN (SELECT value FROM json_each(?))
"""
_CODES = "SELECT chunk_row, code FROM codes WHERE chunk_row IN (SELECT value FROM json_each(?))"


def read_rows(connection: apsw.Connection, snapshot: Snapshot, items: Sequence[Candidate]) -> None:
    """Read what a hit shows of each candidate."""
    places = np.array([item.handle for item in items], dtype=np.int64)
    chunk_rows = snapshot.column("chunk_row")[places].tolist()
    by_row = dict(zip(chunk_rows, items, strict=True))
    for row in connection.execute(_ROWS, (json.dumps(chunk_rows),)):
        values: list[Any] = list(row)
        values[_METADATA] = read_metadata(values[_METADATA])
        by_row[row[0]].row = ChunkRow(*values[1:])


def read_codes(connection: apsw.Connection, snapshot: Snapshot, places: Places) -> dict[int, bytes]:
    """Return the token codes of the chunks at `places`, each once; not of those without any."""
    names = snapshot.column("chunk_row")[places].tolist()
    found = dict(connection.execute(_CODES, (json.dumps(names),)))
    return {
        place: found[name]
        for place, name in zip(places.tolist(), names, strict=True)
        if name in found
    }


def set_texts(
    connection: apsw.Connection, snapshot: Snapshot, items: Sequence[Candidate], before: Places
) -> None:
    """Set the texts of what stands before each candidate.

    Parameters
    ----------
    before
        Where that is, as `around` says it.
    """
    rows = _rows_of(items)
    texts = _texts(connection, snapshot, rows, before)
    for (place, row), others in zip(rows.items(), before.tolist(), strict=True):
        # One that has fewer before it stands there itself.
        count = others.index(place) if place in others else len(others)
        row.texts_before = tuple(texts[other] for other in others[:count])


def set_codes(
    connection: apsw.Connection,
    snapshot: Snapshot,
    visible: Mask,
    items: Sequence[Candidate],
    in_company: int,
) -> None:
    """Set the token codes of each candidate, and for the first of them what stands around it.

    Parameters
    ----------
    visible
        What may stand around a candidate.
    in_company
        For how many candidates it is looked up.
    """
    rows = _rows_of(items)
    places = np.array(list(rows), dtype=np.int64)
    before, behind = around(snapshot, visible, places[:in_company])
    wanted = np.unique(np.concatenate([places, before.ravel(), behind.ravel()]))
    codes = read_codes(connection, snapshot, wanted)
    begins = dict(zip(wanted.tolist(), snapshot.column("as_of_from")[wanted].tolist(), strict=True))
    texts = _texts(connection, snapshot, rows, before)
    for place, row in rows.items():
        row.codes = codes.get(place)
    for (place, row), earlier, later in zip(
        rows.items(), before.tolist(), behind.tolist(), strict=False
    ):
        set_around(
            row,
            ((begins[p], codes.get(p), texts[p]) for p in earlier if p != place),
            ((begins[p], codes.get(p)) for p in later if p != place),
        )


def _rows_of(items: Sequence[Candidate]) -> dict[int, ChunkRow]:
    return {item.handle: item.row for item in items if item.handle is not None and item.row}


def _texts(
    connection: apsw.Connection,
    snapshot: Snapshot,
    rows: Mapping[int, ChunkRow],
    before: Places,
) -> dict[int, str]:
    """Return the searchable texts of candidates and of what stands before them."""
    texts = {place: searchable_text(row.title, row.text) for place, row in rows.items()}
    others = [place for place in np.unique(before).tolist() if place not in rows]
    names = snapshot.column("chunk_row")[others].tolist()
    by_name = dict(zip(names, others, strict=True))
    for name, title, text in connection.execute(_TEXTS, (json.dumps(names),)):
        texts[by_name[name]] = searchable_text(title, text)
    return texts
