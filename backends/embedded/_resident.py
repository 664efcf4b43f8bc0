"""Vectors and scope columns held in RAM, kept in step with SQLite.

A `Snapshot` is one state of the store as numpy arrays, a row for each chunk in order of
`chunk_row`. Snapshots are never changed in place: rows are appended behind the part that older
snapshots see, and the arrays are copied before a value in them changes or purged rows leave them. A
search that holds a snapshot therefore sees one consistent state for as long as it runs.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, replace

import apsw
import numpy as np
from numpy.typing import NDArray

from agentmem.backends._versions import chunk_id
from agentmem.backends.base import FOREVER, ModelIdentity, Scope
from agentmem.backends.embedded._matrix import Matrix
from agentmem.backends.embedded._schema import check_model, counter

Mask = NDArray[np.bool_]

_BATCH = 4096
_LOADED_AT_ONCE = 20_000

_COLUMNS = (
    "chunk_row",
    "version_row",
    "scope_id",
    "visible_from",
    "visible_until",
    "as_of_from",
    "as_of_until",
    "expires_at",
    "alive",
    "tokens",
)
_SELECT = f"""
SELECT c.chunk_row, d.version_row, d.scope_id, d.visible_from, d.visible_until,
       d.as_of_from, d.as_of_until, COALESCE(d.expires_at, {FOREVER}), d.deleted_at IS NULL,
       c.tokens, d.document_id, d.version, c.chunk_index
FROM documents d CROSS JOIN chunks c USING (version_row)
"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent state of the store.

    Attributes
    ----------
    change, epoch
        State of the store's counters that the snapshot stands for.
    rows
        Number of chunks; the arrays may be longer.
    columns
        int64 of shape (columns, capacity), a row for each name in `_COLUMNS`.
    ids
        Chunk ids, at least as many as rows.
    matrix
        The vectors, or None when they are not held in RAM.
    """

    change: int
    epoch: int
    rows: int
    columns: NDArray[np.int64]
    ids: list[str]
    matrix: Matrix | None

    def column(self, name: str) -> NDArray[np.int64]:
        """Return one column, as long as there are rows."""
        values: NDArray[np.int64] = self.columns[_COLUMNS.index(name), : self.rows]
        return values

    def in_scope(self, scope: Scope, scope_ids: NDArray[np.int64]) -> Mask:
        """Return which rows a search may see, apart from its `where` filter."""
        if scope.as_of is None:
            start, stop, at = "visible_from", "visible_until", scope.now
        else:
            start, stop, at = "as_of_from", "as_of_until", scope.as_of
        mask: Mask = self.column("alive") != 0
        mask &= self.column(start) <= at
        mask &= self.column(stop) > at
        mask &= self.column("expires_at") > scope.now
        if scope.begins is not None:
            begins = self.column("as_of_from")
            mask &= (begins >= scope.begins[0]) & (begins < scope.begins[1])
        mask &= _is_one_of(self.column("scope_id"), scope_ids)
        return mask

    def positions(self, chunk_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the chunks stand in the arrays, -1 for those that are not there."""
        known = self.column("chunk_row")
        places = np.searchsorted(known, chunk_rows)
        inside = places < self.rows
        found = np.full(len(chunk_rows), -1, dtype=np.int64)
        hit = inside.copy()
        hit[inside] = known[places[inside]] == chunk_rows[inside]
        found[hit] = places[hit]
        return found


def _is_one_of(values: NDArray[np.int64], wanted: NDArray[np.int64]) -> Mask:
    if len(wanted) == 1:
        return np.asarray(values == wanted[0])
    return np.isin(values, wanted)


