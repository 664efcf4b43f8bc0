"""Whatever comes in: an answer or an error of ours, no hang, and nothing of another user's.

``FUZZ_EXAMPLES=20000 make fuzz`` looks for longer; a found input becomes a test of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import oracledb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from agentmem import AgentMemError, Document, F, Memory
from agentmem._cli._app import app
from agentmem._filters import parse_filter
from agentmem._terms import analyze, query_terms
from agentmem.backends.oracle._text_query import contains_query, indexed_text
from tests.databases import StandInStore
from tests.standin import text_index
from tests.support import SetClock, WordEmbedder

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
many = settings(max_examples=EXAMPLES)

# Every code point, surrogates and NUL included, and pieces that mean something somewhere.
odd = st.text(st.characters(), max_size=40)
pieces = st.sampled_from(
    ["'", '"', "{", "}", "\\", "%", "_", ";--", " OR 1=1", "NEAR", "ABOUT(", "$", "\0", "\ud800",
     "日本", "🦉", "e\u0301", "SELECT", ":tenant", "&owner", "\n", "\u202e", "ERR-4711"]
)  # fmt: skip
anything = st.one_of(odd, st.lists(pieces | odd, max_size=6).map("".join))
scalars = st.none() | st.booleans() | st.integers() | st.floats() | anything
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=8,
)
times = st.datetimes() | st.datetimes(timezones=st.just(UTC)) | st.just(datetime.max) | st.none()
names = st.none() | anything

SECRET = "the owl of eve knows 4711"


class Pair:
    """The same two documents, one of them another user's, on both engines."""

    def __init__(self, patches: pytest.MonkeyPatch) -> None:
        self.runner = asyncio.Runner()
        self.store = StandInStore()
        patches.setattr(oracledb, "create_pool_async", self.store.server.create_pool_async)
        named: dict[str, Any] = {"clock": SetClock()}
        self.memories = [
            Memory("local://:memory:", embedder=WordEmbedder(), **named),
            self.store.memory(WordEmbedder(), named),
        ]
        for memory in self.memories:
            self.runner.run(memory.open())
            self.runner.run(memory.write(SECRET, user_id="eve"))
            self.runner.run(memory.write("tea with milk", user_id="ada", metadata={"a": 1}))

    def close(self) -> None:
        for memory in self.memories:
            self.runner.run(memory.close())
        self.runner.close()
        self.store.server.close()

    def all(self, call: Any) -> list[Any]:
        """Return the outcomes on both engines: a result, or the type of our error."""
        outcomes = []
        for memory in self.memories:
            try:
                outcomes.append(self.runner.run(call(memory)))
            except AgentMemError as error:
                outcomes.append(type(error))
        return outcomes


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    patches = pytest.MonkeyPatch()
    made = Pair(patches)
    yield made
    made.close()
    patches.undo()


@many
@given(query=anything, user=names, k=st.integers(-1, 5000) | st.just(True))
@example(query="owl", user="ada", k=8)
@example(query="4711", user="", k=8)
def test_queries(pair: Pair, query: str, user: Any, k: Any) -> None:
    results = pair.all(lambda m: m.search(query, user_id=user, k=k))
    assert isinstance(results[0], type) == isinstance(results[1], type)
    for result in results:
        if isinstance(result, type):
            assert result is results[0]
        elif user != "eve":
            assert all(hit.text != SECRET for hit in result.hits)


@many
@given(where=values)
@example(where={"user_id": {"eq": "eve"}})
@example(where={"not": {"user_id": {"eq": "ada"}}})
@example(where={"or": [{"a": {"eq": 1}}, {"user_id": {"exists": True}}]})
def test_filters(pair: Pair, where: Any) -> None:
    results = pair.all(lambda m: m.list(user_id="ada", where=where))
    if isinstance(results[0], type) or isinstance(results[1], type):
        assert results[0] is results[1]
        return
    found = [[document.content for document in page.documents] for page in results]
    assert found[0] == found[1]
    assert SECRET not in found[0]


