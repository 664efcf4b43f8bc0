"""Keeps a tenant's chain of receipts in its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentmem.backends._chain import Link, next_link
from agentmem.backends.base import Micros
from agentmem.backends.oracle._connection import Row, Transaction
from agentmem.backends.oracle._values import Bind, clob_bind, time_bind, to_micros, with_short_texts

READ = """SELECT r.chain_number, r.at_time, r.tenant_id, r.action, r.ids, r.details,
       r.previous_hash, r.hash
FROM mem_receipts r
WHERE r.tenant_id = :tenant
ORDER BY r.chain_number"""
_LAST = """SELECT r.chain_number, r.hash
FROM mem_receipts r
WHERE r.tenant_id = :tenant
ORDER BY r.chain_number DESC
FETCH FIRST 1 ROWS ONLY"""
_APPEND = """INSERT INTO mem_receipts
  (tenant_id, chain_number, at_time, action, ids, details, previous_hash, hash)
VALUES (:tenant, :chain_number, :at_time, :action, :ids, :details, :previous_hash, :hash)"""


async def append(
    transaction: Transaction,
    tenant: str,
    action: str,
    ids: Iterable[str],
    at: Micros,
    details: Mapping[str, Any],
) -> str:
    """Add a receipt to the open transaction and return its hash.

    Two writers of one tenant that take the same number meet at the primary key.
    """
    rows = await transaction.fetch(_LAST, {"tenant": tenant})
    last = (int(rows[0][0]), str(rows[0][1])) if rows else None
    link = next_link(last, tenant=tenant, action=action, ids=ids, at=at, details=details)
    row: dict[str, Bind] = {
        "tenant": tenant,
        "chain_number": link.number,
        "at_time": time_bind(link.at),
        "action": link.action,
        "ids": clob_bind(link.ids),
        "details": clob_bind(link.details),
        "previous_hash": link.previous,
        "hash": link.hash,
    }
    await transaction.execute(_APPEND, with_short_texts([row])[0])
    return link.hash


def to_link(row: Row) -> Link:
    """Return one receipt from a row of `READ`."""
    return Link(
        number=int(row[0]),
        at=to_micros(row[1]) or 0,
        tenant=row[2],
        action=row[3],
        ids=row[4],
        details=row[5],
        previous=row[6],
        hash=row[7],
    )
