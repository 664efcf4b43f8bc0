"""The Oracle engine's filters agree with the reference, as far as the stand-in can tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given

from agentmem._clock import to_micros
from agentmem._filters import Filter, decode_metadata, encode_metadata, evaluate
from agentmem.backends.oracle._filters import FilterCompiler
from agentmem.backends.oracle._values import Bind, Typed, metadata_bind, time_bind
from tests.properties.test_filters import columns, documents, filters
from tests.standin import StandIn
from tests.standin.session import Session

_TABLE = """CREATE TABLE mem_rows (
  title VARCHAR2(64), user_id VARCHAR2(64), collection VARCHAR2(64), version NUMBER(9),
  created_at TIMESTAMP(6), valid_from TIMESTAMP(6), metadata JSON NOT NULL
)"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    server = StandIn()
    server.set_up([_TABLE])
    made = Session(server, "tester")
    yield made
    made.close()
    server.close()


def run(session: Session, sql: str, binds: Mapping[str, Bind]) -> Any:
    values = {n: bind.value if isinstance(bind, Typed) else bind for n, bind in binds.items()}
    types = {n: bind.type for n, bind in binds.items() if isinstance(bind, Typed)}
    return session.run(sql, values, types, True).rows


@given(metadata=documents, own=columns, tree=filters)
def test_oracle_agrees_with_the_reference(
    session: Session, metadata: dict[str, Any], own: dict[str, Any], tree: Filter
) -> None:
    run(session, "DELETE FROM mem_rows", {})
    row: dict[str, Bind] = {
        name: time_bind(to_micros(value)) if isinstance(value, datetime) else value
        for name, value in own.items()
    }
    row["metadata"] = metadata_bind(metadata)
    names = ", ".join(row)
    run(session, f"INSERT INTO mem_rows ({names}) VALUES (:{names.replace(', ', ', :')})", row)
    binds: dict[str, Bind] = {}
    condition = FilterCompiler("d", binds).compile(tree)
    found = run(session, f"SELECT COUNT(*) FROM mem_rows d WHERE {condition}", binds)
    expected = evaluate(tree, decode_metadata(encode_metadata(metadata)), own)
    assert found == [(int(expected),)]
