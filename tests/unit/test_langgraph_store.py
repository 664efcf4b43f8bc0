"""The store for LangGraph, on every engine: what LangGraph's own stores do, and what ours adds."""

from __future__ import annotations

import asyncio
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)

from agentmem import (
    FilterError,
    InvalidInputError,
    InvalidQueryError,
    Memory,
    ModelError,
    Settings,
)
from agentmem.integrations.langgraph_store import AgentMemStore
from tests.langgraph_stores import NS, keys, put_all
from tests.support import MakeMemory, SetClock, WordEmbedder

# ----------------------------------------------------------------- items and batches


async def test_put_get_update_delete(store: AgentMemStore, clock: SetClock) -> None:
    first = clock.now
    await store.aput(("docs", "a"), "k", {"title": "one"})
    item = await store.aget(("docs", "a"), "k")
    assert item == Item(
        value={"title": "one"}, key="k", namespace=("docs", "a"), created_at=first, updated_at=first
    )
    clock.forward(minutes=1)
    await store.aput(("docs", "a"), "k", {"title": "two"})
    item = await store.aget(("docs", "a"), "k")
    assert item is not None
    assert (item.value, item.created_at, item.updated_at) == ({"title": "two"}, first, clock.now)
    assert await store.aget(("docs",), "k") is None
    await store.adelete(("docs", "a"), "k")
    assert await store.aget(("docs", "a"), "k") is None
    await store.adelete(("docs", "a"), "k")
    clock.forward(minutes=1)
    await store.aput(("docs", "a"), "k", {"title": "three"})
    item = await store.aget(("docs", "a"), "k")
    assert item is not None
    assert item.created_at == clock.now


async def test_the_same_value_again_is_an_update(store: AgentMemStore, clock: SetClock) -> None:
    await store.aput(NS, "k", {"a": 1})
    created = clock.now
    clock.forward(seconds=1)
    await store.aput(NS, "k", {"a": 1})
    item = await store.aget(NS, "k")
    assert item is not None
    assert (item.created_at, item.updated_at) == (created, clock.now)


def test_a_batch_gives_results_in_order_and_reads_what_was_before(plain: AgentMemStore) -> None:
    plain.put(("t", "foo"), "k1", {"data": 1})
    plain.put(("t", "bar"), "k2", {"data": 2})
    results: list[Any] = plain.batch(
        [
            GetOp(("t", "foo"), "k1"),
            PutOp(("t", "foo"), "k1", {"data": 5}),
            SearchOp(("t",), filter={"data": 1}),
            ListNamespacesOp(),
            GetOp(("t",), "k3"),
            PutOp(("t",), "k3", {"data": 3}),
            GetOp(("t", "foo"), "k1"),
        ]
    )
    assert [results[0].value, results[1], [i.key for i in results[2]]] == [
        {"data": 1},
        None,
        ["k1"],
    ]
    assert results[3] == [("t", "bar"), ("t", "foo")]
    assert results[4:6] == [None, None]
    assert results[6] == results[0]
    after = plain.get(("t", "foo"), "k1")
    assert after is not None
    assert after.value == {"data": 5}


async def test_the_last_put_of_a_batch_wins(store: AgentMemStore) -> None:
    await store.aput(NS, "gone", {"n": 0})
    await store.abatch(
        [
            PutOp(NS, "a", {"n": 1}),
            PutOp(NS, "a", {"n": 2}),
            PutOp(NS, "b", {"n": 1}),
            PutOp(NS, "b", None),
            PutOp(NS, "c", None),
            PutOp(NS, "c", {"n": 3}),
            PutOp(NS, "gone", None),
            PutOp(NS, "never", None),
        ]
    )
    found = {item.key: item.value["n"] for item in await store.asearch(NS)}
    assert found == {"a": 2, "c": 3}


async def test_calls_made_together_are_done_in_their_order(store: AgentMemStore) -> None:
    rounds = [store.aput(NS, "k", {"n": n}) if n % 3 else store.adelete(NS, "k") for n in range(8)]
    await asyncio.gather(*rounds)
    item = await store.aget(NS, "k")
    assert item is not None
    assert item.value == {"n": 7}


