"""Keeps the chain of receipts in its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import apsw

from agentmem.backends._chain import Link, check_chain, next_link, to_receipt
from agentmem.backends.base import Micros, Problem, StoredReceipt

_COLUMNS = "number, at, tenant, action, ids, details, previous, hash"


def append(
    connection: apsw.Connection,
    tenant: str,
    action: str,
    ids: Iterable[str],
    at: Micros,
    details: Mapping[str, Any],
) -> str:
    """Add a receipt inside the open transaction and return its hash."""
    last = connection.execute(
        "SELECT number, hash FROM receipts WHERE tenant = ? ORDER BY number DESC LIMIT 1", (tenant,)
    ).fetchone()
    link = next_link(last, tenant=tenant, action=action, ids=ids, at=at, details=details)
    connection.execute(
        f"INSERT INTO receipts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            link.number, link.at, link.tenant, link.action, link.ids, link.details,
            link.previous, link.hash,
        ),
    )  # fmt: skip
    return link.hash


def read(connection: apsw.Connection, tenant: str) -> list[StoredReceipt]:
    """Return the receipts of a tenant, oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM receipts WHERE tenant = ? ORDER BY number", (tenant,)
    )
    return [to_receipt(_link(row)) for row in rows]


def check(connection: apsw.Connection) -> list[Problem]:
    """Return where a chain is broken."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM receipts ORDER BY tenant, number")
    return check_chain(_link(row) for row in rows)


def _link(row: tuple[Any, ...]) -> Link:
    return Link(
        number=row[0],
        at=row[1],
        tenant=row[2],
        action=row[3],
        ids=row[4],
        details=row[5],
        previous=row[6],
        hash=row[7],
    )
