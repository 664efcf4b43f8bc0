"""Changes the embedding model of a memory: chunks are made anew beside those in use.

New chunks are staged batch by batch, while other processes go on reading and writing with the old
model. When there are some for every version, one transaction puts them in place, and processes with
the old model are told so at their next call. A change that was cut short goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import apsw

from agentmem.backends.base import ChunkToWrite, ModelIdentity, Progressing, Remake
from agentmem.backends.embedded._connection import Database
from agentmem.backends.embedded._schema import advance, check_model, describe, stored_model
from agentmem.errors import ConflictError
from agentmem.models.vector_codes import to_steps

BATCH = 64
_NEXT = "next model"

_LACKING = """
SELECT version_row, title, content FROM documents d
WHERE version_row > ? AND NOT EXISTS (
    SELECT 1 FROM staged_chunks s WHERE s.version_row = d.version_row)
ORDER BY version_row LIMIT ?
"""
_COUNTS = """
SELECT (SELECT COUNT(DISTINCT version_row) FROM staged_chunks), (SELECT COUNT(*) FROM documents)
"""
_STAGE = """
INSERT OR REPLACE INTO staged_chunks
    (version_row, chunk_index, start, stop, tokens, embedding, code)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE EXISTS (SELECT 1 FROM documents WHERE version_row = ?1)
"""
# Deleting the chunks deletes their vectors and codes; their numbers are not used again.
_TAKE_THE_PLACE = """
DELETE FROM chunks;
INSERT INTO chunks (version_row, chunk_index, start, stop, tokens)
SELECT version_row, chunk_index, start, stop, tokens FROM staged_chunks
ORDER BY version_row, chunk_index;
INSERT INTO vectors SELECT c.chunk_row, s.embedding
FROM chunks c JOIN staged_chunks s USING (version_row, chunk_index);
INSERT INTO codes SELECT c.chunk_row, s.code
FROM chunks c JOIN staged_chunks s USING (version_row, chunk_index) WHERE s.code IS NOT NULL;
DELETE FROM staged_chunks;
DELETE FROM tombstones;
"""


async def reembed(
    database: Database, model: ModelIdentity, remake: Remake, progress: Progressing
) -> None:
    """Make `model` the one of the store; nothing is done when it is already.

    Raises
    ------
    ConflictError
        Another process began to change to yet another model meanwhile.
    """
    if not await database.write("change the model", lambda c: _begin(c, model)):
        return
    after = 0
    while True:
        rows = await database.read("read documents", partial(_lacking, after=after))
        if not rows:
            if await database.write("change the model", lambda c: _finish(c, model)):
                return
            after = 0  # something was written in the meantime
            continue
        made = await remake([(title, content) for _, title, content in rows])
        ready = [(row[0], chunks) for row, chunks in zip(rows, made, strict=True)]
        counts = await database.write("store vectors", partial(_stage, model=model, rows=ready))
        if counts is None:
            return
        progress(*counts)
        after = rows[-1][0]


def drop_staged(connection: apsw.Connection) -> None:
    """Give up a change of the model that was begun."""
    connection.execute("DELETE FROM staged_chunks")
    connection.execute("DELETE FROM meta WHERE name = ?", (_NEXT,))


def _begin(connection: apsw.Connection, model: ModelIdentity) -> bool:
    """Return whether there is anything to do; staged chunks of yet another model are dropped."""
    stored = stored_model(connection)
    if stored is None or stored == describe(model):
        drop_staged(connection)
        return False
    if _next(connection) != _named(model):
        drop_staged(connection)
        connection.execute("INSERT INTO meta VALUES (?, ?)", (_NEXT, _named(model)))
    return True


def _next(connection: apsw.Connection) -> str | None:
    value: str | None = connection.execute("SELECT value FROM meta WHERE name = ?", (_NEXT,)).get
    return value


def _named(model: ModelIdentity) -> str:
    return " ".join(describe(model).values())


def _check_next(connection: apsw.Connection, model: ModelIdentity) -> None:
    if _next(connection) != _named(model):
        raise ConflictError(
            f"another process is changing the model of this memory, not to {model.embedder!r}; "
            "let one of them finish, then run the other again"
        )


def _lacking(connection: apsw.Connection, after: int) -> list[tuple[int, str | None, str]]:
    return list(connection.execute(_LACKING, (after, BATCH)))


def _stage(
    connection: apsw.Connection,
    model: ModelIdentity,
    rows: Sequence[tuple[int, Sequence[ChunkToWrite]]],
) -> tuple[int, int] | None:
    """Store chunks of versions that are still there; return versions done and in all.

    None says that another process has made the whole change meanwhile.
    """
    if stored_model(connection) == describe(model):
        return None
    _check_next(connection, model)
    connection.executemany(
        _STAGE,
        (
            (
                version_row,
                chunk.chunk_index,
                chunk.start,
                chunk.end,
                chunk.tokens,
                to_steps(chunk.vector).tobytes(),
                chunk.codes,
            )
            for version_row, chunks in rows
            for chunk in chunks
        ),
    )
    done, total = next(connection.execute(_COUNTS))
    return done, total


def _finish(connection: apsw.Connection, model: ModelIdentity) -> bool:
    """Put the staged chunks in place; False when a version has none yet."""
    if stored_model(connection) == describe(model):
        return True  # another process has done it
    _check_next(connection, model)
    if _lacking(connection, 0):
        return False
    connection.execute(_TAKE_THE_PLACE)
    connection.executemany(
        "UPDATE meta SET value = ?2 WHERE name = ?1", list(describe(model).items())
    )
    connection.execute("DELETE FROM meta WHERE name = ?", (_NEXT,))
    for name in ("change", "epoch", "generation"):
        advance(connection, name)
    check_model(connection, model)
    return True
