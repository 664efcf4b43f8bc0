"""Random operations give the same on LangGraph's store in RAM and on ours.

Left out is what differs on purpose (docs/langgraph.md): types are not mixed up, a missing key is
not null, the order is that of the first put, and a namespace without items is none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from agentmem.integrations.home import MemoryHome
from agentmem.integrations.langgraph_store import AgentMemStore
from tests.support import WordEmbedder

# Labels that run into each other when they are joined by something.
labels = st.sampled_from(["a", "b", "ab", "a/b", "a,b", "a b", "a|", '"', "%", "_", "é", "🦉"])
spaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
prefixes = st.lists(labels, max_size=2).map(tuple)
patterns = st.lists(labels | st.just("*"), min_size=1, max_size=2).map(tuple)
keys = st.sampled_from(["k", "K", "a,b", '"', "", "x" * 2000])
scalars = st.sampled_from([2, 9, 9.5, 10, 10.0, 2**70, -1, "2", "note", "Note", "it's", "日本", ""])
fields = st.sampled_from(["n", "tag", "a b", "a.b", "", "$x", "__object", "value", "key"])
parts = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y z", "$z"]), inner, max_size=2)
    ),
    max_leaves=5,
)
values = st.dictionaries(fields, parts, max_size=4).map(lambda value: {**value, "text": "tea"})
numbers = st.sampled_from([2, 9, 9.5, 10])


def _plain(part: Any) -> bool:
    """Return whether a part means itself in a filter: a key with a dollar is an operator there."""
    if isinstance(part, dict):
        return not any(k.startswith("$") for k in part) and all(map(_plain, part.values()))
    # Objects inside of lists: compared in part by one, and as a whole by the other.
    return not isinstance(part, list) or not any(isinstance(p, (dict, list)) for p in part)


conditions = (
    parts.filter(_plain)
    | parts.map(lambda part: {"$eq": part})
    | parts.map(lambda part: {"$ne": part})
    | st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), numbers).map(
        lambda p: {p[0]: p[1]}
    )
)
filters = st.dictionaries(st.sampled_from(["n", "tag", "a b", "", "value"]), conditions, max_size=2)

puts = st.tuples(spaces, keys, values | st.none()).map(lambda parts: PutOp(*parts))
gets = st.tuples(spaces, keys).map(lambda parts: GetOp(*parts))
queries = st.sampled_from([None, "", "tea", "no such word"])
searches = st.tuples(prefixes, st.none() | filters, st.just(1000), st.just(0), queries).map(
    lambda parts: SearchOp(*parts)
)
matches = st.tuples(st.sampled_from(["prefix", "suffix"]), patterns).map(
    lambda parts: MatchCondition(*parts)  # type: ignore[arg-type]
)
lists = st.tuples(
    st.none() | st.lists(matches, max_size=2).map(tuple),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([2, 100]),
    st.sampled_from([0, 1]),
).map(lambda parts: ListNamespacesOp(*parts))
batches = st.lists(
    st.lists(puts | puts | gets | searches | lists, min_size=1, max_size=4), max_size=8
)


@pytest.fixture(scope="module")
def home() -> Iterator[MemoryHome]:
    with MemoryHome(url="local://:memory:", embedder=WordEmbedder()) as home:
        home.run(lambda memory: memory.count())  # it opens
        yield home


class Theirs(InMemoryStore):
    """LangGraph's store, without the namespaces that have no items."""

    def _handle_list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        for namespace in [namespace for namespace, items in self._data.items() if not items]:
            del self._data[namespace]
        return super()._handle_list_namespaces(op)


numbering = itertools.count()


@settings(max_examples=60)
@given(batches)
def test_random_operations(home: MemoryHome, operations: list[list[Op]]) -> None:
    ours = AgentMemStore(home, user_id=f"user {next(numbering)}")  # a store of its own
    theirs = Theirs()
    for batch in operations:
        try:
            expected = theirs.batch(batch)
        except (TypeError, ValueError):  # theirs compares no text or nothing with a number
            continue
        for mine, wanted in zip(ours.batch(batch), expected, strict=True):
            assert told(mine) == told(wanted)
    everything = ours.search((), limit=1000)
    assert told(everything) == told(theirs.search((), limit=1000))
    for query in (None, "tea"):
        whole = ours.search((), query=query, limit=1000)
        pages = [
            ours.search((), query=query, limit=3, offset=place) for place in range(0, len(whole), 3)
        ]
        assert list(itertools.chain(*pages)) == whole


def told(result: Any) -> Any:
    """Return a result without order and times."""
    if isinstance(result, Item):
        return result.namespace, result.key, result.value
    if isinstance(result, list) and result and isinstance(result[0], Item):
        return sorted((told(item) for item in result), key=lambda item: item[:2])
    return result
