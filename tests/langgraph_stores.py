"""What the tests of the store for LangGraph share; its fixtures are in tests/unit/conftest.py."""

from __future__ import annotations

from typing import Any

from langgraph.store.base import BaseStore, PutOp

NS = ("test",)


async def put_all(store: BaseStore, values: dict[str, dict[str, Any]]) -> None:
    """Put values by key in one batch."""
    await store.abatch([PutOp(NS, key, value) for key, value in values.items()])


async def keys(store: BaseStore, namespace: tuple[str, ...] = NS, **named: Any) -> list[str]:
    """Return the keys that a search finds, in order."""
    return [item.key for item in await store.asearch(namespace, **named)]
