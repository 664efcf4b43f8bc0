"""Writes a batch of documents in one transaction.

The batch is worked out in memory from what is stored of its documents, and then sent as three array
statements. Two writers of the same document meet at a unique key or at a head that is no longer
one; the later of them starts again from what is stored then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentmem._types import WriteStatus
from agentmem.backends._expiry import NewExpiry
from agentmem.backends._rules import searchable_text
from agentmem.backends._versions import StoredWindow, chunk_id, document_id, succeed
from agentmem.backends.base import DocumentToWrite, Head, Identity, Micros, Written
from agentmem.backends.oracle._connection import Database, MovedError, Row, Transaction
from agentmem.backends.oracle._filters import listed_names
from agentmem.backends.oracle._text_query import indexed_text
from agentmem.backends.oracle._values import (
    Bind,
    Binds,
    blob_bind,
    clob_bind,
    json_bind,
    metadata_bind,
    time_bind,
    to_bound,
    to_micros,
    vector_bind,
    with_short_texts,
)

_HEADS = f"""SELECT d.live_identity, d.document_id, d.version, d.fingerprint, d.chunks
FROM mem_documents d
WHERE d.tenant_id = :tenant AND d.live_identity IN ({listed_names(":identities")})
  AND (d.expires_at IS NULL OR d.expires_at > :now)"""

_STORED = f"""SELECT d.document_id, d.version, d.live_identity, d.fingerprint, d.chunks,
       d.first_created_at, d.created_at,
       d.visible_from, d.visible_until, d.as_of_from, d.as_of_until
FROM mem_documents d
WHERE d.tenant_id = :tenant AND (
  d.document_id IN ({listed_names(":new_ids")})
  OR d.document_id IN (
    SELECT h.document_id FROM mem_documents h
    WHERE h.tenant_id = :tenant AND h.live_identity IN ({listed_names(":identities")})))