VALUES: list[dict[str, Any]] = [
    {},
    {"a": None, "b": True, "c": 1, "d": 1.5, "e": "x", "f": [], "g": {}, "h": [1, [2, {"i": 3}]]},
    {"": 1, "$eq": 2, "a.b": 3, "a b": 4, "日本": 5, "k" * 300: 6, "__object": 7, "value": 8},
    {"big": 2**70, "small": -(2**70), "huge": 1e300, "tiny": 1e-300, "zero": 0.0, "one": 1.0},
    {"nul": "a\0b", "surrogate": "\ud800", "emoji": "🦉", "blank": " ", "long": "tea " * 900},
    {"deep": eval("[" * 60 + "1" + "]" * 60)},
    {"datetime": {"$datetime": "2025-01-01T00:00:00+00:00"}},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: next(iter(value), "empty")[:9])
async def test_any_json_comes_back_as_it_was(store: AgentMemStore, value: dict[str, Any]) -> None:
    await store.aput(NS, "k", value)
    item = await store.aget(NS, "k")
    assert item is not None
    assert item.value == value
    assert list(item.value) == list(value)
    assert [type(v) for v in item.value.values()] == [type(v) for v in value.values()]
    for name, part in value.items():
        assert await keys(store, filter={name: {"$eq": part}}) == ["k"]
        assert await keys(store, filter={name: {"$ne": part}}) == []
        assert await keys(store, filter={name: {"$eq": "another"}}) == []


async def test_values_are_copies(store: AgentMemStore) -> None:
    value = {"tags": ["a"]}
    await store.aput(NS, "k", value)
    value["tags"].append("b")
    item = await store.aget(NS, "k")
    assert item is not None
    assert item.value == {"tags": ["a"]}


@pytest.mark.parametrize(
    "value", [{"a": float("nan")}, {"a": float("inf")}, {1: "a"}, {"a": {2: 1}}, {"a": object()}]
)
async def test_what_is_no_json_is_refused_and_nothing_is_written(
    store: AgentMemStore, value: dict[Any, Any]
) -> None:
    with pytest.raises(InvalidInputError, match=r"must be JSON|keys must be str"):
        await store.abatch([PutOp(NS, "good", {"a": 1}), PutOp(NS, "bad", value)])
    assert await store.asearch(NS) == []


async def test_unknown_operations_are_refused(store: AgentMemStore) -> None:
    operations: Any = [("get", "k")]
    with pytest.raises(InvalidInputError, match="no operation tuple"):
        await store.abatch(operations)
    assert await store.abatch([]) == []


# ----------------------------------------------------------------------- namespaces


async def test_labels_are_compared_whole(store: AgentMemStore) -> None:
    """Neither a longer label nor a separator inside of one makes two namespaces one."""
    spaces = [
        ("a", "b"), ("a", "bc"), ("a", "b", "c"), ("ab",), ("a/b",), ("a|b",), ("a:b", "c"),
        ("a", "b:c"), ('a","b',), ("a%",), ("a_",), ("A", "b"), ("*", "b"), ("é",), ("e\u0301",),
        ("x" * 5000,), ("x" * 5001,), (" ",),
    ]  # fmt: skip
    for number, space in enumerate(spaces):
        await store.aput(space, "k", {"n": number})
    for number, space in enumerate(spaces):
        item = await store.aget(space, "k")
        assert item is not None
        assert (item.value, item.namespace) == ({"n": number}, space)
        inside = [s for s in spaces if s[: len(space)] == space]
        found = await store.asearch(space, limit=100)
        assert sorted(i.namespace for i in found) == sorted(inside)
    assert sorted(await store.alist_namespaces()) == sorted(spaces)
    await store.adelete(("a", "b"), "k")
    assert await store.aget(("a", "bc"), "k") is not None
    assert await store.aget(("a", "b", "c"), "k") is not None


