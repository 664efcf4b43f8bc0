"""Stages 2 to 4 in one read transaction: scope, both pools, and the best of them with rows."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import apsw
import numpy as np

from agentmem._filters import read_metadata
from agentmem.backends._context import FIRST, REACH, set_before
from agentmem.backends._fusion import fuse
from agentmem.backends._rules import searchable_text
from agentmem.backends.base import (
    Candidate,
    CandidateRequest,
    Candidates,
    ChunkRow,
    Scope,
)
from agentmem.backends.embedded._resident import Mask, Resident, Snapshot
from agentmem.backends.embedded._text_index import TextIndex
from agentmem.backends.embedded._vectors import (
    DIGITS,
    Places,
    Scores,
    best,
    nearest,
    similarities,
)
from agentmem.backends.embedded._where import WhereCache

_FEW = 256
_WIDEN = 8
_NO_PLACES: Places = np.zeros(0, dtype=np.int64)
_NO_SCORES: Scores = np.zeros(0, dtype=np.float64)

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


class Searcher:
    """Answers candidate requests from the resident arrays, the text index and SQLite."""

    def __init__(self, resident: Resident, text: TextIndex, where: WhereCache) -> None:
        self._resident = resident
        self._text = text
        self._where = where

    def candidates(
        self, connection: apsw.Connection, scope: Scope, request: CandidateRequest
    ) -> Candidates:
        """Return the union of both pools, or with a limit the fused best of it, with rows."""
        clock = _Stopwatch()
        snapshot = self._resident.snapshot(connection)
        scope_ids, every = _scope_ids(connection, scope)
        numbers = np.array(scope_ids, dtype=np.int64)
        mask = visible = snapshot.in_scope(scope, numbers)
        if scope.begins is not None:
            visible = snapshot.in_scope(replace(scope, begins=None), numbers)
        if scope.where is not None and mask.any():
            mask = self._where.narrow(connection, snapshot, scope.where, mask)
        in_scope = int(np.count_nonzero(mask))
        details: dict[str, Any] = {"in_scope": in_scope, "scope_ms": clock.lap()}
        words = _NO_PLACES, _NO_SCORES
        if request.terms and in_scope:
            words = self._lexical_pool(
                connection, snapshot, mask, None if every else scope_ids, request
            )
        details["lexical_ms"] = clock.lap()
        near, similar = _NO_PLACES, None
        if request.vector is not None:
            near = nearest(connection, snapshot, mask, request.vector, request.pool)
            both = np.concatenate([near, words[0]])
            similar = similarities(connection, snapshot, both, request.vector)
        details["vector_ms"] = clock.lap()
        items, pools = _union(snapshot, near, words, similar, request.pool)
        if request.limit is not None:
            items = fuse(items, k=request.fusion_k, limit=request.limit)
        _read_rows(connection, snapshot, items)
        if request.want_codes:
            in_company = len(items) if request.limit is None else FIRST
            _read_codes(connection, snapshot, visible, items, in_company)
        details["rows_ms"] = clock.lap()
        return Candidates(items=items, vector_pool=pools[0], lexical_pool=pools[1], details=details)

    def _lexical_pool(
        self,
        connection: apsw.Connection,
        snapshot: Snapshot,
        mask: Mask,
        scope_ids: Sequence[int] | None,
        request: CandidateRequest,
    ) -> tuple[Places, Scores]:
        """Return the best rows in scope.

        The index knows users and collections, not times or metadata. It is asked for more and more
        rows until enough of them are in scope or there are no more, so that nothing starves; a
        scope of few rows is named to the index row by row.
        """
        in_scope = int(np.count_nonzero(mask))
        few = snapshot.column("chunk_row")[mask].tolist() if in_scope <= _FEW else None
        # As many as hold a full pool when the scope's rows are spread evenly, and half of it more.
        limit = in_scope if few else int(request.pool * 1.5 * snapshot.rows / in_scope)
        while True:
            rows, scores = self._text.search(
                connection, request.terms, limit, scope_ids=scope_ids, chunk_rows=few
            )
            scores = scores.round(DIGITS)
            places = snapshot.positions(rows)
            kept = (places >= 0) & mask[places]
            pool = places[kept], scores[kept]
            if len(rows) < limit or _is_settled(pool[1], scores, request.pool):
                break
            limit *= _WIDEN
        chosen = best(pool[1], request.pool)
        return pool[0][chosen], pool[1][chosen]


def _is_settled(kept: Scores, found: Scores, wanted: int) -> bool:
    """Return whether the best `wanted` of `kept` are sure: no tie with the last is missing."""
    return len(kept) >= wanted and bool(kept[wanted - 1] > found[-1])


class _Stopwatch:
    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        now = time.perf_counter()
        milliseconds = (now - self._last) * 1000
        self._last = now
        return round(milliseconds, 3)


def _scope_ids(connection: apsw.Connection, scope: Scope) -> tuple[list[int], bool]:
    """Return the scopes that a search may see, and whether these are all that there are."""
    total = connection.execute("SELECT COUNT(*) FROM scopes").get
    visible = connection.execute(
        "SELECT scope_id, collection FROM scopes "
        "WHERE tenant = ? AND (user_id IS NULL OR user_id = ?)",
        (scope.tenant, scope.user_id),
    )
    wanted = None if scope.collections is None else set(scope.collections)
    ids = [row for row, collection in visible if wanted is None or collection in wanted]
    return ids, len(ids) == total


def _union(
    snapshot: Snapshot,
    near: Places,
    words: tuple[Places, Scores],
    similar: Scores | None,
    pool: int,
) -> tuple[list[Candidate], tuple[int, int]]:
    """Return one candidate for each row of either pool with its ranks, and the pools' sizes.

    Ties at the end of a pool are cut in the order of ids, as on every engine.

    Parameters
    ----------
    near
        Places of the vector pool, with all that tie at its end.
    words
        Places of the lexical pool with their scores, likewise.
    similar
        Similarities of the places in `near` and then in `words`; None without a vector.
    """
    count = len(near)
    items: dict[int, Candidate] = {}
    nearest_first: list[tuple[float, str, int, float | None]] = []
    if similar is None:
        best_first = _ranked(snapshot.ids, *words, None)[:pool]
    else:
        nearest_first = _ranked(snapshot.ids, near, similar[:count], similar[:count])[:pool]
        best_first = _ranked(snapshot.ids, *words, similar[count:])[:pool]
    for rank, (_, name, place, similarity) in enumerate(nearest_first, start=1):
        items[place] = Candidate(id=name, similarity=similarity, vector_rank=rank, handle=place)
    rank, last = 0, None
    for negated, name, place, similarity in best_first:
        rank += negated != last
        last = negated
        item = items.get(place)
        if item is None:
            item = Candidate(id=name, similarity=similarity, handle=place)
            items[place] = item
        item.lexical_score, item.lexical_rank = -negated, rank
    return list(items.values()), (len(nearest_first), len(best_first))


def _ranked(
    ids: Sequence[str], places: Places, scores: Scores, similar: Scores | None
) -> list[tuple[float, str, int, float | None]]:
    """Return negated score, id, place and similarity of each place, the best first."""
    numbers = places.tolist()
    names = [ids[place] for place in numbers]
    known: list[float | None] = [None] * len(numbers)
    if similar is not None:
        known = [None if math.isnan(value) else value for value in similar.tolist()]
    # No two ids are the same, so what stands behind them is never compared.
    return sorted(zip((-scores).tolist(), names, numbers, known, strict=True))


def _read_rows(connection: apsw.Connection, snapshot: Snapshot, items: Sequence[Candidate]) -> None:
    """Read what a hit shows of each candidate."""
    places = np.array([item.handle for item in items], dtype=np.int64)
    chunk_rows = snapshot.column("chunk_row")[places].tolist()
    by_row = dict(zip(chunk_rows, items, strict=True))
    for row in connection.execute(_ROWS, (json.dumps(chunk_rows),)):
        values: list[Any] = list(row)
        values[_METADATA] = read_metadata(values[_METADATA])
        by_row[row[0]].row = ChunkRow(*values[1:])


def _read_codes(
    connection: apsw.Connection,
    snapshot: Snapshot,
    visible: Mask,
    items: Sequence[Candidate],
    in_company: int,
) -> None:
    """Read the token codes of each candidate, and for the first of them what stands before.

    Parameters
    ----------
    visible
        What may stand before a candidate.
    in_company
        For how many candidates it is looked up.
    """
    rows = {item.handle: item.row for item in items if item.handle is not None and item.row}
    earlier = _earlier(snapshot, visible, list(rows)[:in_company])
    wanted = list({*rows, *chain.from_iterable(earlier)})
    names = snapshot.column("chunk_row")[wanted].tolist()
    codes = dict(connection.execute(_CODES, (json.dumps(names),)))
    begins = snapshot.column("as_of_from")[wanted].tolist()
    texts = {place: searchable_text(row.title, row.text) for place, row in rows.items()}
    others = dict(zip(names, wanted, strict=True))
    texts |= {
        others[name]: searchable_text(title, text)
        for name, title, text in connection.execute(
            _TEXTS, (json.dumps([name for name in names if others[name] not in rows]),)
        )
    }
    known = {
        place: (begin, codes.get(name), texts[place])
        for place, begin, name in zip(wanted, begins, names, strict=True)
    }
    for place, row in rows.items():
        row.codes = known[place][1]
    for row, places in zip(rows.values(), earlier, strict=False):
        set_before(row, (known[place] for place in places))


def _earlier(snapshot: Snapshot, visible: Mask, places: Sequence[int]) -> list[list[int]]:
    """Return where those stand that were written before each, for the same user and collection."""
    scopes = snapshot.column("scope_id")
    earlier: list[list[int]] = [[] for _ in places]
    asked = np.array(places, dtype=np.int64)
    of_each = scopes[asked]
    for scope_id in np.unique(of_each):
        numbers = np.flatnonzero(of_each == scope_id)
        same = np.flatnonzero(visible & (scopes == scope_id))
        ends = np.searchsorted(same, asked[numbers])
        for number, end in zip(numbers.tolist(), ends.tolist(), strict=True):
            earlier[number] = same[max(0, end - REACH) : end][::-1].tolist()
    return earlier
