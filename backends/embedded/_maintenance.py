"""Counting, checking, repairing and compacting a memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import apsw

from agentmem.backends._rules import searchable_text
from agentmem.backends.base import Micros, ModelIdentity, Problem, Totals, Vector
from agentmem.backends.embedded import _receipts
from agentmem.backends.embedded._reembedding import drop_staged
from agentmem.backends.embedded._schema import advance
from agentmem.models.token_codes import BLOCK, header
from agentmem.models.vector_codes import to_steps

_TOTALS = """
SELECT COUNT(*) FILTER (WHERE is_head AND live), COUNT(*) FILTER (WHERE live),
       COALESCE(SUM(chunks) FILTER (WHERE live), 0),
       COUNT(*) FILTER (WHERE is_head AND deleted_at IS NOT NULL),
       COUNT(DISTINCT user_id) FILTER (WHERE live),
       COUNT(DISTINCT collection) FILTER (WHERE live)
FROM (
    SELECT d.is_head, d.deleted_at, d.user_id, d.collection,
           d.deleted_at IS NULL AND COALESCE(d.expires_at > ?1, 1) AS live,
           (SELECT COUNT(*) FROM chunks c WHERE c.version_row = d.version_row) AS chunks
    FROM documents d JOIN scopes s USING (scope_id) WHERE s.tenant = ?2
)
"""
# Each finds rows at fault; the subject is a chunk's or a document's id.
_CHUNK = "d.document_id || ':' || d.version || ':' || c.chunk_index"
_WITHOUT = f"""
SELECT {_CHUNK} FROM chunks c JOIN documents d USING (version_row)
WHERE NOT EXISTS (SELECT 1 FROM {{table}} x WHERE x.chunk_row = c.chunk_row)
"""
_VECTOR_LENGTH = f"""
SELECT {_CHUNK} FROM chunks c JOIN documents d USING (version_row) JOIN vectors v USING (chunk_row)
WHERE length(v.embedding) <> ?
"""
# Of the codes `k`: the header and the bytes of a token must be those of the model.
_IS_USABLE = "substr(k.code, 1, length({header})) = {header} AND (length(k.code) - 2) % {width} = 0"
_DAMAGED_CODES = f"""
SELECT {_CHUNK} FROM chunks c JOIN documents d USING (version_row) JOIN codes k USING (chunk_row)
WHERE NOT ({_IS_USABLE.format(header="?1", width="?2")})
"""
_NO_CHUNK = """
SELECT document_id FROM documents WHERE version_row NOT IN (SELECT version_row FROM chunks)
"""
_HEADS = "SELECT document_id FROM documents GROUP BY document_id HAVING SUM(is_head) <> 1"
_SEARCHABLE = """
SELECT c.chunk_row FROM chunks c JOIN documents d USING (version_row) WHERE d.deleted_at IS NULL
"""
_LACKING = f"""
SELECT c.chunk_row, d.title, substr(d.content, c.start + 1, c.stop - c.start)
FROM chunks c JOIN documents d USING (version_row)
WHERE c.chunk_row > ?1 AND (
    NOT EXISTS (SELECT 1 FROM vectors v
                WHERE v.chunk_row = c.chunk_row AND length(v.embedding) = ?2)
    OR ?3 AND NOT EXISTS (SELECT 1 FROM codes k
                           WHERE k.chunk_row = c.chunk_row
                             AND {_IS_USABLE.format(header="?5", width="?6")}))
