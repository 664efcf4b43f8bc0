"""Takes whole documents out of the tables and puts them in as they were elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import oracledb

from agentmem.backends._rules import taken
from agentmem.backends._versions import StoredWindow, succeed
from agentmem.backends.base import ChunkToWrite, DocumentToLoad, DumpedVersion, Micros, Selection
from agentmem.backends.oracle._connection import Database, Row, Transaction
from agentmem.backends.oracle._errors import is_duplicate, row_offset
from agentmem.backends.oracle._filters import listed_names
from agentmem.backends.oracle._selecting import all_versions_query, read_row, rows_query
from agentmem.backends.oracle._values import Bind, json_bind, to_vector, with_short_texts
from agentmem.backends.oracle._writing import (
    INSERT_CHUNK,
    INSERT_DOCUMENT,
    chunk_rows,
    document_row,
)

_CHUNKS = f"""SELECT c.document_id, c.version, c.chunk_index, c.span_start, c.span_end, c.tokens,
       c.embedding, c.codes
FROM mem_chunks c
WHERE c.tenant_id = :tenant AND c.document_id IN ({listed_names(":ids")})
ORDER BY c.document_id, c.version, c.chunk_index"""
_KNOWN = f"""SELECT DISTINCT d.document_id
FROM mem_documents d
WHERE d.tenant_id = :tenant AND d.document_id IN ({listed_names(":ids")})"""


async def dump(
    database: Database, selection: Selection, after: tuple[Micros, str] | None, limit: int
) -> list[list[DumpedVersion]]:
    """Return every version of the selected documents with their chunks, in two more queries."""
    action = "read documents"
    found = await database.fetch(action, *rows_query(selection, after, limit))
    names = [row[0] for row in found]
    binds: dict[str, Bind] = {"tenant": selection.tenant, "ids": json_bind(names)}
    chunks: dict[tuple[str, int], list[ChunkToWrite]] = {}
    for row in await database.fetch(action, _CHUNKS, binds):
        chunks.setdefault((row[0], int(row[1])), []).append(_chunk(row))
    versions: dict[str, list[DumpedVersion]] = {name: [] for name in names}
    for row in await database.fetch(action, *all_versions_query(selection.tenant, names)):
        stored = read_row(row)
        place = stored.document_id, stored.version
        versions[stored.document_id].append(
            DumpedVersion(row=stored, chunks=tuple(chunks.get(place, ())))
        )
    return list(versions.values())


def _chunk(row: Row) -> ChunkToWrite:
    return ChunkToWrite(
        chunk_index=int(row[2]),
        start=int(row[3]),
        end=int(row[4]),
        tokens=int(row[5]),
        vector=np.zeros(0, dtype=np.float32) if row[6] is None else to_vector(row[6]),
        codes=row[7],
    )


async def load(
    transaction: Transaction, tenant: str, documents: Sequence[DocumentToLoad], lexer: str
) -> list[bool]:
    """Store documents as they are; see `Backend.load`."""
    names = [document.document_id for document in documents]
    binds: dict[str, Bind] = {"tenant": tenant, "ids": json_bind(names)}
    known = {row[0] for row in await transaction.fetch(_KNOWN, binds)}
    fresh = [document for document in documents if document.document_id not in known]
    rows, owners, chunks = [], [], []
    for document in fresh:
        for place, row, of_version in _rows(tenant, document, lexer):
            owners.append(place[0])
            rows.append(row)
            chunks += of_version
    try:
        await transaction.executemany(INSERT_DOCUMENT, with_short_texts(rows))
    except oracledb.Error as error:
        if not is_duplicate(error):
            raise
        raise taken(owners[min(row_offset(error), len(owners) - 1)]) from error
    await transaction.executemany(INSERT_CHUNK, with_short_texts(chunks))
    return [name not in known for name in names]


def _rows(
    tenant: str, document: DocumentToLoad, lexer: str
) -> list[tuple[tuple[str, int], dict[str, Bind], list[dict[str, Bind]]]]:
    """Return place, row and chunks of each version, with the windows that the history gives."""
    windows: dict[int, StoredWindow] = {}
    for number, version in enumerate(document.versions, start=1):
        new, changed = succeed(
            list(windows.values()),
            version=number,
            created_at=version.created_at,
            valid_from=version.valid_from,
            valid_until=version.valid_until,
        )
        windows |= {window.version: window for window in (*changed, new)}
    made = []
    for number, version in enumerate(document.versions, start=1):
        place, window = (document.document_id, number), windows[number]
        row = document_row(
            tenant,
            place,
            version,
            window,
            first_created_at=document.versions[0].created_at,
            head=number == len(document.versions),
            deleted_at=document.deleted_at,
        )
        of_version = chunk_rows(tenant, place, version, window, lexer, document.deleted_at)
        made.append((place, row, of_version))
    return made