@many
@given(
    content=anything, key=names, title=names, source=names, user=names, collection=names,
    metadata=values, begins=times, ends=times, expires=times,
)  # fmt: skip
def test_documents(
    pair: Pair, content: str, key: Any, title: Any, source: Any, user: Any, collection: Any,
    metadata: Any, begins: Any, ends: Any, expires: Any,
) -> None:  # fmt: skip
    document = Document(
        content, key=key, title=title, source_uri=source, user_id=user, collection=collection,
        metadata=metadata, valid_from=begins, valid_until=ends, expires_at=expires,
    )  # fmt: skip
    results = pair.all(lambda m: m.write(document))
    assert results[0] == results[1]
    if isinstance(results[0], type):
        return
    name = results[0].ids[0]
    stored = pair.all(lambda m: m.get(name, user_id=user))
    assert stored[0] == stored[1]
    if stored[0] is not None:
        assert stored[0].content == content
    gone = pair.all(lambda m: m.forget(name, user_id=user, purge=True))
    assert [result.count for result in gone] == [1, 1]


@many
@given(ids=anything | st.lists(anything, max_size=3), key=names, cursor=anything)
def test_names_and_cursors(pair: Pair, ids: Any, key: Any, cursor: str) -> None:
    for call in (
        lambda m: m.get(ids if isinstance(ids, str) else "".join(ids), user_id="ada"),
        lambda m: m.forget(ids, user_id="ada", dry_run=True),
        lambda m: m.forget(key=key, user_id="ada", dry_run=True),
        lambda m: m.restore(ids, user_id="ada"),
        lambda m: m.history(key, user_id="ada"),
        lambda m: m.list(cursor=cursor),
        lambda m: m.list(user_id="ada", collections=ids),
    ):
        results = pair.all(call)
        if isinstance(results[0], type) or isinstance(results[1], type):
            assert results[0] is results[1]


@many
@given(text=anything)
def test_terms_and_text_queries(text: str) -> None:
    assert all(term and not term.isspace() for term in analyze(text))
    terms = query_terms(text)
    for lexer in ("terms", "basic"):
        indexed_text(text, lexer)
        query, _ = contains_query(terms, text, lexer)
        if query is not None:
            assert text_index.parse(query)  # never a syntax error


@many
@given(tree=values)
def test_the_parser_of_filters(tree: Any) -> None:
    try:
        parse_filter(tree)
    except AgentMemError:
        return


@settings(max_examples=max(20, EXAMPLES // 3))
@given(
    name=st.sampled_from(["search", "list", "forget", "get", "history", "count", "write"]),
    arguments=st.lists(
        st.sampled_from(["--where", "--as-of", "--user", "--json", "-k", "--key", "--metadata"])
        | anything,
        max_size=4,
    ),
    data=values,
)
def test_the_command_line(
    tmp_path_factory: pytest.TempPathFactory, name: str, arguments: list[str], data: Any
) -> None:
    place: Path = tmp_path_factory.getbasetemp() / "cli-fuzz"
    try:
        text = json.dumps(data)
    except ValueError:
        text = "{}"
    result = CliRunner().invoke(
        app,
        [name, *arguments, text],
        env={"AGENTMEM_URL": str(place), "AGENTMEM_EMBEDDER": "default"},
        input="",
    )
    acceptable = (type(None), SystemExit, AgentMemError)
    assert isinstance(result.exception, acceptable), repr(result.exception)


def test_a_filter_is_part_of_the_scope(pair: Pair) -> None:
    """A filter can only narrow what a user sees."""
    for where in (F("user_id") == "eve", ~(F("user_id") == "ada"), F("user_id").exists()):
        for page in pair.all(lambda m, where=where: m.list(user_id="ada", where=where)):
            assert all(document.user_id == "ada" for document in page.documents)