async def test_keys_are_compared_whole(store: AgentMemStore) -> None:
    names = [
        "k",
        "K",
        "",
        " ",
        "a/b",
        "a\0b",
        "é",
        "e\u0301",
        "🦉",
        "x" * 5000,
        "x" * 5001,
        "\ud800",
    ]
    await store.abatch([PutOp(NS, name, {"name": name}) for name in names])
    for name in names:
        item = await store.aget(NS, name)
        assert item is not None
        assert (item.key, item.value) == (name, {"name": name})
    assert sorted(await keys(store, limit=100)) == sorted(names)


async def test_bad_namespaces_are_refused(store: AgentMemStore) -> None:
    bad: list[Any] = [(), ("a.b",), ("a", ""), ("langgraph", "a"), (1,)]
    for space in bad:
        with pytest.raises(InvalidNamespaceError):
            await store.aput(space, "k", {})
    # As in LangGraph, operations in a batch may use what the methods reserve.
    await store.abatch([PutOp(("langgraph", "a.b"), "k", {"a": 1})])
    assert await store.aget(("langgraph", "a"), "k") is None
    [item] = await store.abatch([GetOp(("langgraph", "a.b"), "k")])
    assert isinstance(item, Item)
    wrong: Any = (1, "a")
    with pytest.raises(InvalidNamespaceError, match="labels and keys must be str"):
        await store.abatch([PutOp(wrong, "k", {})])


SPACES = [
    ("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"),
    ("b", "a", "f"), ("users", "123"), ("users", "456", "settings"), ("admin", "users", "789"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, SPACES),
        ({"prefix": ("a", "b")}, SPACES[:4]),
        ({"suffix": ("f",)}, SPACES[3:6]),
        ({"prefix": ("a",), "suffix": ("f",)}, SPACES[3:5]),
        ({"prefix": ("a", "b"), "max_depth": 3}, [("a", "b", "c"), ("a", "b", "d"), SPACES[3]]),
        ({"max_depth": 1}, [("a",), ("admin",), ("b",), ("users",)]),
        ({"prefix": ("a", "b"), "limit": 2}, SPACES[:2]),
        ({"prefix": ("a", "b"), "offset": 2}, SPACES[2:4]),
        ({"prefix": ("a", "*", "f")}, SPACES[3:5]),
        ({"suffix": ("*", "f")}, SPACES[3:6]),
        ({"prefix": ("*", "users"), "suffix": ("*", "settings")}, []),
        ({"prefix": ("users", "123")}, [("users", "123")]),
        ({"prefix": ("user",)}, []),
        ({"suffix": ("a", "b", "c", "d")}, []),
        ({"limit": 0}, []),
    ],
)
async def test_list_namespaces(
    store: AgentMemStore, asked: dict[str, Any], expected: list[tuple[str, ...]]
) -> None:
    await store.abatch([PutOp(space, "k", {"n": 1}) for space in (*SPACES, *SPACES)])
    assert await store.alist_namespaces(**asked) == sorted(expected)


async def test_a_namespace_ends_with_its_last_item(store: AgentMemStore, clock: SetClock) -> None:
    await store.aput(("a",), "k", {})
    await store.aput(("b",), "k", {}, ttl=1)
    await store.aget(("c",), "k")
    assert await store.alist_namespaces() == [("a",), ("b",)]
    await store.adelete(("a",), "k")
    clock.forward(minutes=2)
    assert await store.alist_namespaces() == []


async def test_an_unknown_way_to_match_is_refused(store: AgentMemStore) -> None:
    await store.aput(("a",), "k", {})
    condition: Any = MatchCondition("infix", ("a",))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="'prefix' or 'suffix', not 'infix'"):
        await store.abatch([ListNamespacesOp((condition,))])


# --------------------------------------------------------------------------- filters