ORDER BY d.document_id, d.version"""

_SUPERSEDE = """UPDATE mem_documents SET is_head = 0, live_identity = NULL
WHERE tenant_id = :tenant AND document_id = :document_id AND version = :version
  AND live_identity = :live_identity"""

_SHORTEN = """UPDATE {table} SET visible_until = :visible_until, as_of_until = :as_of_until
WHERE tenant_id = :tenant AND document_id = :document_id AND version = :version"""
_SHORTEN_DOCUMENT = _SHORTEN.format(table="mem_documents")
_SHORTEN_CHUNKS = _SHORTEN.format(table="mem_chunks")

_SET_EXPIRY = """UPDATE mem_documents SET expires_at = :expires_at, fingerprint = :fingerprint
WHERE tenant_id = :tenant AND document_id = :document_id AND version = :version
  AND fingerprint = :before AND is_head = 1 AND deleted_at IS NULL"""

_SET_CHUNK_EXPIRY = """UPDATE mem_chunks SET expires_at = :expires_at
WHERE tenant_id = :tenant AND document_id = :document_id AND version = :version"""

_SHARED_COLUMNS = (
    "tenant_id", "document_id", "version", "user_id", "collection", "doc_key", "title",
    "source_uri", "metadata", "created_at", "valid_from", "valid_until", "expires_at",
    "deleted_at", "visible_from", "visible_until", "as_of_from", "as_of_until",
)  # fmt: skip
_DOCUMENT_COLUMNS = (
    *_SHARED_COLUMNS, "is_head", "live_identity", "identity", "fingerprint", "chunks",
    "first_created_at", "content",
)  # fmt: skip
_CHUNK_COLUMNS = (
    *_SHARED_COLUMNS, "id", "chunk_index", "span_start", "span_end", "tokens", "embedding",
    "codes", "text", "search_text",
)  # fmt: skip


def _insert(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(f":{'tenant' if name == 'tenant_id' else name}" for name in columns)
    return f"INSERT INTO {table} ({', '.join(columns)})\nVALUES ({names})"


INSERT_DOCUMENT = _insert("mem_documents", _DOCUMENT_COLUMNS)
INSERT_CHUNK = _insert("mem_chunks", _CHUNK_COLUMNS)


def live_identity(tenant: str, user_id: str | None, collection: str, identity: str) -> str:
    """Return what is unique among the live documents of a tenant: 40 hexadecimal digits."""
    name = json.dumps([tenant, user_id, collection, identity])
    return hashlib.blake2b(name.encode("utf-8"), digest_size=20).hexdigest()


async def find_heads(
    database: Database, tenant: str, identities: Sequence[Identity], now: Micros
) -> list[Head | None]:
    """Return the live head of each identity, in order; an expired one counts as none."""
    names = [live_identity(tenant, i.user_id, i.collection, i.identity) for i in identities]
    binds: Binds = {
        "tenant": tenant,
        "identities": json_bind(sorted(set(names))),
        "now": time_bind(now),
    }
    heads = {
        row[0]: Head(
            document_id=row[1], version=int(row[2]), fingerprint=row[3], chunks=int(row[4])
        )
        for row in await database.fetch("look up documents", _HEADS, binds)
    }
    return [heads.get(name) for name in names]


@dataclass(slots=True, kw_only=True)
class _Stored:
    """One document as the batch leaves it."""

    name: str
    first_created_at: Micros
    windows: list[StoredWindow] = field(default_factory=list)
    version: int = 0
    fingerprint: str = ""
    chunks: int = 0
    created_at: Micros = 0


class _Batch:
    """What a batch changes, worked out document by document."""

    def __init__(self, tenant: str, lexer: str, stored: Sequence[Row]) -> None:
        self._tenant = tenant
        self._lexer = lexer
        self._stored: dict[str, _Stored] = {}
        self._live: dict[str, _Stored] = {}
        self._loaded: set[tuple[str, int]] = set()
        self.superseded: list[Binds] = []
        self._new: dict[tuple[str, int], tuple[DocumentToWrite, _Stored]] = {}
        self._windows: dict[tuple[str, int], StoredWindow] = {}
        for row in stored:
            self._load(row)

    def _load(self, row: Row) -> None:
        name, version = row[0], int(row[1])
        stored = self._stored.setdefault(
            name, _Stored(name=name, first_created_at=to_micros(row[5]) or 0)
        )
        stored.windows.append(
            StoredWindow(
                version=version,
                visible_from=to_bound(row[7]),
                visible_until=to_bound(row[8]),
                as_of_from=to_bound(row[9]),
                as_of_until=to_bound(row[10]),
            )
        )
        self._loaded.add((name, version))
        if row[2] is not None:
            self._live[row[2]] = stored
            stored.version, stored.fingerprint = version, row[3]
            stored.chunks, stored.created_at = int(row[4]), to_micros(row[6]) or 0

    def add(self, document: DocumentToWrite, *, again: bool) -> Written:
        """Work out what becomes of one document.

        `again` says that this batch may have been committed before without our knowing; a version
        of the same instant is then this very one.
        """
        name = self._identity(document)
        stored = self._live.get(name)
        if stored is None:
            stored = _Stored(name=self._free_id(document), first_created_at=document.created_at)
            self._live[name] = self._stored[stored.name] = stored
        elif stored.fingerprint == document.fingerprint:
            ours = again and stored.created_at == document.created_at
            return _written(stored, _made(stored.version) if ours else "unchanged")
        elif (stored.name, stored.version) in self._loaded:
            self.superseded.append(
                {
                    "tenant": self._tenant,
                    "document_id": stored.name,
                    "version": stored.version,
                    "live_identity": name,
                }
            )
        self._succeed(stored, document)
        return _written(stored, _made(stored.version))

    def _identity(self, document: DocumentToWrite) -> str:
        return live_identity(self._tenant, document.user_id, document.collection, document.identity)

    def _free_id(self, document: DocumentToWrite) -> str:
        attempt = 0
        while (name := _id(self._tenant, document, attempt)) in self._stored:
            attempt += 1
        return name

    def _succeed(self, stored: _Stored, document: DocumentToWrite) -> None:
        stored.version += 1
        window, changed = succeed(
            stored.windows,
            version=stored.version,
            created_at=document.created_at,
            valid_from=document.valid_from,
            valid_until=document.valid_until,
        )
        windows = {w.version: w for w in (*stored.windows, *changed, window)}
        stored.windows = list(windows.values())
        self._windows |= {(stored.name, w.version): w for w in (*changed, window)}
        stored.fingerprint, stored.chunks = document.fingerprint, len(document.chunks)
        stored.created_at = document.created_at
        self._new[stored.name, stored.version] = document, stored

    def shortened(self) -> list[Binds]:
        """Return the windows of stored versions that end earlier now."""
        return [
            {
                "tenant": self._tenant,
                "document_id": place[0],
                "version": place[1],
                "visible_until": time_bind(window.visible_until),
                "as_of_until": time_bind(window.as_of_until),
            }
            for place, window in self._windows.items()
            if place in self._loaded
        ]

    def document_rows(self) -> list[dict[str, Bind]]:
        """Return the rows of new versions."""
        return [
            document_row(
                self._tenant,
                place,
                document,
                self._windows[place],
                first_created_at=stored.first_created_at,
                head=stored.version == place[1],
            )
            for place, (document, stored) in self._new.items()
        ]

    def chunk_rows(self) -> list[dict[str, Bind]]:
        """Return the rows of the new versions' chunks."""
        return [
            row
            for place, (document, _) in self._new.items()
            for row in chunk_rows(self._tenant, place, document, self._windows[place], self._lexer)
        ]


def document_row(
    tenant: str,
    place: tuple[str, int],
    document: DocumentToWrite,
    window: StoredWindow,
    *,
    first_created_at: Micros,
    head: bool,
    deleted_at: Micros | None = None,
) -> dict[str, Bind]:
    """Return the row of a version; `place` is its document's id and its number."""
    live = head and deleted_at is None
    name = live_identity(tenant, document.user_id, document.collection, document.identity)
    return {
        **_shared(tenant, place, document, window, deleted_at),
        "is_head": int(head),
        "live_identity": name if live else None,
        "identity": document.identity,
        "fingerprint": document.fingerprint,
        "chunks": len(document.chunks),
        "first_created_at": time_bind(first_created_at),
        "content": clob_bind(document.content),
    }


