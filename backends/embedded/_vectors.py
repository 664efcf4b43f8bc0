"""Similarities: one rough pass over all rows in scope, then the best of them exactly."""

from __future__ import annotations

import json
from typing import TypeAlias

import apsw
import numpy as np
from numpy.typing import NDArray

from agentmem.backends.base import Vector
from agentmem.backends.embedded._matrix import damaged_vectors, read_steps
from agentmem.backends.embedded._resident import Mask, Snapshot
from agentmem.models.vector_codes import Steps, to_steps

Places: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float64]

DIGITS = 6
_BLOCK = 64
_ROUGH_ERROR = 4e-6
"""More than what single precision and rounding can make of a similarity."""
_STORED = """
SELECT chunk_row, embedding FROM vectors
WHERE chunk_row IN (SELECT value FROM json_each(?)) ORDER BY chunk_row
"""
_STORED_SIMILARITIES = """
SELECT chunk_row, 1.0 - vec_distance_cosine(vec_int8(embedding), vec_int8(?))
FROM vectors WHERE chunk_row IN (SELECT value FROM json_each(?)) ORDER BY chunk_row
"""


def nearest(
    connection: apsw.Connection,
    snapshot: Snapshot,
    mask: Mask,
    vector: Vector,
    limit: int,
) -> Places:
    """Return the places of the rows that can be among the `limit` most similar ones.

    Parameters
    ----------
    mask
        Which rows of the snapshot count.
    vector
        float32 of shape (dimensions,).
    limit
        Rows wanted; those that tie with the last one come as well.
    """
    places = np.flatnonzero(mask)
    if not len(places):
        return places
    if snapshot.matrix is None:
        places, stored = _rough_on_disk(connection, snapshot, places, vector)
        return places[best(stored, limit, slack=_ROUGH_ERROR)]
    rough = snapshot.matrix.similarities(places, snapshot.rows, vector)
    return places[best(rough, limit, slack=_ROUGH_ERROR)]


def similarities(
    connection: apsw.Connection, snapshot: Snapshot, places: Places, vector: Vector
) -> Scores:
    """Return cosine similarities, rounded; NaN for a row that has no vector on disk."""
    if snapshot.matrix is not None:
        return _cosines(snapshot.matrix.steps(places), vector)
    rows = snapshot.column("chunk_row")[places]
    wanted = json.dumps(np.unique(rows).tolist())
    stored: list[tuple[int, bytes]] = list(connection.execute(_STORED, (wanted,)))
    values = _cosines(read_steps([code for _, code in stored], len(vector)), vector).tolist()
    known = dict(zip((row for row, _ in stored), values, strict=True))
    return np.array([known.get(row, np.nan) for row in rows.tolist()], dtype=np.float64)


def best(scores: NDArray[np.floating], limit: int, slack: float = 0.0) -> Places:
    """Return the places of the `limit` highest scores and of those that tie with the last.

    Scores tie when they differ by no more than `slack`.
    """
    if len(scores) <= limit:
        return np.arange(len(scores))
    # At least `limit` scores reach the `limit`-th of the blocks' highest: the cut is not below it,
    # and the few that reach it are found without sorting the others.
    blocks = len(scores) // _BLOCK
    high = scores
    if blocks > limit:
        highest = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
        high = scores[scores >= np.partition(highest, blocks - limit)[blocks - limit]]
    cut = np.partition(high, len(high) - limit)[len(high) - limit]
    return np.flatnonzero(scores >= cut - slack)


def _cosines(steps: Steps, vector: Vector) -> Scores:
    """Return cosine similarities in double precision, rounded: the same on every engine."""
    exact, query = steps.astype(np.float64), vector.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact) * np.einsum("i,i->", query, query))
    products = np.einsum("ij,j->i", exact, query)
    values: Scores = products / np.maximum(lengths, np.finfo(np.float64).tiny)
    return values.round(DIGITS)


def _rough_on_disk(
    connection: apsw.Connection, snapshot: Snapshot, places: Places, vector: Vector
) -> tuple[Places, Scores]:
    """Return those of `places` that have a vector on disk, and their similarities."""
    rows = snapshot.column("chunk_row")[places]
    try:
        found = list(
            connection.execute(
                _STORED_SIMILARITIES, (to_steps(vector).tobytes(), json.dumps(rows.tolist()))
            )
        )
    except apsw.SQLError as error:
        if "dimension" in str(error).lower():  # vectors of different lengths
            raise damaged_vectors() from error
        raise
    there = snapshot.positions(np.array([row for row, _ in found], dtype=np.int64))
    return there, np.array([similarity for _, similarity in found], dtype=np.float64)