FILTERED: dict[str, dict[str, Any]] = {
    "one": {"n": 1, "tag": "a", "list": [1, 2], "deep": {"x": 1, "y": {"z": "q"}}, "flag": True},
    "nine": {"n": 9, "tag": "b", "list": [2, 1], "deep": {"x": 1}, "flag": False},
    "ten": {"n": 10, "tag": "b", "list": [], "deep": {}, "flag": 1, "none": None},
    "half": {"n": 9.5, "tag": "apple", "list": [1, 2, 3], "deep": [{"x": 1}]},
    "text": {"n": "10", "tag": ["a"], "list": "[1, 2]"},
}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"tag": "b"}, "nine ten"),
        ({"tag": "b", "n": 9}, "nine"),
        ({"n": {"$gte": 10}}, "ten"),
        ({"n": {"$gt": 9}}, "half ten"),
        ({"n": {"$lt": 10}}, "half nine one"),
        ({"n": {"$lte": 9}}, "nine one"),
        ({"n": {"$gt": 1, "$lt": 10}}, "half nine"),
        ({"n": {"$gt": "1"}}, "text"),
        ({"tag": {"$gt": "a"}}, "half nine ten"),
        ({"n": {"$eq": 10.0}}, "ten"),
        ({"n": {"$ne": 1}}, "half nine ten text"),
        ({"list": [1, 2]}, "one"),
        ({"list": {"$eq": [1, 2]}}, "one"),
        ({"list": (2, 1)}, "nine"),
        ({"list": []}, "ten"),
        ({"tag": ["a"]}, "text"),
        ({"deep": {"x": 1}}, "nine one"),
        ({"deep": {"$eq": {"x": 1}}}, "nine"),
        ({"deep": {"y": {"z": "q"}}}, "one"),
        ({"deep": {"x": {"$gte": 1}, "y": {"z": {"$ne": "r"}}}}, "one"),
        ({"deep": {}}, "nine one ten"),
        ({"deep": {"$eq": {}}}, "ten"),
        ({"deep": [{"x": 1}]}, "half"),
        ({"flag": True}, "one"),
        ({"flag": 1}, "ten"),
        ({"none": None}, "ten"),
        ({"none": {"$ne": None}}, "half nine one text"),
        ({"missing": {"$ne": 1}}, "half nine one ten text"),
        ({"missing": {"$lt": 1}}, ""),
        ({"missing": "x"}, ""),
        ({}, "half nine one ten text"),
    ],
)
async def test_filters(store: AgentMemStore, asked: dict[str, Any], expected: str) -> None:
    await put_all(store, FILTERED)
    assert sorted(await keys(store, filter=asked)) == expected.split()
    assert sorted(await keys(store, filter=asked, query="apple")) == expected.split()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"n": {"$in": [1]}}, r"'\$in' is no operator"),
        ({"n": {"$gt": 1, "lt": 5}}, "'lt' is no operator"),
        ({"n": {"$gt": [1]}}, "compares numbers, texts or datetimes"),
        ({"n": float("nan")}, "no number of JSON"),
        ({"n": object()}, "not object"),
        ({1: 2}, "keys must be str"),
    ],
)
async def test_bad_filters_are_refused(
    store: AgentMemStore, asked: dict[Any, Any], message: str
) -> None:
    with pytest.raises(FilterError, match=message):
        await store.asearch(NS, filter=asked)


async def test_a_text_too_long_to_compare_with_is_refused(store: AgentMemStore) -> None:
    text = "tea " * 9000
    await store.aput(NS, "k", {"text": text})
    item = await store.aget(NS, "k")
    assert item is not None
    assert item.value == {"text": text}
    with pytest.raises(FilterError, match="more than 4,000 bytes; compare with a shorter one"):
        await store.asearch(NS, filter={"text": text})
    assert await keys(store, filter={"text": {"$gt": "tea"}}) == ["k"]


async def test_what_fits_is_found_however_many_others_are_nearer(store: AgentMemStore) -> None:
    near = {f"near{n}": {"text": "tea with milk", "ok": False} for n in range(150)}
    far = {f"far{n}": {"text": f"gravel {n}", "ok": True} for n in range(5)}
    await put_all(store, near | far)
    found = await keys(store, query="tea with milk", filter={"ok": True}, limit=5)
    assert sorted(found) == sorted(far)


