"""The chain of receipts, as every engine keeps it: one for each tenant, only ever appended to.

The hash of each receipt covers the one before, so that none can be changed or taken away unnoticed.
Pure functions, so that the same history gives the same hashes on every engine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentmem._filters import canonical_json
from agentmem.backends.base import Forgotten, Micros, Problem, StoredReceipt

_HASH_BYTES = 20
_START = "0" * 2 * _HASH_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One receipt as it is stored; `ids` and `details` are JSON texts."""

    number: int
    at: Micros
    tenant: str
    action: str
    ids: str
    details: str
    previous: str
    hash: str


def what_went(documents: Iterable[Forgotten]) -> dict[str, int]:
    """Return what a receipt of a forget or a purge says beside the ids."""
    went = list(documents)
    return {"versions": sum(d.versions for d in went), "chunks": sum(d.chunks for d in went)}


def next_link(
    last: tuple[int, str] | None,
    *,
    tenant: str,
    action: str,
    ids: Iterable[str],
    at: Micros,
    details: Mapping[str, Any],
) -> Link:
    """Return the receipt that follows `last`, the number and hash of the newest one."""
    number, previous = (1, _START) if last is None else (last[0] + 1, last[1])
    fields = (number, at, tenant, action, json.dumps(list(ids)), canonical_json(details), previous)
    return Link(
        number=number,
        at=at,
        tenant=tenant,
        action=action,
        ids=fields[4],
        details=fields[5],
        previous=previous,
        hash=_hash(fields),
    )


def to_receipt(link: Link) -> StoredReceipt:
    """Return what a caller sees of a link."""
    return StoredReceipt(
        number=link.number,
        at=link.at,
        action=link.action,
        ids=tuple(json.loads(link.ids)),
        details=json.loads(link.details),
        hash=link.hash,
    )


def check_chain(links: Iterable[Link]) -> list[Problem]:
    """Return where the chain is broken, for links ordered by tenant and number."""
    problems: list[Problem] = []
    tenant, previous, expected = None, _START, 1
    for link in links:
        if link.tenant != tenant:
            tenant, previous, expected = link.tenant, _START, 1
        fields = (
            link.number, link.at, link.tenant, link.action, link.ids, link.details, link.previous,
        )  # fmt: skip
        if link.number != expected or link.previous != previous or link.hash != _hash(fields):
            message = "the chain of receipts is broken here; something was changed or removed"
            problems.append(Problem(kind="receipt", subject=str(link.number), message=message))
        previous, expected = link.hash, link.number + 1
    return problems


def _hash(fields: tuple[Any, ...]) -> str:
    text = json.dumps(fields, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8"), digest_size=_HASH_BYTES).hexdigest()
