"""Writes a batch of documents inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from agentmem._filters import canonical_json, encode_metadata
from agentmem._types import WriteStatus
from agentmem.backends._expiry import NewExpiry
from agentmem.backends._versions import StoredWindow, document_id, succeed
from agentmem.backends.base import (
    ChunkToWrite,
    DocumentToWrite,
    Head,
    Identity,
    Micros,
    Written,
)
from agentmem.backends.embedded._schema import advance
from agentmem.models.vector_codes import to_steps

_SCOPE = """
SELECT scope_id FROM scopes
WHERE tenant = ?1 AND collection = ?2 AND COALESCE(user_id, '') = COALESCE(?3, '')
"""
_HEAD = """
SELECT version_row, document_id, version, fingerprint, first_created_at, expires_at,
       (SELECT COUNT(*) FROM chunks WHERE chunks.version_row = documents.version_row)
FROM documents WHERE scope_id = ?1 AND identity = ?2 AND is_head = 1 AND deleted_at IS NULL
"""
_SET_EXPIRY = """
UPDATE documents SET expires_at = ?1, fingerprint = ?2, change = ?3
WHERE document_id = ?4 AND version = ?5 AND fingerprint = ?6
  AND is_head = 1 AND deleted_at IS NULL
  AND scope_id IN (SELECT scope_id FROM scopes WHERE tenant = ?7)
"""
_INSERT_VERSION = """
INSERT INTO documents (
    scope_id, document_id, version, is_head, change, text_change,
    visible_from, visible_until, as_of_from, as_of_until, first_created_at, created_at,
    valid_from, valid_until, expires_at, user_id, collection, key, identity, fingerprint,
    title, source_uri, metadata, content, deleted_at)
VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING version_row
"""
_INSERT_CHUNK = """
INSERT INTO chunks (version_row, chunk_index, start, stop, tokens)
VALUES (?, ?, ?, ?, ?) RETURNING chunk_row
"""


def find_heads(
    connection: apsw.Connection, tenant: str, identities: Sequence[Identity], now: Micros
) -> list[Head | None]:
    """Return the live head of each identity, in order; an expired one counts as none."""
    heads: list[Head | None] = []
    for name in identities:
        scope = connection.execute(_SCOPE, (tenant, name.collection, name.user_id)).get
        row = (
            None if scope is None else connection.execute(_HEAD, (scope, name.identity)).fetchone()
        )
        if row is None or (row[5] is not None and row[5] <= now):
            heads.append(None)
        else:
            heads.append(
                Head(document_id=row[1], version=row[2], fingerprint=row[3], chunks=row[6])
            )
    return heads


def write_batch(
    connection: apsw.Connection, tenant: str, documents: Sequence[DocumentToWrite]
) -> list[Written]:
    """Store `documents` and return what became of each, in order."""
    change = advance(connection, "change")
    return [_write_one(connection, tenant, document, change) for document in documents]


def set_expiry(
    connection: apsw.Connection, tenant: str, changes: Sequence[NewExpiry]
) -> list[bool]:
    """Change when live heads expire, and return for each whether it was one."""
    change = advance(connection, "change")
    done = []
    for new in changes:
        connection.execute(
            _SET_EXPIRY,
            (
                new.expires_at, new.fingerprint, change,
                new.document_id, new.version, new.before, tenant,
            ),
        )  # fmt: skip
        done.append(connection.changes() == 1)
    return done


def _write_one(
    connection: apsw.Connection, tenant: str, document: DocumentToWrite, change: int
) -> Written:
    scope = scope_of(connection, tenant, document)
    head = connection.execute(_HEAD, (scope, document.identity)).fetchone()
    if head is None:
        name = _new_id(connection, tenant, document)
        insert_version(connection, scope, name, 1, document, change, document.created_at)
        return _written(name, 1, "created", document)
    _, name, version, fingerprint, first_created_at, _, chunks = head
    if fingerprint == document.fingerprint:
        return Written(document_id=name, version=version, status="unchanged", chunks=chunks)
    connection.execute("UPDATE documents SET is_head = 0 WHERE version_row = ?", (head[0],))
    insert_version(connection, scope, name, version + 1, document, change, first_created_at)
    return _written(name, version + 1, "updated", document)


def _written(name: str, version: int, status: WriteStatus, document: DocumentToWrite) -> Written:
    chunks = len(document.chunks)
    return Written(document_id=name, version=version, status=status, chunks=chunks)


def scope_of(connection: apsw.Connection, tenant: str, document: DocumentToWrite) -> int:
    """Return the scope of a document, made when it is missing."""
    scope = connection.execute(_SCOPE, (tenant, document.collection, document.user_id)).get
    if scope is None:
        scope = connection.execute(
            "INSERT INTO scopes (tenant, user_id, collection) VALUES (?, ?, ?) RETURNING scope_id",
            (tenant, document.user_id, document.collection),
        ).get
    found: int = scope
    return found


def _new_id(connection: apsw.Connection, tenant: str, document: DocumentToWrite) -> str:
    attempt = 0
    while True:
        name = document_id(
            tenant,
            document.user_id,
            document.collection,
            document.identity,
            document.created_at,
            attempt,
        )
        if not connection.execute("SELECT 1 FROM documents WHERE document_id = ?", (name,)).get:
            return name
        attempt += 1


def insert_version(
    connection: apsw.Connection,
    scope: int,
    name: str,
    version: int,
    document: DocumentToWrite,
    change: int,
    first_created_at: Micros,
    deleted_at: Micros | None = None,
) -> None:
    """Store a version as the newest one; the one before must not be the head any more."""
    window = _shorten_earlier(connection, name, version, document, change)
    version_row = connection.execute(
        _INSERT_VERSION,
        (
            scope, name, version, change, change,
            window.visible_from, window.visible_until, window.as_of_from, window.as_of_until,
            first_created_at, document.created_at,
            document.valid_from, document.valid_until, document.expires_at,
            document.user_id, document.collection, document.key,
            document.identity, document.fingerprint,
            document.title, document.source_uri,
            canonical_json(encode_metadata(document.metadata)), document.content, deleted_at,
        ),
    ).get  # fmt: skip
    for chunk in document.chunks:
        _insert_chunk(connection, version_row, chunk)


def _insert_chunk(connection: apsw.Connection, version_row: int, chunk: ChunkToWrite) -> None:
    chunk_row = connection.execute(
        _INSERT_CHUNK, (version_row, chunk.chunk_index, chunk.start, chunk.end, chunk.tokens)
    ).get
    connection.execute(
        "INSERT INTO vectors VALUES (?, ?)", (chunk_row, to_steps(chunk.vector).tobytes())
    )
    if chunk.codes is not None:
        connection.execute("INSERT INTO codes VALUES (?, ?)", (chunk_row, chunk.codes))


def _shorten_earlier(
    connection: apsw.Connection,
    name: str,
    version: int,
    document: DocumentToWrite,
    change: int,
) -> StoredWindow:
    earlier = read_windows(connection, name) if version > 1 else []
    new, changed = succeed(
        earlier,
        version=version,
        created_at=document.created_at,
        valid_from=document.valid_from,
        valid_until=document.valid_until,
    )
    connection.executemany(
        "UPDATE documents SET visible_until = ?, as_of_until = ?, change = ? "
        "WHERE document_id = ? AND version = ?",
        ((w.visible_until, w.as_of_until, change, name, w.version) for w in changed),
    )
    return new


def read_windows(connection: apsw.Connection, name: str) -> list[StoredWindow]:
    """Return the windows of every version of a document."""
    rows = connection.execute(
        "SELECT version, visible_from, visible_until, as_of_from, as_of_until "
        "FROM documents WHERE document_id = ? ORDER BY version",
        (name,),
    )
    return [
        StoredWindow(
            version=row[0],
            visible_from=row[1],
            visible_until=row[2],
            as_of_from=row[3],
            as_of_until=row[4],
        )
        for row in rows
    ]
