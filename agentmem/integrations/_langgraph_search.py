"""Finds items of a LangGraph store: by a query, through the pipeline, or in order.

A page of a ranking has to fit the pages before it. A search looks closely at a number of
candidates, and another number gives another ranking, so that number must not depend on the page.
The ranking of a query is therefore made of tiers: the first hundred chunks, then what a search for
a thousand finds besides, then for the most that a search gives, and behind them all other items in
the order of `Memory.list`. Tiers that a page does not reach are not searched.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from math import inf

from langgraph.store.base import SearchItem, SearchOp

from agentmem import F, Filter, InvalidInputError, Memory
from agentmem.integrations._langgraph_items import Found, Items, bounds, to_found, to_search_item
from agentmem.integrations._langgraph_values import in_namespace, to_filter
from agentmem.pipeline import need

_LOG = logging.getLogger("agentmem.integrations.langgraph_store")
_TIERS = (100, 1000, 4096)


async def find(memory: Memory, items: Items, op: SearchOp) -> list[SearchItem]:
    """Return a page of the items that fit, best first or in the order of their first put."""
    start, stop = bounds(op.offset, op.limit)
    conditions = [*in_namespace(op.namespace_prefix), *to_filter(op.filter or {})]
    if op.query is not None and not isinstance(op.query, str):
        raise InvalidInputError(f"query must be a str or None, not {type(op.query).__name__}")
    if start == stop:
        return []
    if op.query is None or not op.query.strip():
        every = _in_order(memory, items, conditions)
    else:
        every = _ranking(memory, items, op.query, conditions)
    page: list[Found] = []
    place = 0
    async with aclosing(every):
        async for found in every:
            if place >= start:
                page.append(found)
            place += 1
            if place == stop:
                break
    if op.refresh_ttl:
        await items.renew(memory, page)
    return [to_search_item(found) for found in page]


async def _in_order(
    memory: Memory, items: Items, conditions: Sequence[Filter]
) -> AsyncGenerator[Found, None]:
    async with aclosing(items.walk(memory, *conditions)) as documents:
        async for document in documents:
            yield to_found(document)


async def _ranking(
    memory: Memory, items: Items, query: str, conditions: Sequence[Filter]
) -> AsyncGenerator[Found, None]:
    """Yield every indexed item that fits, each once with the score of its best chunk."""
    conditions = [*conditions, F("indexed") == True]  # noqa: E712 - builds a filter
    seen: set[str] = set()
    lowest = inf
    for k in _TIERS:
        search = memory.begin(query, **items.scope(*conditions), k=k)
        await memory.advance(search, "rerank")
        ranked = need(search.state.ranked, "ranked")
        for candidate in ranked:
            row = need(candidate.row, "row")
            if row.document_id in seen:
                continue
            seen.add(row.document_id)
            # Scores of different tiers come from different searches; the order is what counts.
            lowest = min(lowest, candidate.score)
            yield Found(id=row.document_id, metadata=row.metadata, score=lowest)
        if k == _TIERS[0]:
            for problem in search.state.degraded:
                _LOG.warning("a store was searched, but not as configured: %s", problem)
        if len(ranked) < k and not search.state.degraded:
            return  # with a vector, a search leaves out nothing before it has found k chunks
    async with aclosing(_in_order(memory, items, conditions)) as rest:
        async for found in rest:
            if found.id not in seen:
                yield found
