"""Turns a `Selection` into SQL, and reads, counts, forgets and restores what it covers."""

from __future__ import annotations

import json
from typing import Any

import apsw

from agentmem._filters import read_metadata
from agentmem.backends.base import Forgotten, Micros, Selection, StoredRow
from agentmem.backends.embedded._filters import compile_filter
from agentmem.backends.embedded._schema import advance
from agentmem.errors import ConflictError

_COLUMNS = (
    "document_id, version, user_id, collection, key, title, source_uri, metadata, "
    "first_created_at, created_at, valid_from, valid_until, expires_at, deleted_at, content"
)


class _Where:
    """Conditions and their values, joined by AND."""

    def __init__(self) -> None:
        self._conditions: list[str] = []
        self.values: list[Any] = []

    def add(self, condition: str, *values: Any) -> None:
        self._conditions.append(f"({condition})")
        self.values.extend(values)

    def __str__(self) -> str:
        return " AND ".join(self._conditions)


def conditions(selection: Selection) -> _Where:
    """Return the WHERE clause over ``documents d`` that picks one version per document."""
    where = _Where()
    _add_scope(where, selection)
    if selection.as_of is None:
        where.add("d.is_head = 1")
    else:
        where.add("d.as_of_from <= ? AND d.as_of_until > ?", selection.as_of, selection.as_of)
    if selection.deleted is not None:
        where.add(f"d.deleted_at IS {'NOT NULL' if selection.deleted else 'NULL'}")
    if not selection.expired:
        where.add("d.expires_at IS NULL OR d.expires_at > ?", selection.now)
    if selection.ids is not None:
        where.add("d.document_id IN (SELECT value FROM json_each(?))", json.dumps(selection.ids))
    if selection.key is not None:
        where.add("d.key = ?", selection.key)
    if selection.where is not None:
        compiled = compile_filter(selection.where, table="d")
        where.add(compiled.sql, *compiled.params)
    return where


def _add_scope(where: _Where, selection: Selection) -> None:
    inner = _Where()
    inner.add("tenant = ?", selection.tenant)
    owner = selection.owner
    if owner.mode == "visible" and owner.user_id is not None:
        inner.add("user_id IS NULL OR user_id = ?", owner.user_id)
    elif owner.mode != "every":
        inner.add("user_id IS ?", owner.user_id)
    if selection.collections is not None:
        inner.add(
            "collection IN (SELECT value FROM json_each(?))", json.dumps(selection.collections)
        )
    where.add(f"d.scope_id IN (SELECT scope_id FROM scopes WHERE {inner})", *inner.values)


def read_rows(
    connection: apsw.Connection,
    selection: Selection,
    after: tuple[Micros, str] | None,
    limit: int | None,
) -> list[StoredRow]:
    """Return one version per selected document, in list order."""
    where = conditions(selection)
    if after is not None:
        where.add("(d.first_created_at, d.document_id) > (?, ?)", *after)
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM documents d WHERE {where} "
        "ORDER BY d.first_created_at, d.document_id LIMIT ?",
        (*where.values, -1 if limit is None else limit),
    )
    return [_stored(row) for row in rows]


def read_versions(connection: apsw.Connection, selection: Selection) -> list[StoredRow]:
    """Return every version of the selected documents, oldest first."""
    where = conditions(selection)
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM documents WHERE document_id IN "
        f"(SELECT d.document_id FROM documents d WHERE {where}) "
        "ORDER BY first_created_at, document_id, version",
        where.values,
    )
    return [_stored(row) for row in rows]


def read_all_versions(connection: apsw.Connection, name: str) -> list[StoredRow]:
    """Return every version of one document, oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM documents WHERE document_id = ? ORDER BY version", (name,)
    )
    return [_stored(row) for row in rows]


def _stored(row: tuple[Any, ...]) -> StoredRow:
    return StoredRow(
        document_id=row[0],
        version=row[1],
        user_id=row[2],
        collection=row[3],
        key=row[4],
        title=row[5],
        source_uri=row[6],
        metadata=read_metadata(row[7]),
        first_created_at=row[8],
        created_at=row[9],
        valid_from=row[10],
        valid_until=row[11],
        expires_at=row[12],
        deleted_at=row[13],
        content=row[14],
    )


def count_rows(connection: apsw.Connection, selection: Selection) -> int:
    """Return how many documents are selected."""
    where = conditions(selection)
    found: int = connection.execute(
        f"SELECT COUNT(*) FROM documents d WHERE {where}", where.values
    ).get
    return found


def find_documents(connection: apsw.Connection, selection: Selection) -> list[Forgotten]:
    """Return what a forget of the selection covers, in list order."""
    where = conditions(selection)
    rows = connection.execute(
        "SELECT d.document_id, d.user_id, d.collection, d.key, "
        "(SELECT COUNT(*) FROM documents v WHERE v.document_id = d.document_id), "
        "(SELECT COUNT(*) FROM chunks JOIN documents v USING (version_row) "
        " WHERE v.document_id = d.document_id) "
        f"FROM documents d WHERE {where} ORDER BY d.first_created_at, d.document_id",
        where.values,
    )
    return [
        Forgotten(
            document_id=row[0],
            user_id=row[1],
            collection=row[2],
            key=row[3],
            versions=row[4],
            chunks=row[5],
        )
        for row in rows
    ]


def mark_forgotten(connection: apsw.Connection, documents: list[Forgotten], at: Micros) -> None:
    """Make every version of the documents invisible; `restore` can bring them back."""
    change = advance(connection, "change")
    connection.executemany(
        "UPDATE documents SET deleted_at = ?, change = ?, text_change = ? WHERE document_id = ?",
        ((at, change, change, document.document_id) for document in documents),
    )


def purge(connection: apsw.Connection, documents: list[Forgotten]) -> None:
    """Delete every version of the documents with all that hangs on it.

    The text index cannot delete single terms, so it is rebuilt in a new generation.
    """
    change = advance(connection, "change")
    advance(connection, "generation")
    for document in documents:
        connection.execute(
            "INSERT INTO tombstones SELECT chunk_row, ? FROM chunks JOIN documents "
            "USING (version_row) WHERE document_id = ?",
            (change, document.document_id),
        )
        connection.execute("DELETE FROM documents WHERE document_id = ?", (document.document_id,))
    connection.execute("DELETE FROM scopes WHERE scope_id NOT IN (SELECT scope_id FROM documents)")


def restore_rows(connection: apsw.Connection, selection: Selection) -> list[str]:
    """Undo `mark_forgotten` for the selected documents and return their ids.

    Raises
    ------
    ConflictError
        A live document has taken the identity meanwhile.
    """
    documents = find_documents(connection, selection)
    change = advance(connection, "change")
    for document in documents:
        try:
            connection.execute(
                "UPDATE documents SET deleted_at = NULL, change = ?, text_change = ? "
                "WHERE document_id = ?",
                (change, change, document.document_id),
            )
        except apsw.ConstraintError as error:
            raise ConflictError(
                f"could not restore document {document.document_id!r}: the same text or key was "
                "written again since it was forgotten; forget the newer document first"
            ) from error
    return [document.document_id for document in documents]
