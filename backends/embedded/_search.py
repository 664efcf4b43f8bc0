"""Stages 2 to 4 in one read transaction: scope, the pools, and the best of them with rows."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import apsw
import numpy as np

from agentmem.backends._context import FIRST
from agentmem.backends._fusion import fuse
from agentmem.backends.base import (
    Candidate,
    CandidateRequest,
    Candidates,
    Scope,
)
from agentmem.backends.embedded._late import LateInteraction
from agentmem.backends.embedded._reading import read_rows, set_codes
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


class Searcher:
    """Answers candidate requests from the resident arrays, the text index and SQLite."""

    def __init__(self, resident: Resident, text: TextIndex, where: WhereCache) -> None:
        self._resident = resident
        self._text = text
        self._where = where

    def candidates(
        self, connection: apsw.Connection, scope: Scope, request: CandidateRequest
    ) -> Candidates:
        """Return the union of the pools, or with a limit the fused best of it, with rows."""
        clock = _Stopwatch()
        snapshot = self._resident.snapshot(connection)
        scope_ids, all_ids = _scope_ids(connection, scope)
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
                connection, snapshot, mask, None if all_ids else scope_ids, request
            )
        details["lexical_ms"] = clock.lap()
        near, similar = _NO_PLACES, None
        if request.vector is not None:
            near = nearest(connection, snapshot, mask, request.vector, request.pool)
        details["vector_ms"] = clock.lap()
        late, third = None, (_NO_PLACES, _NO_SCORES)
        if request.tokens is not None:
            late = LateInteraction(connection, snapshot, visible, request.tokens)
            third = late.pool(mask, request.pool)
        if request.vector is not None:
            every = np.concatenate([near, words[0], third[0]])
            similar = similarities(connection, snapshot, every, request.vector)
        items, pools = _union(snapshot, near, words, third, similar, request.pool)
        details["late_ms"] = clock.lap()
        if request.limit is not None:
            items = fuse(items, k=request.fusion_k, limit=request.limit)
        read_rows(connection, snapshot, items)
        scored = late is not None and late.score(items)
        if request.want_codes or (late is not None and not scored):
            in_company = len(items) if request.limit is None else FIRST
            set_codes(connection, snapshot, visible, items, in_company)
        details["rows_ms"] = clock.lap()
        return Candidates(
            items=items,
            vector_pool=pools[0],
            lexical_pool=pools[1],
            late_pool=pools[2],
            details=details,
        )

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
    third: tuple[Places, Scores],
    similar: Scores | None,
    pool: int,
) -> tuple[list[Candidate], tuple[int, int, int]]:
    """Return one candidate for each row of any pool with its ranks, and the pools' sizes.

    Ties at the end of a pool are cut in the order of ids, as on every engine.

    Parameters
    ----------
    near
        Places of the vector pool, with all that tie at its end.
    words, third
        Places of the lexical pool and of that by late interaction with their scores, likewise.
    similar
        Similarities of the places in `near`, `words` and `third`; None without a vector.
    """
    count, most = len(near), len(near) + len(words[0])
    items: dict[int, Candidate] = {}
    nearest_first: list[tuple[float, str, int, float | None]] = []
    if similar is None:
        best_first = _ranked(snapshot.ids, *words, None)[:pool]
        late_first = _ranked(snapshot.ids, *third, None)[:pool]
    else:
        nearest_first = _ranked(snapshot.ids, near, similar[:count], similar[:count])[:pool]
        best_first = _ranked(snapshot.ids, *words, similar[count:most])[:pool]
        late_first = _ranked(snapshot.ids, *third, similar[most:])[:pool]
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
    for rank, (_, name, place, similarity) in enumerate(late_first, start=1):
        item = items.setdefault(place, Candidate(id=name, similarity=similarity, handle=place))
        item.late_rank = rank
    return list(items.values()), (len(nearest_first), len(best_first), len(late_first))


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
