"""Takes whole documents out of the database and puts them in as they were elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import numpy as np

from agentmem.backends._rules import taken
from agentmem.backends.base import ChunkToWrite, DocumentToLoad, DumpedVersion, Micros, Selection
from agentmem.backends.embedded._schema import advance
from agentmem.backends.embedded._selecting import read_all_versions, read_rows
from agentmem.backends.embedded._writing import insert_version, scope_of
from agentmem.models.vector_codes import from_steps

_CHUNKS = """
SELECT d.version, c.chunk_index, c.start, c.stop, c.tokens, v.embedding, k.code
FROM chunks c JOIN documents d USING (version_row)
LEFT JOIN vectors v USING (chunk_row) LEFT JOIN codes k USING (chunk_row)
WHERE d.document_id = ? ORDER BY d.version, c.chunk_index
"""


def dump(
    connection: apsw.Connection,
    selection: Selection,
    after: tuple[Micros, str] | None,
    limit: int,
) -> list[list[DumpedVersion]]:
    """Return every version of the selected documents with their chunks."""
    rows = read_rows(connection, selection, after, limit)
    return [_dumped(connection, row.document_id) for row in rows]


def _dumped(connection: apsw.Connection, name: str) -> list[DumpedVersion]:
    chunks: dict[int, list[ChunkToWrite]] = {}
    for version, index, start, stop, tokens, vector, code in connection.execute(_CHUNKS, (name,)):
        chunks.setdefault(version, []).append(
            ChunkToWrite(
                chunk_index=index,
                start=start,
                end=stop,
                tokens=tokens,
                vector=from_steps(np.frombuffer(vector or b"", dtype=np.int8)),
                codes=code,
            )
        )
    return [
        DumpedVersion(row=row, chunks=tuple(chunks.get(row.version, ())))
        for row in read_all_versions(connection, name)
    ]


def load(
    connection: apsw.Connection, tenant: str, documents: Sequence[DocumentToLoad]
) -> list[bool]:
    """Store documents as they are; see `Backend.load`."""
    change = advance(connection, "change")
    return [_load(connection, tenant, document, change) for document in documents]


def _load(connection: apsw.Connection, tenant: str, document: DocumentToLoad, change: int) -> bool:
    name = document.document_id
    owner = connection.execute(
        "SELECT tenant FROM documents JOIN scopes USING (scope_id) WHERE document_id = ? LIMIT 1",
        (name,),
    ).get
    if owner is not None:
        if owner != tenant:
            raise taken(name)
        return False
    scope = scope_of(connection, tenant, document.versions[0])
    first = document.versions[0].created_at
    try:
        for number, version in enumerate(document.versions, start=1):
            connection.execute("UPDATE documents SET is_head = 0 WHERE document_id = ?", (name,))
            insert_version(
                connection, scope, name, number, version, change, first, document.deleted_at
            )
    except apsw.ConstraintError as error:
        raise taken(name) from error
    return True
