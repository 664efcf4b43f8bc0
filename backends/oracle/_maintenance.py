"""Counting, checking and repairing what one tenant has in the database."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.backends._chain import check_chain
from agentmem.backends._rules import searchable_text
from agentmem.backends.base import Micros, Problem, Totals, Vector
from agentmem.backends.oracle import _receipts
from agentmem.backends.oracle._connection import Database, Row, Transaction
from agentmem.backends.oracle._meta import Meta
from agentmem.backends.oracle._text_query import EVERY_CHUNK
from agentmem.backends.oracle._values import Binds, blob_bind, time_bind, vector_bind

_TOTALS = """SELECT
  COUNT(CASE WHEN d.is_head = 1 AND {live} THEN 1 END) AS documents,
  COUNT(CASE WHEN {live} THEN 1 END) AS versions,
  COALESCE(SUM(CASE WHEN {live} THEN d.chunks END), 0) AS chunks,
  COUNT(CASE WHEN d.is_head = 1 AND d.deleted_at IS NOT NULL THEN 1 END) AS forgotten,
  COUNT(DISTINCT CASE WHEN {live} THEN d.user_id END) AS users,
  COUNT(DISTINCT CASE WHEN {live} THEN d.collection END) AS collections
FROM mem_documents d
WHERE d.tenant_id = :tenant""".format(
    live="d.deleted_at IS NULL AND (d.expires_at IS NULL OR d.expires_at > :now)"
)

# Each finds rows at fault; the first column is a chunk's or a document's id.
_HEADS = """SELECT d.document_id FROM mem_documents d
WHERE d.tenant_id = :tenant GROUP BY d.document_id HAVING SUM(d.is_head) <> 1
ORDER BY d.document_id"""
_CHUNK_COUNT = """SELECT d.document_id FROM mem_documents d
WHERE d.tenant_id = :tenant AND d.chunks <> (
  SELECT COUNT(*) FROM mem_chunks c
  WHERE c.tenant_id = :tenant AND c.document_id = d.document_id AND c.version = d.version)
ORDER BY d.document_id, d.version"""
_ORPHANS = """SELECT c.id FROM mem_chunks c
WHERE c.tenant_id = :tenant AND NOT EXISTS (
  SELECT 1 FROM mem_documents d
  WHERE d.tenant_id = :tenant AND d.document_id = c.document_id AND d.version = c.version)
ORDER BY c.id"""
_DISAGREE = """SELECT c.id FROM mem_chunks c
JOIN mem_documents d ON d.tenant_id = c.tenant_id AND d.document_id = c.document_id
  AND d.version = c.version
WHERE c.tenant_id = :tenant AND (
  c.visible_from <> d.visible_from OR c.visible_until <> d.visible_until
  OR c.as_of_from <> d.as_of_from OR c.as_of_until <> d.as_of_until
  OR c.collection <> d.collection
  OR COALESCE(c.user_id, ' ') <> COALESCE(d.user_id, ' ')
  OR CASE WHEN c.deleted_at IS NULL THEN 0 ELSE 1 END
     <> CASE WHEN d.deleted_at IS NULL THEN 0 ELSE 1 END)
ORDER BY c.id"""
_NO_VECTOR = """SELECT c.id FROM mem_chunks c
WHERE c.tenant_id = :tenant AND c.embedding IS NULL ORDER BY c.id"""
_NO_CODES = """SELECT c.id FROM mem_chunks c
WHERE c.tenant_id = :tenant AND c.codes IS NULL ORDER BY c.id"""
_NOT_INDEXED = f"""SELECT c.id FROM mem_chunks c
WHERE c.tenant_id = :tenant AND c.id NOT IN (
  SELECT i.id FROM mem_chunks i
  WHERE i.tenant_id = :tenant AND CONTAINS(i.search_text, '{{{EVERY_CHUNK}}}', 1) > 0)
