"""Stages 2 and 3 in one read transaction: the rows in scope, and the best of them in each pool."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from agentmem._filters import read_metadata
from agentmem.backends._fusion import fuse
from agentmem.backends._versions import chunk_id
from agentmem.backends.base import (
    Candidate,
    CandidateRequest,
    Candidates,
    ChunkRow,
    Scope,
    Vector,
)
from agentmem.backends.embedded._resident import Mask, Resident, Snapshot, damaged_vectors
from agentmem.backends.embedded._text_index import TextIndex
from agentmem.backends.embedded._where import WhereCache

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]

_FEW = 256
_WIDEN = 8
_DIGITS = 6
_ROUGH_ERROR = 4e-6
"""More than what single precision and rounding can make of a similarity."""
_NO_ROWS: Rows = np.zeros(0, dtype=np.int64)
_NO_SCORES: Scores = np.zeros(0, dtype=np.float64)

_IDS = """
SELECT c.chunk_row, d.document_id, d.version, c.chunk_index
FROM chunks c JOIN documents d USING (version_row)
WHERE c.chunk_row IN (SELECT value FROM json_each(?))
"""
_ROWS = """
SELECT c.chunk_row, d.document_id, d.version, c.chunk_index, c.start, c.stop,
       substr(d.content, c.start + 1, c.stop - c.start), c.tokens,
       d.key, d.title, d.source_uri, d.user_id, d.collection, d.metadata,
       d.created_at, d.valid_from, d.valid_until, {code}