ORDER BY c.chunk_row LIMIT ?4
"""


def totals(connection: apsw.Connection, tenant: str, now: Micros, folder: Path | None) -> Totals:
    """Return the numbers of one tenant, and the bytes of the whole folder."""
    row = next(connection.execute(_TOTALS, (now, tenant)))
    return Totals(
        documents=row[0],
        versions=row[1],
        chunks=row[2],
        forgotten=row[3],
        users=row[4],
        collections=row[5],
        bytes=None if folder is None else _size(folder),
    )


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # a segment that was merged away while counting
    return total


def check(
    connection: apsw.Connection, model: ModelIdentity, indexed: Iterable[int]
) -> list[Problem]:
    """Check the database, and what is derived from it, against each other.

    Parameters
    ----------
    model
        Tells how long vectors are and whether chunks have token codes.
    indexed
        `chunk_row` of every chunk in the text index.
    """
    problems = [
        Problem(kind="database", subject="memory.db", message=text)
        for (text,) in connection.execute("PRAGMA integrity_check")
        if text != "ok"
    ]
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        message = f"a row refers to a missing row of {parent}"
        problems.append(Problem(kind="reference", subject=f"{table}:{row}", message=message))
    find = partial(_find, connection)
    problems += find("document", "a version has no chunk", _NO_CHUNK)
    problems += find("document", "it has not exactly one newest version", _HEADS)
    problems += find("vector", "the chunk has no vector", _WITHOUT.format(table="vectors"))
    problems += find("vector", "the vector's length is wrong", _VECTOR_LENGTH, model.dimensions)
    if model.token_dimensions:
        problems += find("token codes", "the chunk has none", _WITHOUT.format(table="codes"))
        problems += find(
            "token codes", "they are damaged", _DAMAGED_CODES, *_code_format(model.token_dimensions)
        )
    problems += _receipts.check(connection)
    return problems + _check_text(connection, set(indexed))


def _find(
    connection: apsw.Connection, kind: str, message: str, sql: str, *values: int | bytes
) -> list[Problem]:
    return [
        Problem(kind=kind, subject=str(row[0]), message=message)
        for row in connection.execute(sql, values)
    ]


def _check_text(connection: apsw.Connection, indexed: set[int]) -> list[Problem]:
    expected = {row[0] for row in connection.execute(_SEARCHABLE)}
    named = {"is missing": expected - indexed, "does not belong there": indexed - expected}
    return [
        Problem(kind="text index", subject=f"chunk row {row}", message=f"the chunk {fault}")
        for fault, rows in named.items()
        for row in sorted(rows)
    ]


def lacking(
    connection: apsw.Connection, model: ModelIdentity, after: int, limit: int
) -> list[tuple[int, str]]:
    """Return row and searchable text of chunks that lack a vector or token codes."""
    tokens = model.token_dimensions
    form = _code_format(tokens) if tokens else (b"", 1)
    values = (after, model.dimensions, bool(tokens), limit, *form)
    return [
        (row, searchable_text(title, text))
        for row, title, text in connection.execute(_LACKING, values)
    ]


def _code_format(token_dimensions: int) -> tuple[bytes, int]:
    """Return what a code begins with, and the bytes of a token."""
    return header(token_dimensions), token_dimensions // BLOCK


def set_vectors(
    connection: apsw.Connection, rows: Sequence[tuple[int, Vector, bytes | None]]
) -> None:
    """Store vectors and token codes of chunks anew; every reader starts over."""
    for row, vector, code in rows:
        blob = to_steps(vector).tobytes()
        connection.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (row, blob))
        if code is not None:
            connection.execute("INSERT OR REPLACE INTO codes VALUES (?, ?)", (row, code))
    advance(connection, "epoch")


def rebuild_text(connection: apsw.Connection) -> None:
    """Make every reader build the text index anew."""
    advance(connection, "generation")


def compact(connection: apsw.Connection) -> None:
    """Rewrite the database without free pages and empty the write-ahead log."""
    with connection:
        connection.execute("DELETE FROM tombstones")
        drop_staged(connection)
        advance(connection, "epoch")
        advance(connection, "generation")
    connection.execute("PRAGMA optimize")
    rewrite(connection)


def rewrite(connection: apsw.Connection) -> None:
    """Write the database file anew, without free pages and old copies of rows."""
    connection.execute("VACUUM")
    checkpoint(connection)


def checkpoint(connection: apsw.Connection) -> None:
    """Move the write-ahead log into the database, cut it to nothing and empty the page cache."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # Pages as they were before a purge, and those of tables that only grow, are not kept in RAM.
    connection.execute("PRAGMA shrink_memory")