class Resident:
    """Keeps the newest snapshot and brings it up to date on demand.

    Reading all vectors of a large memory takes a while. Then the first snapshots come without a
    matrix, sqlite-vec answers, and `load_vectors`, called in the background, supplies it.

    Parameters
    ----------
    model
        The model that the vectors must be of.
    memory_limit
        Bytes that the matrix may take; beyond it the vectors stay on disk.
    """

    def __init__(self, model: ModelIdentity, memory_limit: int) -> None:
        self._model = model
        self._dimensions = model.dimensions
        self._row_limit = memory_limit // model.dimensions
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._loaded: Snapshot | None = None

    def snapshot(self, connection: apsw.Connection) -> Snapshot:
        """Return the state that `connection`'s open read transaction sees.

        When another thread is ahead of the transaction, which could not see its rows, the
        transaction begins anew.
        """
        while True:
            change, epoch = counter(connection, "change"), counter(connection, "epoch")
            held = self._brought_to(connection, change, epoch)
            if held.change == change:
                return held
            connection.execute("ROLLBACK; BEGIN")

    @property
    def lacks_vectors(self) -> bool:
        """Whether the newest snapshot waits for `load_vectors`."""
        held = self._snapshot
        if held is None or held.matrix is not None or self._loaded is not None:
            return False
        return 0 < held.rows <= self._row_limit

    def load_vectors(self, connection: apsw.Connection) -> None:
        """Read the vectors of a large memory without holding up searches."""
        held = self.snapshot(connection)
        if held.matrix is None and 0 < held.rows <= self._row_limit:
            matrix = Matrix(held.columns.shape[1], self._dimensions)
            self._read_vectors(connection, matrix, held.column("chunk_row"), after=0)
            with self._lock:
                self._loaded = replace(held, matrix=matrix)

    def _brought_to(self, connection: apsw.Connection, change: int, epoch: int) -> Snapshot:
        """Return the state after `change`, or a newer one."""
        with self._lock:
            held = self._snapshot
            if held is None or held.epoch != epoch:
                held = self._load(connection, change, epoch)
            elif held.change < change:
                held = self._catch_up(connection, held, change)
            if self._loaded is not None and held.change == change:
                held = self._with_matrix(connection, held, self._loaded)
                self._loaded = None
            self._snapshot = held
            return held

    def _load(self, connection: apsw.Connection, change: int, epoch: int) -> Snapshot:
        check_model(connection, self._model)  # another process may have changed it
        columns, ids = _read_rows(connection, _SELECT + " ORDER BY c.chunk_row", ())
        rows = columns.shape[1]
        matrix = None
        if rows <= min(self._row_limit, _LOADED_AT_ONCE):
            matrix = Matrix(rows, self._dimensions)
            self._read_vectors(connection, matrix, columns[0], after=0)
        self._loaded = None
        return Snapshot(change, epoch, rows, columns, ids, matrix)

    def _with_matrix(
        self, connection: apsw.Connection, held: Snapshot, loaded: Snapshot
    ) -> Snapshot:
        """Return `held` with the vectors that `load_vectors` read, and those written since."""
        if held.epoch != loaded.epoch or held.rows > self._row_limit or loaded.matrix is None:
            return held
        last = int(loaded.column("chunk_row")[-1])
        # What was purged since is not in `held` any more.
        left = np.flatnonzero(held.positions(loaded.column("chunk_row")) >= 0)
        matrix = loaded.matrix
        if len(left) < loaded.rows:
            matrix = matrix.only(left, held.columns.shape[1])
        elif len(matrix) < held.rows:
            matrix = matrix.enlarged(held.columns.shape[1])
        self._read_vectors(connection, matrix, held.column("chunk_row"), after=last)
        return replace(held, matrix=matrix)

    def _catch_up(self, connection: apsw.Connection, held: Snapshot, change: int) -> Snapshot:
        touched, ids = _read_rows(
            connection,
            _SELECT + " WHERE d.change > ? ORDER BY c.chunk_row",
            (held.change,),
        )
        last = int(held.column("chunk_row")[-1]) if held.rows else 0
        known = int(np.searchsorted(touched[0], last, side="right"))
        held = self._change_rows(connection, held, touched[:, :known])
        held = self._append(connection, held, touched[:, known:], ids[known:], last)
        return replace(held, change=change)

    def _change_rows(
        self, connection: apsw.Connection, held: Snapshot, touched: NDArray[np.int64]
    ) -> Snapshot:
        purged = connection.execute(
            "SELECT chunk_row FROM tombstones WHERE change > ?", (held.change,)
        )
        gone = held.positions(np.fromiter((row[0] for row in purged), dtype=np.int64))
        gone = gone[gone >= 0]
        if not len(gone) and not touched.shape[1]:
            return held
        columns = held.columns.copy()
        places = held.positions(touched[0])
        columns[:, places[places >= 0]] = touched[:, places >= 0]
        held = replace(held, columns=columns)
        return _without(held, gone) if len(gone) else held

    def _append(
        self,
        connection: apsw.Connection,
        held: Snapshot,
        fresh: NDArray[np.int64],
        ids: list[str],
        last: int,
    ) -> Snapshot:
        added = fresh.shape[1]
        if not added:
            return held
        rows = held.rows + added
        columns = held.columns
        if columns.shape[1] < rows:
            columns = np.empty((len(_COLUMNS), _capacity(rows)), dtype=np.int64)
            columns[:, : held.rows] = held.columns[:, : held.rows]
        columns[:, held.rows : rows] = fresh
        held.ids[held.rows :] = ids
        matrix = None
        if held.matrix is not None and rows <= self._row_limit:
            matrix = held.matrix
            if len(matrix) < rows:
                matrix = matrix.enlarged(_capacity(rows))
            self._read_vectors(connection, matrix, columns[0, :rows], after=last)
        return replace(held, rows=rows, columns=columns, matrix=matrix)

    def _read_vectors(
        self,
        connection: apsw.Connection,
        matrix: Matrix,
        chunk_rows: NDArray[np.int64],
        *,
        after: int,
    ) -> None:
        """Put the vectors behind chunk row `after` into `matrix`, each at its row's place."""
        stored = connection.execute(
            "SELECT chunk_row, embedding FROM vectors WHERE chunk_row > ? ORDER BY chunk_row",
            (after,),
        )
        while batch := list(itertools.islice(stored, _BATCH)):
            places = np.searchsorted(chunk_rows, [row for row, _ in batch])
            matrix.put(places, [code for _, code in batch])