def chunk_rows(
    tenant: str,
    place: tuple[str, int],
    document: DocumentToWrite,
    window: StoredWindow,
    lexer: str,
    deleted_at: Micros | None = None,
) -> list[dict[str, Bind]]:
    """Return the rows of a version's chunks."""
    shared = _shared(tenant, place, document, window, deleted_at)
    rows = []
    for chunk in document.chunks:
        text = document.content[chunk.start : chunk.end]
        words = indexed_text(searchable_text(document.title, text), lexer)
        rows.append(
            {
                **shared,
                "id": chunk_id(place[0], place[1], chunk.chunk_index),
                "chunk_index": chunk.chunk_index,
                "span_start": chunk.start,
                "span_end": chunk.end,
                "tokens": chunk.tokens,
                "embedding": vector_bind(chunk.vector),
                "codes": blob_bind(chunk.codes),
                "text": clob_bind(text),
                "search_text": clob_bind(words),
            }
        )
    return rows


def _shared(
    tenant: str,
    place: tuple[str, int],
    document: DocumentToWrite,
    window: StoredWindow,
    deleted_at: Micros | None,
) -> dict[str, Bind]:
    return {
        "tenant": tenant,
        "document_id": place[0],
        "version": place[1],
        "user_id": document.user_id,
        "collection": document.collection,
        "doc_key": document.key,
        "title": document.title,
        "source_uri": document.source_uri,
        "metadata": metadata_bind(document.metadata),
        "created_at": time_bind(document.created_at),
        "valid_from": time_bind(document.valid_from),
        "valid_until": time_bind(document.valid_until),
        "expires_at": time_bind(document.expires_at),
        "deleted_at": time_bind(deleted_at),
        "visible_from": time_bind(window.visible_from),
        "visible_until": time_bind(window.visible_until),
        "as_of_from": time_bind(window.as_of_from),
        "as_of_until": time_bind(window.as_of_until),
    }


def _id(tenant: str, document: DocumentToWrite, attempt: int) -> str:
    return document_id(
        tenant,
        document.user_id,
        document.collection,
        document.identity,
        document.created_at,
        attempt,
    )


def _made(version: int) -> WriteStatus:
    return "created" if version == 1 else "updated"


def _written(stored: _Stored, status: WriteStatus) -> Written:
    return Written(
        document_id=stored.name, version=stored.version, status=status, chunks=stored.chunks
    )


async def write_batch(
    transaction: Transaction,
    tenant: str,
    documents: Sequence[DocumentToWrite],
    lexer: str,
) -> list[Written]:
    """Store `documents` and return what became of each, in order.

    Raises
    ------
    MovedError
        Another writer was faster; nothing may be committed.
    """
    attempts = 2  # the second id of a document is needed when the first one is taken
    new_ids = {_id(tenant, document, n) for document in documents for n in range(attempts)}
    identities = {live_identity(tenant, d.user_id, d.collection, d.identity) for d in documents}
    stored = await transaction.fetch(
        _STORED,
        {
            "tenant": tenant,
            "new_ids": json_bind(sorted(new_ids)),
            "identities": json_bind(sorted(identities)),
        },
    )
    batch = _Batch(tenant, lexer, stored)
    written = [batch.add(document, again=transaction.unsure) for document in documents]
    counts = await transaction.executemany(_SUPERSEDE, batch.superseded)
    if any(count != 1 for count in counts):
        raise MovedError("another writer stored a newer version")
    shortened = batch.shortened()
    await transaction.executemany(_SHORTEN_DOCUMENT, shortened)
    await transaction.executemany(_SHORTEN_CHUNKS, shortened)
    await transaction.executemany(INSERT_DOCUMENT, with_short_texts(batch.document_rows()))
    await transaction.executemany(INSERT_CHUNK, with_short_texts(batch.chunk_rows()))
    return written


async def set_expiry(
    transaction: Transaction, tenant: str, changes: Sequence[NewExpiry]
) -> list[bool]:
    """Change when live heads expire, and return for each whether it was one."""
    rows: list[Binds] = [
        {
            "tenant": tenant,
            "document_id": new.document_id,
            "version": new.version,
            "expires_at": time_bind(new.expires_at),
        }
        for new in changes
    ]
    heads: list[Binds] = [
        {**row, "before": new.before, "fingerprint": new.fingerprint}
        for row, new in zip(rows, changes, strict=True)
    ]
    done = [count == 1 for count in await transaction.executemany(_SET_EXPIRY, heads)]
    changed = [row for row, is_head in zip(rows, done, strict=True) if is_head]
    await transaction.executemany(_SET_CHUNK_EXPIRY, changed)
    return done
