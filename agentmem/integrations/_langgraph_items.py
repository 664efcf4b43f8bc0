"""Reads and writes the items of a LangGraph store as documents of a memory.

A document's key is the JSON text of namespace and key, so that no separator in a label or key can
make two items one. Its metadata holds:

* ``namespace``: the labels as ``level0``, ``level1``, ..., for filters by prefix
* ``item``: namespace, key and value as exact JSON text
* ``value``: the value in its filterable form, see `_langgraph_values`
* ``indexed``: whether a query may find it
* ``ttl_minutes``: its lifetime, for reads that renew it
* ``item_created``, ``item_updated``: when it was first and last put
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import and_
from typing import Any

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    get_text_at_path,
    tokenize_path,
)

from agentmem import Document, F, Filter, InvalidInputError, Memory, StoredDocument
from agentmem._types import Metadata
from agentmem.integrations._langgraph_values import (
    clean,
    filterable,
    in_namespace,
    label,
    readable,
    to_json,
)

_PAGE = 1000
_KEY_BYTES = 1000
_NOT_INDEXED = "(an item that is not indexed)"

Place = tuple[tuple[str, ...], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An item that was found: its document's id and metadata, and the score of a query."""

    id: str
    metadata: Metadata
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """The items of one store.

    Parameters
    ----------
    user_id, collection
        Whose they are, and where.
    fields
        Paths that are indexed unless a put says otherwise.
    purge
        Whether a deletion removes the bytes at once.
    """

    user_id: str | None
    collection: str
    fields: tuple[str, ...]
    purge: bool

    def scope(self, *conditions: Filter) -> dict[str, Any]:
        """Return the arguments of a call that sees this store's items only."""
        own = () if self.user_id is None else (F("user_id") == self.user_id,)
        every = (*own, *conditions)
        return {
            "user_id": self.user_id,
            "collections": [self.collection],
            "where": reduce(and_, every) if every else None,
        }

    async def walk(
        self, memory: Memory, *conditions: Filter
    ) -> AsyncGenerator[StoredDocument, None]:
        """Yield the documents of all items that fit, in the order of their first put."""
        cursor: str | None = None
        while True:
            page = await memory.list(**self.scope(*conditions), limit=_PAGE, cursor=cursor)
            for document in page.documents:
                yield document
            cursor = page.cursor
            if cursor is None:
                return

    async def get(self, memory: Memory, ops: Sequence[GetOp]) -> list[Item | None]:
        """Return the items asked for, in order."""
        wanted = [(tuple(op.namespace), op.key) for op in ops]
        found = await self._stored(memory, wanted)
        renewed = {place for op, place in zip(ops, wanted, strict=True) if op.refresh_ttl}
        await self.renew(memory, [to_found(found[p]) for p in renewed if p in found])
        return [to_item(found[place]) if place in found else None for place in wanted]

    async def put(self, memory: Memory, ops: Sequence[PutOp]) -> None:
        """Write and delete items; there is one operation for each of them.

        Raises
        ------
        InvalidInputError
            An item cannot be written; nothing was changed.
        """
        now = memory.now()
        # In a thread: a large value takes a while to be turned over and over.
        fresh = await asyncio.to_thread(self._documents, ops, now)
        stored = await self._stored(memory, [_place(op) for op in ops])
        documents = [
            _since(document, stored[place]) if place in stored else document
            for place, document in fresh.items()
        ]
        if documents:
            await memory.write(documents, user_id=self.user_id, collection=self.collection)
        gone = [found.id for place, found in stored.items() if place not in fresh]
        if gone:
            await memory.forget(gone, user_id=self.user_id, purge=self.purge, confirm=True)

    async def renew(self, memory: Memory, found: Iterable[Found]) -> None:
        """Let items with a lifetime live on from now for another one."""
        by_lifetime: dict[float, list[str]] = {}
        for item in found:
            minutes = item.metadata["ttl_minutes"]
            if minutes is not None:
                by_lifetime.setdefault(minutes, []).append(item.id)
        for minutes, ids in by_lifetime.items():
            until = _expiry(memory.now(), minutes)
            await memory.set_expiry(ids, until, user_id=self.user_id)

    async def namespaces(self, memory: Memory, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        """Return the namespaces that have items, in order."""
        conditions = op.match_conditions or ()
        prefixes = [c.path for c in conditions if c.match_type == "prefix"]
        narrowed = [
            condition for path in prefixes for condition in in_namespace(path, any_label="*")
        ]
        found: set[tuple[str, ...]] = set()
        async for document in self.walk(memory, *narrowed):
            namespace = _read(document.metadata)[0]
            if all(_matches(condition, namespace) for condition in conditions):
                found.add(namespace if op.max_depth is None else namespace[: op.max_depth])
        start, stop = bounds(op.offset, op.limit)
        return sorted(found)[start:stop]

    async def remove_bytes(self, memory: Memory) -> int:
        """Purge what was deleted and what has expired."""
        deleted = {name for receipt in await memory.receipts() for name in receipt.ids}
        alive = {document.id async for document in self.walk(memory)}
        named: dict[str, Any] = {
            "user_id": self.user_id, "collection": self.collection,
            "purge": True, "confirm": True,
        }  # fmt: skip
        gone = 0
        if ids := sorted(deleted - alive):
            own = self.scope()["where"]
            gone += (await memory.forget(ids, where=own, **named)).count
        expired = F("expires_at") <= memory.now()
        return gone + (await memory.forget(where=expired, **named)).count

    async def _stored(self, memory: Memory, places: Sequence[Place]) -> dict[Place, StoredDocument]:
        names = {document_key(place): place for place in places}
        keys = list(names)
        found: dict[Place, StoredDocument] = {}
        for start in range(0, len(keys), _PAGE):
            some = F("key").in_(keys[start : start + _PAGE])
            async for document in self.walk(memory, some):
                found[names[document.key or ""]] = document
        return found

    def _documents(self, ops: Sequence[PutOp], now: datetime) -> dict[Place, Document]:
        return {_place(op): self._document(op, now) for op in ops if op.value is not None}

    def _document(self, op: PutOp, now: datetime) -> Document:
        namespace, key, value = tuple(op.namespace), op.key, op.value or {}
        if not isinstance(key, str) or not all(isinstance(text, str) for text in namespace):
            raise InvalidNamespaceError(
                f"labels and keys must be str, not as in {namespace!r} and {key!r}"
            )
        item = json.dumps([namespace, key])
        exact = to_json(value)
        texts = self._texts(json.loads(exact), op.index)
        return Document(
            "\n\n".join(texts) if texts else _NOT_INDEXED,
            key=document_key((namespace, key)),
            expires_at=None if op.ttl is None else _expiry(now, op.ttl),
            metadata={
                "namespace": {f"level{n}": label(text) for n, text in enumerate(namespace)},
                "item": f"{item[:-1]}, {exact}]",
                "value": filterable(json.loads(exact)),
                "indexed": bool(texts),
                "ttl_minutes": op.ttl,
                "item_created": now,
                "item_updated": now,
            },
        )

    def _texts(self, value: dict[str, Any], index: object) -> list[str]:
        """Return what is indexed of a value, each text of its own and not blank."""
        if index is False:
            return []
        if index is not None and (isinstance(index, str) or not isinstance(index, Sequence)):
            raise InvalidInputError(f"index must be False, None or a list of paths, not {index!r}")
        texts: list[str] = []
        for path in self.fields if index is None else index:
            if path == "$":
                texts.append("\n".join(readable(value)))
            else:
                texts += get_text_at_path(value, tokenize_path(path))
        return [text for text in map(clean, texts) if text.strip()]


def to_found(document: StoredDocument) -> Found:
    """Return a document as an item that was found without a query."""
    return Found(id=document.id, metadata=document.metadata)


def to_item(document: StoredDocument) -> Item:
    """Return a document as an item."""
    namespace, key, value = _read(document.metadata)
    return Item(
        value=value,
        key=key,
        namespace=namespace,
        created_at=document.metadata["item_created"],
        updated_at=document.metadata["item_updated"],
    )


def to_search_item(found: Found) -> SearchItem:
    """Return what was found as LangGraph wants it."""
    namespace, key, value = _read(found.metadata)
    return SearchItem(
        namespace,
        key,
        value,
        found.metadata["item_created"],
        found.metadata["item_updated"],
        found.score,
    )


def document_key(place: Place) -> str:
    """Return the key of the document for an item: one for each, and none for two."""
    text = json.dumps(place, ensure_ascii=False)
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= _KEY_BYTES and not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    return f"#{hashlib.blake2b(encoded, digest_size=32).hexdigest()}"


def bounds(offset: int, limit: int) -> tuple[int, int]:
    """Return where a page starts and stops.

    Raises
    ------
    InvalidInputError
        One of them is no whole number or negative.
    """
    for name, number in (("offset", offset), ("limit", limit)):
        if type(number) is not int or number < 0:
            raise InvalidInputError(f"{name} must be a whole number, 0 or more, not {number!r}")
    return offset, offset + limit


def _place(op: PutOp) -> Place:
    return tuple(op.namespace), op.key


def _read(metadata: Metadata) -> tuple[tuple[str, ...], str, dict[str, Any]]:
    namespace, key, value = json.loads(metadata["item"])
    return tuple(namespace), key, value


def _since(document: Document, before: StoredDocument) -> Document:
    """Return a document that keeps the time of the item's first put."""
    metadata: Metadata = document.metadata or {}
    created = before.metadata["item_created"]
    return Document(
        document.content,
        key=document.key,
        expires_at=document.expires_at,
        metadata={**metadata, "item_created": created},
    )


def _expiry(now: datetime, minutes: float) -> datetime:
    number = isinstance(minutes, (int, float)) and not isinstance(minutes, bool)
    if not number or not math.isfinite(minutes) or minutes <= 0:
        raise InvalidInputError(f"ttl must be a number of minutes above 0, not {minutes!r}")
    try:
        return now + max(timedelta(minutes=minutes), timedelta(microseconds=1))
    except OverflowError:
        raise InvalidInputError(
            f"ttl is {minutes!r} minutes, which leads beyond the year 9999; use None for no expiry"
        ) from None


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    if condition.match_type == "prefix":
        part = namespace[: len(path)]
    elif condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    else:
        raise InvalidInputError(
            f"a namespace is matched by 'prefix' or 'suffix', not {condition.match_type!r}"
        )
    return all(wanted in ("*", text) for wanted, text in zip(path, part, strict=True))
