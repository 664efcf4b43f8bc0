"""The store for LangGraph, on every engine: lifetimes, deletions, owners, threads and loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    PutOp,
)

from agentmem import (
    CapabilityError,
    ClosedError,
    ConfigurationError,
    InvalidInputError,
    Memory,
    Settings,
    WrongLoopError,
)
from agentmem.integrations.langgraph_store import AgentMemStore
from tests.langgraph_stores import NS, keys, put_all
from tests.support import MakeMemory, SetClock, WordEmbedder

# -------------------------------------------------------------------------- lifetimes


async def test_the_expired_is_invisible_everywhere(store: AgentMemStore, clock: SetClock) -> None:
    await store.aput(NS, "k", {"text": "kettle"}, ttl=10)
    await store.aput(NS, "other", {"text": "kettle"})
    clock.forward(minutes=10)
    assert await store.aget(NS, "k") is None
    assert await keys(store) == await keys(store, query="kettle") == ["other"]
    assert await keys(store, filter={"text": "kettle"}) == ["other"]
    await store.adelete(NS, "k")
    await store.aput(NS, "k", {"text": "new"})
    item = await store.aget(NS, "k")
    assert item is not None
    assert (item.value, item.created_at) == ({"text": "new"}, clock.now)


async def test_reads_renew_a_lifetime(store: AgentMemStore, clock: SetClock) -> None:
    await store.aput(NS, "k", {"text": "kettle"}, ttl=10)
    updated = clock.now
    for read in (
        store.aget(NS, "k"),
        store.asearch(NS),
        store.asearch(NS, query="kettle", filter={"text": "kettle"}),
        store.aget(NS, "k", refresh_ttl=True),
    ):
        clock.forward(minutes=9)
        assert await read
    clock.forward(minutes=9)
    assert await store.aget(NS, "k", refresh_ttl=False)
    assert await store.asearch(NS, refresh_ttl=False)
    item = await store.aget(NS, "k", refresh_ttl=False)
    assert item is not None
    assert item.updated_at == updated
    clock.forward(minutes=1)
    assert await store.aget(NS, "k") is None


async def test_what_a_page_does_not_show_is_not_renewed(
    store: AgentMemStore, clock: SetClock
) -> None:
    for key in ("a", "b", "c"):
        await store.aput(NS, key, {}, ttl=10)
        clock.forward(seconds=1)
    clock.forward(minutes=9)
    assert await keys(store, limit=1, offset=1) == ["b"]
    clock.forward(minutes=9)
    assert await keys(store) == ["b"]


async def test_reads_renew_without_a_new_version(store: AgentMemStore, memory: Memory) -> None:
    await store.aput(NS, "k", {"text": "kettle"}, ttl=10)
    for _ in range(3):
        await store.asearch(NS, query="kettle")
    [document] = (await memory.list()).documents
    assert document.version == 1
    assert (await memory.stats()).versions == 1


async def test_default_lifetime(memory: Memory, clock: SetClock) -> None:
    store = AgentMemStore(memory, ttl={"default_ttl": 10, "refresh_on_read": False})
    await store.aput(NS, "default", {})
    await store.aput(NS, "longer", {}, ttl=30)
    await store.aput(NS, "ever", {}, ttl=None)
    clock.forward(minutes=9)
    assert len(await keys(store)) == 3
    await store.aput(NS, "default", {})
    clock.forward(minutes=9)
    assert sorted(await keys(store)) == ["default", "ever", "longer"]
    clock.forward(minutes=1)
    assert sorted(await keys(store)) == ["ever", "longer"]
    clock.forward(minutes=11)
    assert await keys(store) == ["ever"]
    assert await keys(store, refresh_ttl=True) == ["ever"]


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), True, "5", 1e12])
async def test_bad_lifetimes_are_refused(store: AgentMemStore, ttl: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"above 0|year 9999"):
        await store.aput(NS, "k", {}, ttl=ttl)


def test_a_sweeper_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs no sweeping"):
        AgentMemStore(url="x", ttl={"sweep_interval_minutes": 5})
    with pytest.raises(ConfigurationError, match="never shown"):
        AgentMemStore(url="x", ttl={"omit_expired": False})


async def test_a_store_that_may_only_read(tmp_path: Path, clock: SetClock) -> None:
    async with Memory(tmp_path / "m", embedder=WordEmbedder()) as memory:
        await AgentMemStore(memory).aput(NS, "k", {"a": 1}, ttl=10)
    settings = Settings(url=str(tmp_path / "m"), read_only=True)
    async with Memory(settings, embedder=WordEmbedder()) as memory:
        store = AgentMemStore(memory, ttl={"refresh_on_read": False})
        assert await store.aget(NS, "k")
        with pytest.raises(CapabilityError, match="opened read-only"):
            await store.aget(NS, "k", refresh_ttl=True)
        with pytest.raises(CapabilityError, match="opened read-only"):
            await store.aput(NS, "k", {"a": 2})


# ------------------------------------------------------------------------- forgetting


async def test_deletions_forget(store: AgentMemStore, memory: Memory) -> None:
    await put_all(store, {"a": {"text": "sentinel one"}, "b": {"text": "other"}})
    await store.adelete(NS, "a")
    assert await keys(store) == await keys(store, query="sentinel one") == ["b"]
    assert [d.content for d in (await memory.list()).documents] == ["text: other"]
    assert [hit.text for hit in (await memory.search("sentinel one")).hits] == ["text: other"]
    assert [r.action for r in await memory.receipts()] == ["forget"]


def in_any_byte(folder: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("at_once", [True, False])
async def test_bytes_are_removed(tmp_path: Path, clock: SetClock, at_once: bool) -> None:
    async with Memory(tmp_path / "m", embedder=WordEmbedder(), clock=clock) as memory:
        store = AgentMemStore(memory, purge=at_once)
        await store.aput(NS, "deleted", {"text": "sentinelone"})
        await store.aput(NS, "short", {"text": "sentineltwo"}, ttl=1)
        await store.aput(NS, "kept", {"text": "sentinelthree"})
        await memory.write("sentinelfour", user_id="ada")
        gone = (await memory.write("sentinelfive")).ids
        await memory.forget(gone)
        await store.adelete(NS, "deleted")
        assert in_any_byte(tmp_path / "m", "sentinelone") is not at_once
        clock.forward(minutes=2)
        assert await store.apurge() == (1 if at_once else 2)
        assert await store.apurge() == 0
        for word, left in (("one", False), ("two", False), ("three", True), ("five", True)):
            assert in_any_byte(tmp_path / "m", f"sentinel{word}") is left, word
        assert await keys(store) == ["kept"]
        assert (await memory.restore(gone)).restored == gone
        assert (await memory.verify()).ok


async def test_what_was_restored_is_not_purged(store: AgentMemStore, memory: Memory) -> None:
    await store.aput(NS, "k", {"a": 1})
    [document] = (await memory.list()).documents
    await store.adelete(NS, "k")
    await memory.restore(document.id)
    assert await store.apurge() == 0
    assert await keys(store) == ["k"]


async def test_more_deletions_than_a_forget_may_cover(make_memory: MakeMemory) -> None:
    async with make_memory(settings={"forget_limit": 2}) as memory:
        store = AgentMemStore(memory)
        await put_all(store, {f"k{n}": {} for n in range(5)})
        await store.abatch([PutOp(NS, f"k{n}", None) for n in range(5)])
        assert await keys(store) == []
        assert await store.apurge() == 5


# -------------------------------------------------------------------------- isolation


async def test_owners_and_collections_are_apart(memory: Memory) -> None:
    stores = [
        AgentMemStore(memory),
        AgentMemStore(memory, user_id="ada"),
        AgentMemStore(memory, user_id="ad"),
        AgentMemStore(memory, collection="other"),
    ]
    await memory.write("kettle", user_id="ada")
    for number, store in enumerate(stores):
        await store.aput(NS, "k", {"text": "kettle", "n": number})
    for number, store in enumerate(stores):
        item = await store.aget(NS, "k")
        assert item is not None
        assert item.value["n"] == number
        assert [i.value["n"] for i in await store.asearch(NS)] == [number]
        assert [i.value["n"] for i in await store.asearch(NS, query="kettle")] == [number]
        assert await store.alist_namespaces() == [NS]
    await stores[1].adelete(NS, "k")
    assert [len(await s.asearch(NS)) for s in stores] == [1, 0, 1, 1]
    await stores[0].adelete(NS, "k")
    assert await stores[2].apurge() == 0
    assert await stores[1].apurge() == 1
    shared = (await memory.receipts())[1].ids
    assert (await memory.restore(shared)).restored == shared
    assert await stores[1].apurge() == 0
    assert await keys(stores[0]) == ["k"]


async def test_items_are_documents_of_the_memory(store: AgentMemStore, memory: Memory) -> None:
    await store.aput(("ada", "facts"), "k", {"fact": "Jonas is allergic to peanuts", "n": 3})
    result = await memory.search("allergic", where={"value.n": 3, "namespace.level0": "ada"})
    assert result.hits[0].text == "fact: Jonas is allergic to peanuts\nn: 3"


async def test_a_restart_keeps_all(make_memory: MakeMemory) -> None:
    async with make_memory() as memory:
        if memory._settings.url == "local://:memory:":
            return
        await AgentMemStore(memory).aput(NS, "k", {"text": "kettle"})
    async with make_memory() as memory:
        assert await keys(AgentMemStore(memory), query="kettle") == ["k"]


# ------------------------------------------------------------------------- everywhere


async def test_sync_calls_work_inside_a_running_loop(plain: AgentMemStore) -> None:
    plain.put(NS, "k", {"text": "kettle"}, ttl=5)
    assert [item.key for item in plain.search(NS, query="kettle")] == ["k"]
    assert plain.list_namespaces() == [NS]
    await plain.aput(NS, "k2", {})
    assert plain.get(NS, "k2") == await plain.aget(NS, "k2")
    plain.delete(NS, "k")
    assert plain.purge() == 1


async def test_sync_calls_on_the_memorys_own_loop_are_refused(store: AgentMemStore) -> None:
    with pytest.raises(WrongLoopError, match="use the asynchronous method"):
        store.put(NS, "k", {})
    await asyncio.to_thread(store.put, NS, "k", {"a": 1})
    assert await keys(store) == ["k"]


@pytest.fixture
async def at_url(tmp_path: Path) -> AsyncIterator[AgentMemStore]:
    async with AgentMemStore(url=tmp_path / "m") as store:
        yield store


async def test_a_store_with_a_url_opens_and_closes_its_memory(at_url: AgentMemStore) -> None:
    await asyncio.gather(*(at_url.aput(NS, "k", {"n": n}) for n in range(5)))
    item = await at_url.aget(NS, "k")
    assert item is not None
    assert item.value == {"n": 4}
    await asyncio.to_thread(at_url.close)
    with pytest.raises(ClosedError, match="make a new one"):
        await at_url.aget(NS, "k")
    with pytest.raises(ClosedError, match="make a new one"):
        at_url.get(NS, "k")


def test_one_place_is_needed() -> None:
    for arguments in ({}, {"memory": Memory("x"), "url": "x"}):
        with pytest.raises(ConfigurationError, match="either an open memory or a url"):
            AgentMemStore(**arguments)  # type: ignore[arg-type]


async def test_a_cancelled_put_leaves_the_store_usable(store: AgentMemStore) -> None:
    for steps in range(12):
        task = asyncio.create_task(store.aput(NS, f"k{steps}", {"n": steps}))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await store.aput(NS, "last", {})
    assert "last" in await keys(store, limit=100)


async def test_in_a_graph(store: AgentMemStore) -> None:
    async def remember(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
        assert runtime.store is not None
        await runtime.store.aput(("ada",), "name", {"text": "call me Ada"})
        found = await runtime.store.asearch(("ada",), query="Ada")
        return {"messages": [("ai", str(found[0].value["text"]))]}

    builder = StateGraph(MessagesState)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    graph = builder.compile(store=store)
    asked: Any = {"messages": [("user", "hello")]}
    answer = await graph.ainvoke(asked)
    assert answer["messages"][-1].content == "call me Ada"
