"""The chain of receipts: appended to, never changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import apsw

from agentmem._filters import canonical_json
from agentmem.backends.base import Micros, Problem, StoredReceipt

_HASH_BYTES = 20
_START = "0" * 2 * _HASH_BYTES
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
    last = list(
        connection.execute("SELECT number, hash FROM receipts ORDER BY number DESC LIMIT 1")
    )
    number, previous = (last[0][0] + 1, last[0][1]) if last else (1, _START)
    fields = (number, at, tenant, action, json.dumps(list(ids)), canonical_json(details), previous)
    digest = _hash(fields)
    connection.execute("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*fields, digest))
    return digest


def read(connection: apsw.Connection, tenant: str) -> list[StoredReceipt]:
    """Return the receipts of a tenant, oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM receipts WHERE tenant = ? ORDER BY number", (tenant,)
    )
    return [
        StoredReceipt(
            number=row[0],
            at=row[1],
            action=row[3],
            ids=tuple(json.loads(row[4])),
            details=json.loads(row[5]),
            hash=row[7],
        )
        for row in rows
    ]


def check(connection: apsw.Connection) -> list[Problem]:
    """Return where the chain is broken."""
    problems, previous, expected = [], _START, 1
    for row in connection.execute(f"SELECT {_COLUMNS} FROM receipts ORDER BY number"):
        if row[0] != expected or row[6] != previous or row[7] != _hash(row[:7]):
            message = "the chain of receipts is broken here; something was changed or removed"
            problems.append(Problem(kind="receipt", subject=str(row[0]), message=message))
        previous, expected = row[7], row[0] + 1
    return problems


def _hash(fields: tuple[Any, ...]) -> str:
    text = json.dumps(fields, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8"), digest_size=_HASH_BYTES).hexdigest()