def _without(held: Snapshot, gone: NDArray[np.int64]) -> Snapshot:
    """Return `held` without the rows at the places `gone`, which were purged."""
    left = np.delete(np.arange(held.rows), gone)
    columns = np.empty((len(_COLUMNS), _capacity(len(left))), dtype=np.int64)
    columns[:, : len(left)] = held.columns[:, left]
    matrix = None
    if held.matrix is not None:
        matrix = held.matrix.only(left, columns.shape[1])
        # The only change in place: a purged vector must not stay in RAM, where older snapshots end.
        held.matrix.clear(gone)
    ids = [held.ids[place] for place in left.tolist()]
    return replace(held, rows=len(left), columns=columns, ids=ids, matrix=matrix)


def _capacity(rows: int) -> int:
    """Return how much room to make for `rows`, so that appending is cheap on average."""
    return rows + max(_BATCH, rows // 4)


def _read_rows(
    connection: apsw.Connection, sql: str, values: tuple[int, ...]
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the columns and the chunk ids that `_SELECT` finds."""
    stored = connection.execute(sql, values)
    width = len(_COLUMNS)
    parts, ids = [np.zeros((0, width), dtype=np.int64)], []
    while batch := list(itertools.islice(stored, _BATCH)):
        parts.append(np.array([row[:width] for row in batch], dtype=np.int64))
        ids += [chunk_id(*row[width:]) for row in batch]
    return np.ascontiguousarray(np.concatenate(parts).T), ids