# --------------------------------------------------------------------------- queries


async def test_a_query_ranks(store: AgentMemStore) -> None:
    await put_all(
        store,
        {
            "apple": {"text": "red apple", "color": "red"},
            "car": {"text": "red car", "color": "red"},
            "other": {"text": "green apple", "color": "green"},
        },
    )
    found = await store.asearch(NS, query="red apple")
    assert found[0].key == "apple"
    assert isinstance(found[0], SearchItem)
    scores = [item.score or 0.0 for item in found]
    assert len(set(scores)) == 3
    assert scores == sorted(scores, reverse=True)
    assert await keys(store, query="car", filter={"color": "red"}) == ["car", "apple"]
    assert all(item.score is None for item in await store.asearch(NS))
    await store.aput(NS, "apple", {"text": "about dogs"})
    after = {item.key: item.score for item in await store.asearch(NS, query="red apple")}
    assert (after["apple"] or 0.0) < scores[0]


async def test_items_that_say_the_same_are_all_found(store: AgentMemStore) -> None:
    await put_all(store, {f"k{n}": {"text": "the very same words " * 40} for n in range(5)})
    assert len(await keys(store, query="very same words")) == 5


async def test_queries_without_words(store: AgentMemStore) -> None:
    await put_all(store, {"k": {"text": "test document"}})
    for query in ("", "  ", None, "test " * 100, "test!@#$%^&*()"):
        assert await keys(store, query=query) == ["k"]
    with pytest.raises(InvalidQueryError, match="only punctuation"):
        await store.asearch(NS, query="?!")


