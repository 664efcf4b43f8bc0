"""Turns a `Selection` into SQL, and reads, counts, forgets and restores what it covers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oracledb

from agentmem.backends.base import Forgotten, Micros, Selection, StoredRow
from agentmem.backends.oracle._connection import Row, Transaction
from agentmem.backends.oracle._errors import is_duplicate, row_offset
from agentmem.backends.oracle._filters import FilterCompiler, listed_names
from agentmem.backends.oracle._values import (
    Bind,
    Binds,
    json_bind,
    time_bind,
    to_metadata,
    to_micros,
)
from agentmem.backends.oracle._writing import live_identity
from agentmem.errors import ConflictError

_COLUMNS = """{a}.document_id, {a}.version, {a}.user_id, {a}.collection, {a}.doc_key, {a}.title,
       {a}.source_uri, {a}.metadata, {a}.first_created_at, {a}.created_at, {a}.valid_from,
       {a}.valid_until, {a}.expires_at, {a}.deleted_at, {a}.content"""
_OF_DOCUMENTS = "WHERE tenant_id = :tenant AND document_id = :document_id"
_MARK = "UPDATE {table} SET deleted_at = :at{more} " + _OF_DOCUMENTS
_RESTORE = (
    "UPDATE mem_documents SET deleted_at = NULL, "
    "live_identity = CASE WHEN is_head = 1 THEN :live_identity END " + _OF_DOCUMENTS
)
_RESTORE_CHUNKS = "UPDATE mem_chunks SET deleted_at = NULL " + _OF_DOCUMENTS
_DELETE = "DELETE FROM {table} " + _OF_DOCUMENTS
_LEFT = f"""SELECT 'mem_documents' AS place, COUNT(*) FROM mem_documents d
WHERE d.tenant_id = :tenant AND d.document_id IN ({listed_names(":ids")})
UNION ALL
SELECT 'mem_chunks' AS place, COUNT(*) FROM mem_chunks c
WHERE c.tenant_id = :tenant AND c.document_id IN ({listed_names(":ids")})"""

_Query = tuple[str, dict[str, Bind]]


def conditions(selection: Selection, binds: dict[str, Bind]) -> str:
    """Return the condition over ``mem_documents d`` that picks one version per document."""
    binds["tenant"] = selection.tenant
    parts = ["d.tenant_id = :tenant"]
    owner = selection.owner
    if owner.mode != "every":
        if owner.user_id is not None:
            binds["owner"] = owner.user_id
        parts.append(_owned(owner.mode, owner.user_id))
    if selection.collections is not None:
        binds["collections"] = json_bind(list(selection.collections))
        parts.append(f"d.collection IN ({listed_names(':collections')})")
    if selection.as_of is None:
        parts.append("d.is_head = 1")
    else:
        binds["as_of"] = time_bind(selection.as_of)
        parts.append("d.as_of_from <= :as_of AND d.as_of_until > :as_of")
    if selection.deleted is not None:
        parts.append(f"d.deleted_at IS {'NOT NULL' if selection.deleted else 'NULL'}")
    if not selection.expired:
        binds["now"] = time_bind(selection.now)
        parts.append("(d.expires_at IS NULL OR d.expires_at > :now)")
    if selection.ids is not None:
        binds["ids"] = json_bind(list(selection.ids))
        parts.append(f"d.document_id IN ({listed_names(':ids')})")
    if selection.key is not None:
        binds["doc_key"] = selection.key
        parts.append("d.doc_key = :doc_key")
    if selection.where is not None:
        parts.append(FilterCompiler("d", binds).compile(selection.where))
    return "\n  AND ".join(parts)


def _owned(mode: str, user_id: str | None) -> str:
    if user_id is None:
        return "d.user_id IS NULL"
    if mode == "visible":
        return "(d.user_id IS NULL OR d.user_id = :owner)"
    return "d.user_id = :owner"


def rows_query(selection: Selection, after: tuple[Micros, str] | None, limit: int | None) -> _Query:
    """Return the query for one version per selected document, in list order."""
    binds: dict[str, Bind] = {}
    where = conditions(selection, binds)
    if after is not None:
        binds["after_at"], binds["after_id"] = time_bind(after[0]), after[1]
        where += (
            "\n  AND (d.first_created_at > :after_at OR "
            "(d.first_created_at = :after_at AND d.document_id > :after_id))"
        )
    fetch = "" if limit is None else f"\nFETCH FIRST {limit:d} ROWS ONLY"
    sql = (
        f"SELECT {_COLUMNS.format(a='d')}\nFROM mem_documents d\nWHERE {where}\n"
        f"ORDER BY d.first_created_at, d.document_id{fetch}"
    )
    return sql, binds


def versions_query(selection: Selection) -> _Query:
    """Return the query for every version of the selected documents, oldest first."""
    binds: dict[str, Bind] = {}
    where = conditions(selection, binds)
    sql = (
        f"SELECT {_COLUMNS.format(a='v')}\nFROM mem_documents v\n"
        "WHERE v.tenant_id = :tenant AND v.document_id IN (\n"
        f"  SELECT d.document_id FROM mem_documents d WHERE {where})\n"
        "ORDER BY v.first_created_at, v.document_id, v.version"
    )
    return sql, binds


def all_versions_query(tenant: str, names: Sequence[str]) -> _Query:
    """Return the query for every version of documents named by their ids."""
    sql = (
        f"SELECT {_COLUMNS.format(a='d')}\nFROM mem_documents d\n"
        f"WHERE d.tenant_id = :tenant AND d.document_id IN ({listed_names(':ids')})\n"
        "ORDER BY d.document_id, d.version"
    )
    return sql, {"tenant": tenant, "ids": json_bind(list(names))}


def count_query(selection: Selection) -> _Query:
    """Return the query that counts the selected documents."""
    binds: dict[str, Bind] = {}
    where = conditions(selection, binds)
    return f"SELECT COUNT(*) FROM mem_documents d\nWHERE {where}", binds


def documents_query(selection: Selection) -> _Query:
    """Return the query for what a forget or restore of the selection covers, in list order."""
    binds: dict[str, Bind] = {}
    where = conditions(selection, binds)
    of_all = "FROM mem_documents v WHERE v.tenant_id = :tenant AND v.document_id = d.document_id"
    sql = (
        "SELECT d.document_id, d.user_id, d.collection, d.doc_key, d.identity,\n"
        f"       (SELECT COUNT(*) {of_all}) AS versions,\n"
        f"       (SELECT SUM(v.chunks) {of_all}) AS chunks\n"
        f"FROM mem_documents d\nWHERE {where}\nORDER BY d.first_created_at, d.document_id"
    )
    return sql, binds


def read_row(row: Row) -> StoredRow:
    """Return one version from a row of `rows_query` or `versions_query`."""
    return StoredRow(
        document_id=row[0],
        version=int(row[1]),
        user_id=row[2],
        collection=row[3],
        key=row[4],
        title=row[5],
        source_uri=row[6],
        metadata=to_metadata(row[7]),
        first_created_at=to_micros(row[8]) or 0,
        created_at=to_micros(row[9]) or 0,
        valid_from=to_micros(row[10]),
        valid_until=to_micros(row[11]),
        expires_at=to_micros(row[12]),
        deleted_at=to_micros(row[13]),
        content=row[14],
    )


def read_document(row: Row) -> Forgotten:
    """Return one document from a row of `documents_query`."""
    return Forgotten(
        document_id=row[0],
        user_id=row[1],
        collection=row[2],
        key=row[3],
        versions=int(row[5]),
        chunks=int(row[6]),
    )


async def mark_forgotten(
    transaction: Transaction, tenant: str, documents: Sequence[Forgotten], at: Micros
) -> None:
    """Make every version of the documents invisible; `restore` can bring them back."""
    rows = [{"at": time_bind(at), **name} for name in _names(tenant, documents)]
    await transaction.executemany(
        _MARK.format(table="mem_documents", more=", live_identity = NULL"), rows
    )
    await transaction.executemany(_MARK.format(table="mem_chunks", more=""), rows)


async def purge(transaction: Transaction, tenant: str, documents: Sequence[Forgotten]) -> None:
    """Delete every version of the documents with all chunks."""
    rows = _names(tenant, documents)
    await transaction.executemany(_DELETE.format(table="mem_chunks"), rows)
    await transaction.executemany(_DELETE.format(table="mem_documents"), rows)


def left_query(tenant: str, documents: Sequence[Forgotten]) -> _Query:
    """Return the query that counts what is left of purged documents, by table."""
    ids = json_bind([document.document_id for document in documents])
    return _LEFT, {"tenant": tenant, "ids": ids}


async def restore_rows(transaction: Transaction, selection: Selection) -> list[str]:
    """Undo `mark_forgotten` for the selected documents and return their ids.

    Raises
    ------
    ConflictError
        A live document has taken the identity meanwhile.
    """
    found = await transaction.fetch(*documents_query(selection))
    tenant = selection.tenant
    rows: list[Binds] = [
        {
            "tenant": tenant,
            "document_id": row[0],
            "live_identity": live_identity(tenant, row[1], row[2], row[4]),
        }
        for row in found
    ]
    ids = [row[0] for row in found]
    try:
        await transaction.executemany(_RESTORE, rows)
    except oracledb.Error as error:
        if not is_duplicate(error):
            raise
        name = ids[min(row_offset(error), len(ids) - 1)]
        raise ConflictError(
            f"could not restore document {name!r}: the same text or key was "
            "written again since it was forgotten; forget the newer document first"
        ) from error
    await transaction.executemany(
        _RESTORE_CHUNKS, [{"tenant": tenant, "document_id": name} for name in ids]
    )
    return ids


def _names(tenant: str, documents: Sequence[Forgotten]) -> list[dict[str, Any]]:
    return [{"tenant": tenant, "document_id": d.document_id} for d in documents]