ORDER BY c.id"""

_LACKING = """SELECT c.chunk_row, c.title, c.text FROM mem_chunks c
WHERE c.tenant_id = :tenant AND c.chunk_row > :after
  AND (c.embedding IS NULL OR (:codes = 1 AND c.codes IS NULL))
ORDER BY c.chunk_row
FETCH FIRST {limit:d} ROWS ONLY"""
_SET_VECTOR = """UPDATE mem_chunks SET embedding = :embedding, codes = :codes
WHERE tenant_id = :tenant AND chunk_row = :chunk_row"""
# Storing the text again puts the row on the list of the text index.
_INDEX_AGAIN = """UPDATE mem_chunks SET search_text = search_text
WHERE tenant_id = :tenant AND id = :id"""

TEXT_INDEX = "text index"


async def totals(database: Database, tenant: str, now: Micros) -> Totals:
    """Return the numbers of one tenant. How many bytes they take, a database does not say."""
    binds: Binds = {"tenant": tenant, "now": time_bind(now)}
    row = (await database.fetch("count", _TOTALS, binds))[0]
    documents, versions, chunks, forgotten, users, collections = map(int, row)
    return Totals(
        documents=documents,
        versions=versions,
        chunks=chunks,
        forgotten=forgotten,
        users=users,
        collections=collections,
        bytes=None,
    )


async def check(database: Database, tenant: str, meta: Meta) -> list[Problem]:
    """Check the tenant's rows, and what is derived from them, against each other."""
    checks = [
        ("document", "it has not exactly one newest version", _HEADS),
        ("document", "its number of chunks is wrong", _CHUNK_COUNT),
        ("chunk", "it belongs to no document", _ORPHANS),
        ("chunk", "its scope or times differ from the document's", _DISAGREE),
        ("vector", "the chunk has no vector", _NO_VECTOR),
    ]
    if meta.token_dimensions:
        checks.append(("token codes", "the chunk has none", _NO_CODES))
    problems = [
        Problem(kind=kind, subject=str(row[0]), message=message)
        for kind, message, sql in checks
        for row in await database.fetch("verify", sql, {"tenant": tenant})
    ]
    problems += [
        Problem(kind=TEXT_INDEX, subject=name, message="the chunk is missing")
        for name in await not_indexed(database, tenant)
    ]
    receipts = await database.fetch("verify", _receipts.READ, {"tenant": tenant})
    return problems + check_chain(map(_receipts.to_link, receipts))


async def not_indexed(database: Database, tenant: str) -> list[str]:
    """Return the ids of chunks that the text index does not hold."""
    rows = await database.fetch("verify", _NOT_INDEXED, {"tenant": tenant})
    return [str(row[0]) for row in rows]


async def index_again(transaction: Transaction, tenant: str, ids: Sequence[str]) -> None:
    """Have the text index read chunks again when the transaction commits."""
    await transaction.executemany(_INDEX_AGAIN, [{"tenant": tenant, "id": name} for name in ids])


async def lacking(
    database: Database, tenant: str, meta: Meta, after: int, limit: int
) -> list[tuple[int, str]]:
    """Return row and searchable text of chunks that lack a vector or token codes."""
    binds: Binds = {"tenant": tenant, "after": after, "codes": int(bool(meta.token_dimensions))}
    rows = await database.fetch("look for vectors", _LACKING.format(limit=limit), binds)
    return [_to_embed(row) for row in rows]


def _to_embed(row: Row) -> tuple[int, str]:
    return int(row[0]), searchable_text(row[1], row[2])


async def set_vectors(
    transaction: Transaction, tenant: str, rows: Sequence[tuple[int, Vector, bytes | None]]
) -> None:
    """Store vectors and token codes of chunks anew."""
    await transaction.executemany(
        _SET_VECTOR,
        [
            {
                "tenant": tenant,
                "chunk_row": row,
                "embedding": vector_bind(vector),
                "codes": blob_bind(codes),
            }
            for row, vector, codes in rows
        ],
    )