async def test_a_search_that_is_not_as_configured_finds_all_and_says_so(
    make_memory: MakeMemory, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        id = "failing"
        needs: frozenset[str] = frozenset()

        async def rerank(self, query: str, encoding: Any, candidates: Any) -> list[float]:
            raise ModelError("no power")

        async def close(self) -> None:
            pass

    async with make_memory(reranker=Failing()) as memory:
        store = AgentMemStore(memory)
        await put_all(store, {f"k{n}": {"text": f"tea {n}"} for n in range(3)})
        assert sorted(await keys(store, query="tea")) == ["k0", "k1", "k2"]
    assert "not as configured: the reranker 'failing' failed: no power" in caplog.text


async def test_index_says_what_a_query_finds(store: AgentMemStore) -> None:
    value = {"title": "kettle", "body": "owl", "notes": [{"t": "reed"}, {"t": "gravel"}], "n": 7}
    puts: list[tuple[str, Any]] = [
        ("all", None), ("none", False), ("title", ["title"]), ("notes", ["notes[*].t"]),
        ("last", ["notes[-1].t"]), ("missing", ["nothing"]), ("two", ["title", "body"]),
    ]  # fmt: skip
    for key, index in puts:
        await store.aput(NS, key, value, index=index)

    async def told(word: str) -> set[str]:
        """Return the items of whose text the word is a part."""
        found = await store.asearch(NS, query=word)
        memory = store._home._memory
        assert memory is not None
        texts = {d.metadata["item"]: d.content for d in (await memory.list()).documents}
        for item in found:
            assert item.score is not None
        has = {k for t, c in texts.items() for k in [t.split('"')[3]] if word in c}
        return has & {item.key for item in found}

    assert await told("kettle") == {"all", "title", "two"}
    assert await told("owl") == {"all", "two"}
    assert await told("reed") == {"all", "notes"}
    assert await told("gravel") == {"all", "notes", "last"}
    found = await keys(store, query="kettle")
    assert not {"none", "missing"} & set(found)
    assert len(await keys(store)) == 7
    with pytest.raises(InvalidInputError, match="list of paths"):
        await store.aput(NS, "k", value, index="title")  # type: ignore[arg-type]


async def test_fields_are_the_default_of_index(memory: Memory) -> None:
    store = AgentMemStore(memory, fields=["title", "key"])
    await store.aput(NS, "a", {"title": "kettle", "body": "owl"})
    await store.aput(NS, "b", {"body": "kettle"})
    await store.aput(NS, "c", {"body": "kettle"}, index=["body"])
    assert sorted(await keys(store, query="kettle")) == ["a", "c"]


async def test_an_item_that_is_indexed_no_more_is_not_found(store: AgentMemStore) -> None:
    await store.aput(NS, "k", {"text": "kettle"})
    assert await keys(store, query="kettle") == ["k"]
    await store.aput(NS, "k", {"text": "kettle"}, index=False)
    assert await keys(store, query="kettle") == []
    assert await keys(store) == ["k"]


async def test_many_scripts(store: AgentMemStore) -> None:
    texts = ["这是中文", "これは日本語です", "이건 한국어야", "Это русский", "यह रूसी है"]
    await put_all(store, {text: {"text": text} for text in texts})
    for text in texts:
        assert (await keys(store, query=text))[0] == text


# ----------------------------------------------------------------------------- pages


async def test_pages_without_a_query_are_the_whole(store: AgentMemStore, clock: SetClock) -> None:
    for number in range(23):
        await store.aput(("t", str(number % 3)), f"k{number}", {"n": number})
        clock.forward(seconds=1)
    whole = await keys(store, ("t",), limit=100)
    assert whole == [f"k{number}" for number in range(23)]
    for size in (1, 4, 22, 23):
        pages = [await keys(store, ("t",), limit=size, offset=o) for o in range(0, 23, size)]
        assert list(chain(*pages)) == whole
    assert await keys(store, ("t",), offset=23) == []
    assert await keys(store, ("t",), limit=0) == []
    await store.aput(("t", "0"), "k3", {"n": 3})
    assert await keys(store, ("t",), limit=100) == whole


async def test_pages_of_a_query_are_the_whole(store: AgentMemStore) -> None:
    words = ["tea", "milk", "owl", "reed", "kettle"]
    values = {
        f"k{n}": {"text": f"{words[n % 5]} {words[n // 5 % 5]} {words[n // 25]} note {n}"}
        for n in range(112)
    }
    await put_all(store, values)
    whole = await keys(store, query="tea milk", limit=200)
    assert sorted(whole) == sorted(values)
    for size in (9, 50):
        pages = [
            await keys(store, query="tea milk", limit=size, offset=o) for o in range(0, 112, size)
        ]
        assert list(chain(*pages)) == whole


async def test_pages_beyond_what_one_search_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiers of 3 and 7 chunks, and items of several chunks: the rest comes in order."""
    monkeypatch.setattr("agentmem.integrations._langgraph_search._TIERS", (3, 7))
    settings = Settings(url=str(tmp_path / "m"), pool=3, fused=3, chunk_tokens=16, chunk_overlap=0)
    async with Memory(settings, embedder=WordEmbedder()) as memory:
        store = AgentMemStore(memory)
        values = {f"k{n:02}": {"text": f"tea number {n}. " * (1 + n % 9)} for n in range(30)}
        await put_all(store, values)
        whole = await store.asearch(NS, query="tea", limit=100)
        assert sorted(item.key for item in whole) == sorted(values)
        scored = [item.score for item in whole if item.score is not None]
        assert 3 <= len(scored) < 30
        assert scored == sorted(scored, reverse=True)
        assert all(item.score is None for item in whole[len(scored) :])
        for size in (1, 4, 11):
            pages = [
                await keys(store, query="tea", limit=size, offset=o) for o in range(0, 30, size)
            ]
            assert list(chain(*pages)) == [item.key for item in whole]


@pytest.mark.parametrize("asked", [{"limit": -1}, {"offset": -1}, {"limit": 1.5}, {"offset": True}])
async def test_pages_that_are_none_are_refused(store: AgentMemStore, asked: Any) -> None:
    with pytest.raises(InvalidInputError, match="whole number, 0 or more"):
        await store.asearch(NS, **asked)
    with pytest.raises(InvalidInputError, match="whole number, 0 or more"):
        await store.alist_namespaces(**asked)
