"""Counting, checking, repairing and compacting a memory."""

from __future__ import annotations

from pathlib import Path

import apsw

from agentmem.backends.base import Micros, Problem, Totals
from agentmem.backends.embedded._schema import advance

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
_ORPHANS = {
    "chunk without a vector": (
        "SELECT chunk_row FROM chunks WHERE chunk_row NOT IN (SELECT chunk_row FROM vectors)"
    ),
    "version without a chunk": (
        "SELECT version_row FROM documents "
        "WHERE version_row NOT IN (SELECT version_row FROM chunks)"
    ),
}


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


def check(connection: apsw.Connection, indexed: int) -> list[Problem]:
    """Compare the tables with each other and with the number of chunks in the text index."""
    problems = [
        Problem(kind="database", subject="memory.db", message=text)
        for (text,) in connection.execute("PRAGMA integrity_check")
        if text != "ok"
    ]
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        message = f"a row refers to a missing row of {parent}"
        problems.append(Problem(kind="reference", subject=f"{table}:{row}", message=message))
    for kind, sql in _ORPHANS.items():
        problems += [
            Problem(kind=kind, subject=str(row), message=kind) for (row,) in connection.execute(sql)
        ]
    expected = connection.execute(
        "SELECT COUNT(*) FROM chunks JOIN documents USING (version_row) WHERE deleted_at IS NULL"
    ).get
    if indexed != expected:
        message = f"the text index holds {indexed} chunks, the database {expected}"
        problems.append(Problem(kind="text index", subject="text", message=message))
    return problems


def rebuild_text(connection: apsw.Connection) -> None:
    """Make every reader build the text index anew."""
    advance(connection, "generation")


def compact(connection: apsw.Connection) -> None:
    """Rewrite the database without free pages and empty the write-ahead log."""
    with connection:
        connection.execute("DELETE FROM tombstones")
        advance(connection, "epoch")
        advance(connection, "generation")
    connection.execute("PRAGMA optimize")
    connection.execute("VACUUM")
    checkpoint(connection)


def checkpoint(connection: apsw.Connection) -> None:
    """Move the write-ahead log into the database and cut it to nothing."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
