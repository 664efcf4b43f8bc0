"""The SQLite compiler agrees with the reference evaluator on everything."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem._clock import to_micros
from agentmem._filters import (
    And,
    Comparison,
    Filter,
    Not,
    Operator,
    Or,
    canonical_json,
    decode_metadata,
    encode_metadata,
    evaluate,
    parse_filter,
    to_json,
)
from agentmem._filters.values import MAX_FLOAT, MIN_FLOAT
from agentmem.backends.embedded._filters import compile_filter

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
# A small pool, so that stored and wanted values meet often.
SCALARS: list[Any] = [
    None, True, False, 0, 1, 1.0, -0.0, 0.5, -1, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, 1e125,
    0.1, 0.30000000000000004, 1e-129, "", "1", "true", "note", "Note", "no%", "no_", "it's", '"q"',
    "é", "e\u0301", "日本語", "🦉", "null", NOON, NOON + timedelta(microseconds=1),
    NOON.astimezone(timezone(timedelta(hours=9))),
]  # fmt: skip
floats = st.floats(-MAX_FLOAT, MAX_FLOAT).filter(lambda x: not x or abs(x) >= MIN_FLOAT)
scalars = st.sampled_from(SCALARS) | floats
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=4,
)
names = st.sampled_from(["a", "b", "a.b", "a-b", "metadata.title", "x_1"])
keys = st.sampled_from(["a", "b", "a-b", "title", "x_1"])
documents = st.dictionaries(keys, values, max_size=4)
columns = st.fixed_dictionaries(
    {
        "title": st.sampled_from([None, "note", "no%", "1"]),
        "user_id": st.sampled_from([None, "ada"]),
        "collection": st.sampled_from(["note", "1"]),
        "version": st.sampled_from([1, 2]),
        "created_at": st.sampled_from([NOON, NOON + timedelta(days=1)]),
        "valid_from": st.sampled_from([None, NOON]),
    }
)
fields = names | st.sampled_from(["title", "user_id", "version", "created_at", "valid_from"])
ordered = st.sampled_from(
    [v for v in SCALARS if isinstance(v, (int, float, str, datetime)) and not isinstance(v, bool)]
)
comparisons = st.one_of(
    st.builds(
        Comparison, fields, st.sampled_from([Operator.EQ, Operator.NE, Operator.CONTAINS]), values
    ),
    st.builds(
        Comparison,
        fields,
        st.sampled_from([Operator.IN, Operator.NIN]),
        st.lists(values, max_size=4),
    ),
    st.builds(
        Comparison,
        fields,
        st.sampled_from([Operator.GT, Operator.GTE, Operator.LT, Operator.LTE]),
        ordered,
    ),
    st.builds(Comparison, fields, st.just(Operator.EXISTS), st.booleans()),
    st.builds(
        Comparison, fields, st.just(Operator.STARTS_WITH), st.sampled_from(["", "no", "no%", "é"])
    ),
)
filters = st.recursive(
    comparisons,
    lambda inner: (
        st.builds(And, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Not, inner)
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def connection() -> Iterator[apsw.Connection]:
    with apsw.Connection(":memory:") as connection:
        connection.execute(
            "CREATE TABLE documents (document_id TEXT, title TEXT, user_id TEXT, collection TEXT, "
            "version INTEGER, created_at INTEGER, valid_from INTEGER, metadata TEXT) STRICT"
        )
        yield connection


def in_sqlite(
    connection: apsw.Connection, tree: Filter, metadata: dict[str, Any], own: dict[str, Any]
) -> object:
    connection.execute("DELETE FROM documents")
    stored = [to_micros(v) if isinstance(v, datetime) else v for v in own.values()]
    connection.execute(
        f"INSERT INTO documents ({', '.join(own)}, metadata) VALUES ({'?, ' * len(own)} ?)",
        (*stored, canonical_json(encode_metadata(metadata))),
    )
    compiled = compile_filter(tree)
    return connection.execute(f"SELECT {compiled.sql} FROM documents d", compiled.params).get


@given(tree=filters, metadata=documents, own=columns)
def test_sqlite_agrees_with_the_reference(
    connection: apsw.Connection, tree: Filter, metadata: dict[str, Any], own: dict[str, Any]
) -> None:
    expected = evaluate(tree, decode_metadata(encode_metadata(metadata)), own)
    assert in_sqlite(connection, tree, metadata, own) == int(expected)


@given(tree=filters, metadata=documents, own=columns)
def test_not_is_the_exact_complement(
    connection: apsw.Connection, tree: Filter, metadata: dict[str, Any], own: dict[str, Any]
) -> None:
    assert evaluate(~tree, metadata, own) is not evaluate(tree, metadata, own)
    assert in_sqlite(connection, ~tree, metadata, own) != in_sqlite(connection, tree, metadata, own)


@given(tree=filters, metadata=documents, own=columns)
def test_the_json_form_means_the_same(
    tree: Filter, metadata: dict[str, Any], own: dict[str, Any]
) -> None:
    again = parse_filter(to_json(tree))
    assert again is not None
    assert to_json(again) == to_json(tree)
    assert evaluate(again, metadata, own) == evaluate(tree, metadata, own)
