"""A store for LangGraph on a memory: items are documents, and a query runs the whole pipeline.

    with AgentMemStore(url="./memory", ttl={"default_ttl": 60 * 24}) as store:
        graph = builder.compile(store=store)

Every item is a document in one collection of the memory, so that all else works on items too:
`Memory.search` and the retrieval graph find them, receipts tell what was deleted, and an engine on
Oracle keeps them for many tenants. Differences to LangGraph's own stores are in docs/langgraph.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from agentmem import ConfigurationError, InvalidInputError, Memory, Settings
from agentmem.integrations.home import MemoryHome, as_home, extra

with extra("langgraph", "langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchOp,
        TTLConfig,
    )

from agentmem.integrations._langgraph_items import Items
from agentmem.integrations._langgraph_search import find

COLLECTION = "langgraph"


class AgentMemStore(BaseStore):
    """Items of LangGraph in a memory.

    Synchronous methods work from every thread but the one of the memory's event loop; with a URL
    the memory has a loop of its own, so that they work everywhere.

    Parameters
    ----------
    memory
        An open memory or a `MemoryHome`, which stays the caller's.
    url
        Where a memory is, instead of an open one; closed by `close`.
    tenant
        Tenant of a memory that the store opens.
    user_id
        Owner of the items; a store sees those of exactly this owner. None for items that are shared
        by all users of the tenant, whom then namespaces alone tell apart.
    collection
        Where the items are in the memory; stores with different ones do not see each other's.
    fields
        Which parts of a value are indexed unless a put says otherwise, as paths of LangGraph;
        ``"$"`` is the whole value.
    ttl
        Lifetimes: `default_ttl` in minutes, and `refresh_on_read`, which is True when left out.
    purge
        Whether a deletion removes the bytes at once. Else a deleted item is gone for every call of
        the store and of the memory, and `purge` removes the bytes of all of them together.

    Raises
    ------
    ConfigurationError
        Not exactly one of memory and URL is given, or `ttl` asks for what the store does not do.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memory | MemoryHome | None = None,
        *,
        url: str | Path | Settings | None = None,
        tenant: str | None = None,
        user_id: str | None = None,
        collection: str = COLLECTION,
        fields: Sequence[str] = ("$",),
        ttl: TTLConfig | None = None,
        purge: bool = False,
    ) -> None:
        self.ttl_config = _checked(ttl)
        self._items = Items(
            user_id=user_id, collection=collection, fields=tuple(fields), purge=purge
        )
        self._home = as_home(memory, url, tenant)
        self._owns_home = not isinstance(memory, MemoryHome)
        self._writing = asyncio.Lock()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations and wait for them; see `abatch`."""
        asked = list(ops)
        return self._home.run(lambda memory: self._done(memory, asked))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations.

        What is read is as it was before the batch. Of several puts of one key the last one holds;
        a put of None deletes. Batches that write come one after the other.

        Returns
        -------
        list[Result]
            What each operation gives, in order.

        Raises
        ------
        InvalidInputError
            A value is no JSON, a filter or a lifetime cannot be used; nothing was written.
        StoreError, ModelError
            The memory failed.
        """
        asked = list(ops)
        return await self._home.arun(lambda memory: self._done(memory, asked))

    def purge(self) -> int:
        """Remove the bytes of deleted and expired items, and return how many items that were."""
        return self._home.run(self._purged)

    async def apurge(self) -> int:
        """Remove the bytes of deleted and expired items, and return how many items that were."""
        return await self._home.arun(self._purged)

    def close(self) -> None:
        """Close the memory that the store has opened. Closing twice is harmless."""
        if self._owns_home:
            self._home.close()

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return the store."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it, without holding up the event loop."""
        await asyncio.to_thread(self.close)

    async def _done(self, memory: Memory, ops: Sequence[Op]) -> list[Result]:
        results: list[Result] = [None] * len(ops)
        gets: list[tuple[int, GetOp]] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for place, op in enumerate(ops):
            if isinstance(op, GetOp):
                gets.append((place, op))
            elif isinstance(op, PutOp):
                puts[tuple(op.namespace), op.key] = op
            elif isinstance(op, SearchOp):
                results[place] = await find(memory, self._items, op)
            elif isinstance(op, ListNamespacesOp):
                results[place] = await self._items.namespaces(memory, op)
            else:
                raise InvalidInputError(f"a store knows no operation {type(op).__name__}")
        if gets:
            items = await self._items.get(memory, [op for _, op in gets])
            for (place, _), item in zip(gets, items, strict=True):
                results[place] = item
        if puts:
            async with self._writing:
                await self._items.put(memory, list(puts.values()))
        return results

    async def _purged(self, memory: Memory) -> int:
        async with self._writing:
            return await self._items.remove_bytes(memory)


def _checked(ttl: TTLConfig | None) -> TTLConfig | None:
    if ttl is None:
        return None
    if ttl.get("sweep_interval_minutes") is not None:
        raise ConfigurationError(
            "ttl has sweep_interval_minutes, but this store needs no sweeping: expired items are "
            "invisible at once; leave it out, and call purge() to remove their bytes"
        )
    if ttl.get("omit_expired") is False:
        raise ConfigurationError("ttl has omit_expired=False, but expired items are never shown")
    return ttl