FROM chunks c JOIN documents d USING (version_row) {join}
WHERE c.chunk_row IN (SELECT value FROM json_each(?))
"""
_ROWS_PLAIN = _ROWS.format(code="NULL", join="")
_ROWS_WITH_CODES = _ROWS.format(code="k.code", join="LEFT JOIN codes k USING (chunk_row)")


class Searcher:
    """Answers candidate requests from the resident arrays, the text index and SQLite."""

    def __init__(self, resident: Resident, text: TextIndex, where: WhereCache) -> None:
        self._resident = resident
        self._text = text
        self._where = where

    def candidates(
        self, connection: apsw.Connection, scope: Scope, request: CandidateRequest
    ) -> Candidates:
        """Return the union of both pools, or with a limit the fused best of it with its rows."""
        clock = _Stopwatch()
        snapshot = self._resident.snapshot(connection)
        scope_ids, every = _scope_ids(connection, scope)
        mask = snapshot.in_scope(scope, np.array(scope_ids, dtype=np.int64))
        if scope.where is not None and mask.any():
            mask = self._where.narrow(connection, snapshot, scope.where, mask)
        details: dict[str, Any] = {"in_scope": int(mask.sum()), "scope_ms": clock.lap()}
        near, similarities = _vector_pool(connection, snapshot, mask, request)
        details["vector_ms"] = clock.lap()
        found, scores = self._lexical_pool(
            connection, snapshot, mask, None if every else scope_ids, request
        )
        details["lexical_ms"] = clock.lap()
        items, pools = _union(
            connection, _pairs(near, similarities), _pairs(found, scores), request.pool
        )
        _complete_similarities(connection, snapshot, items, request.vector)
        if request.limit is not None:
            items = fuse(items, k=request.fusion_k, limit=request.limit)
            hydrate(connection, items, request.want_codes)
        details["rows_ms"] = clock.lap()
        return Candidates(items=items, vector_pool=pools[0], lexical_pool=pools[1], details=details)

    def _lexical_pool(
        self,
        connection: apsw.Connection,
        snapshot: Snapshot,
        mask: Mask,
        scope_ids: Sequence[int] | None,
        request: CandidateRequest,
    ) -> tuple[Rows, Scores]:
        """Return the best rows in scope.

        The index knows users and collections, not times or metadata. It is asked for more and more
        rows until enough of them are in scope or there are no more, so that nothing starves; a
        scope of few rows is named to the index row by row.
        """
        in_scope = int(mask.sum())
        if not request.terms or not in_scope:
            return _NO_ROWS, _NO_SCORES
        few = snapshot.column("chunk_row")[mask].tolist() if in_scope <= _FEW else None
        # As many as hold a full pool when the scope's rows are spread evenly, and half of it more.
        limit = in_scope if few else int(request.pool * 1.5 * snapshot.rows / in_scope)
        while True:
            rows, scores = self._text.search(
                connection, request.terms, limit, scope_ids=scope_ids, chunk_rows=few
            )
            scores = scores.round(_DIGITS)
            places = snapshot.positions(rows)
            kept = (places >= 0) & mask[places]
            pool = rows[kept], scores[kept]
            if len(rows) < limit or _is_settled(pool[1], scores, request.pool):
                break
            limit *= _WIDEN
        best = _best(pool[1], request.pool)
        return pool[0][best], pool[1][best]


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
    wanted = None if scope.collections is None else set(scope.collections)
    ids, total = [], 0
    for scope_id, tenant, user_id, collection in connection.execute(
        "SELECT scope_id, tenant, user_id, collection FROM scopes"
    ):
        total += 1
        if (
            tenant == scope.tenant
            and (user_id is None or user_id == scope.user_id)
            and (wanted is None or collection in wanted)
        ):
            ids.append(scope_id)
    return ids, len(ids) == total


def _vector_pool(
    connection: apsw.Connection, snapshot: Snapshot, mask: Mask, request: CandidateRequest
) -> tuple[Rows, Scores]:
    if request.vector is None:
        return _NO_ROWS, _NO_SCORES
    places = np.flatnonzero(mask)
    if not len(places):
        return _NO_ROWS, _NO_SCORES
    rows = snapshot.column("chunk_row")[places]
    if snapshot.matrix is None:
        return _nearest_on_disk(connection, rows, request.vector, request.pool)
    rough = _rough(snapshot.matrix, places, snapshot.rows, request.vector)
    best = _best(rough, request.pool, slack=_ROUGH_ERROR)
    return rows[best], _cosines(snapshot.matrix[places[best]], request.vector)


def _rough(matrix: Vector, places: Rows, rows: int, vector: Vector) -> Scores:
    """Return similarities in single precision, good enough to find the best by."""
    # Reading the matrix once in order beats gathering scattered rows from about a quarter on.
    if len(places) * 4 >= rows:
        values = (matrix[:rows] @ vector)[places]
    else:
        values = matrix[places] @ vector
    return values.astype(np.float64)


def _cosines(vectors: Vector, vector: Vector) -> Scores:
    """Return cosine similarities in double precision, rounded: the same on every engine."""
    exact, query = vectors.astype(np.float64), vector.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(query)
    values: Scores = (exact @ query) / np.maximum(lengths, np.finfo(np.float64).tiny)
    return values.round(_DIGITS)


def _best(scores: Scores, limit: int, slack: float = 0.0) -> Rows:
    """Return the places of the `limit` highest scores and of those that tie with the last.

    Scores tie when they differ by no more than `slack`.
    """
    if len(scores) <= limit:
        return np.arange(len(scores))
    cut = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    return np.flatnonzero(scores >= cut - slack)


def _nearest_on_disk(
    connection: apsw.Connection, rows: Rows, vector: Vector, limit: int
) -> tuple[Rows, Scores]:
    try:
        found = list(
            connection.execute(
                "SELECT chunk_row, 1.0 - vec_distance_cosine(embedding, ?) "
                "FROM vectors WHERE chunk_row IN (SELECT value FROM json_each(?))",
                (vector.tobytes(), json.dumps(rows.tolist())),
            )
        )
    except apsw.SQLError as error:
        if "dimension" in str(error).lower():  # vectors of different lengths
            raise damaged_vectors() from error
        raise
    rows = np.array([row[0] for row in found], dtype=np.int64)
    rough = np.array([row[1] for row in found], dtype=np.float64)
    best = rows[_best(rough, limit, slack=_ROUGH_ERROR)]
    return _stored_cosines(connection, best, vector)


def _stored_cosines(connection: apsw.Connection, rows: Rows, vector: Vector) -> tuple[Rows, Scores]:
    """Return those of `rows` that have a vector, and its similarity."""
    stored = list(
        connection.execute(
            "SELECT chunk_row, embedding FROM vectors "
            "WHERE chunk_row IN (SELECT value FROM json_each(?)) ORDER BY chunk_row",
            (json.dumps(rows.tolist()),),
        )
    )
    if any(len(blob) != vector.nbytes for _, blob in stored):
        raise damaged_vectors()
    vectors = np.frombuffer(b"".join(blob for _, blob in stored), dtype="<f4")
    there = np.array([row for row, _ in stored], dtype=np.int64)
    return there, _cosines(vectors.reshape(len(there), len(vector)), vector)


def _union(
    connection: apsw.Connection,
    near: Sequence[tuple[int, float]],
    found: Sequence[tuple[int, float]],
    pool: int,
) -> tuple[list[Candidate], tuple[int, int]]:
    """Return one candidate for each row of either pool with its ranks, and the pools' sizes.

    Ties at the end of a pool are cut in the order of ids, as on every engine.
    """
    rows = sorted({row for row, _ in (*near, *found)})
    known = {
        row[0]: Candidate(id=chunk_id(row[1], row[2], row[3]), handle=row[0])
        for row in connection.execute(_IDS, (json.dumps(rows),))
    }

    def best(scored: Sequence[tuple[int, float]]) -> list[tuple[Candidate, float]]:
        there = [(known[row], score) for row, score in scored if row in known]
        return sorted(there, key=lambda pair: (-pair[1], pair[0].id))[:pool]

    items: dict[str, Candidate] = {}
    nearest, wordiest = best(near), best(found)
    for rank, (item, similarity) in enumerate(nearest, start=1):
        item.similarity, item.vector_rank = similarity, rank
        items[item.id] = item
    rank, last = 0, None
    for item, score in wordiest:
        rank += score != last
        last = score
        item.lexical_score, item.lexical_rank = score, rank
        items[item.id] = item
    return list(items.values()), (len(nearest), len(wordiest))


def _pairs(rows: Rows, scores: Scores) -> list[tuple[int, float]]:
    return list(zip(rows.tolist(), scores.tolist(), strict=True))


def _complete_similarities(
    connection: apsw.Connection,
    snapshot: Snapshot,
    items: Sequence[Candidate],
    vector: Vector | None,
) -> None:
    """Set the similarity of those candidates that only the lexical pool found."""
    missing = {item.handle: item for item in items if item.similarity is None}
    if vector is None or not missing:
        return
    rows = np.array(sorted(row for row in missing if row is not None), dtype=np.int64)
    if snapshot.matrix is None:
        rows, values = _stored_cosines(connection, rows, vector)
    else:
        values = _cosines(snapshot.matrix[snapshot.positions(rows)], vector)
    for row, similarity in _pairs(rows, values):
        missing[row].similarity = similarity


def hydrate(connection: apsw.Connection, items: Sequence[Candidate], want_codes: bool) -> None:
    """Read what a hit shows of each candidate."""
    wanted = {item.handle: item for item in items if item.row is None}
    sql = _ROWS_WITH_CODES if want_codes else _ROWS_PLAIN
    for row in connection.execute(sql, (json.dumps(list(wanted)),)):
        wanted[row[0]].row = ChunkRow(
            document_id=row[1],
            version=row[2],
            chunk_index=row[3],
            start=row[4],
            end=row[5],
            text=row[6],
            tokens=row[7],
            key=row[8],
            title=row[9],
            source_uri=row[10],
            user_id=row[11],
            collection=row[12],
            metadata=read_metadata(row[13]),
            created_at=row[14],
            valid_from=row[15],
            valid_until=row[16],
            codes=row[17],
        )
