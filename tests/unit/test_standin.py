"""The stand-in is as strict as driver and server, so that code that passes on it has earned it."""

from __future__ import annotations

import array
import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import oracledb
import pytest

from agentmem.backends.oracle._schema import steps
from tests.databases import StandInStore, plan_for
from tests.standin import json_path, text_index
from tests.support import WordEmbedder

MOMENT = datetime(2025, 6, 1, 12, 30, 15, 123456)
VECTOR = array.array("f", [1.0] + [0.0] * 63)
TYPES = {
    "created_at": oracledb.DB_TYPE_TIMESTAMP,
    "metadata": oracledb.DB_TYPE_JSON,
    "content": oracledb.DB_TYPE_CLOB,
}
INSERT = """INSERT INTO mem_documents (tenant_id, document_id, version, collection, metadata,
  created_at, visible_from, visible_until, as_of_from, as_of_until, is_head, live_identity,
  identity, fingerprint, chunks, first_created_at, content)
VALUES (:tenant, :document_id, 1, 'c', :metadata, :created_at, :created_at, :created_at,
  :created_at, :created_at, 1, :live, 'i', 'f', 1, :created_at, :content)"""
CHUNK = """INSERT INTO mem_chunks (tenant_id, document_id, version, collection, metadata,
  created_at, visible_from, visible_until, as_of_from, as_of_until, id, chunk_index, span_start,
  span_end, tokens, embedding, text, search_text)
VALUES (:tenant, 'd', 1, 'c', :metadata, :created_at, :created_at, :created_at, :created_at,
  :created_at, :id, 0, 0, 1, 1, :embedding, 'x', :words)"""
FIND = "SELECT c.id FROM mem_chunks c WHERE CONTAINS(c.search_text, :tq, 1) > 0 ORDER BY c.id"


@pytest.fixture
async def connection(standin: StandInStore) -> AsyncIterator[Any]:
    plan = plan_for(WordEmbedder())
    standin.server.set_up(s for step in steps(plan) for s in step.statements)
    async with oracledb.connect_async(user="mem_app", password="x", dsn="d") as made:
        await made.callproc("mem_owner.mem_session.set_tenant", ["acme"])
        yield made


def document(**changes: Any) -> dict[str, Any]:
    row = {
        "tenant": "acme", "document_id": "d", "metadata": {"n": 1}, "created_at": MOMENT,
        "live": "l", "content": "text",
    }  # fmt: skip
    return row | changes


async def insert(connection: Any, sql: str = INSERT, types: Any = None, **changes: Any) -> Any:
    cursor = connection.cursor()
    cursor.setinputsizes(**(TYPES if types is None else types))
    await cursor.execute(sql, document(**changes))
    return cursor


async def chunk(connection: Any, words: str, **changes: Any) -> None:
    cursor = connection.cursor()
    cursor.setinputsizes(metadata=oracledb.DB_TYPE_JSON, created_at=oracledb.DB_TYPE_TIMESTAMP)
    row = {
        "tenant": "acme", "metadata": {}, "created_at": MOMENT, "id": "d:1:0",
        "embedding": VECTOR, "words": words,
    }  # fmt: skip
    await cursor.execute(CHUNK, row | changes)


def code_of(caught: pytest.ExceptionInfo[oracledb.Error]) -> str:
    return str(caught.value.args[0].full_code)


# ------------------------------------------------------------------------- binds


@pytest.mark.parametrize("value", [{"a": 1}, ["a"], np.zeros(3), uuid.uuid4(), {1, 2}])
async def test_values_without_a_type_are_refused(connection: Any, value: Any) -> None:
    with pytest.raises(oracledb.NotSupportedError) as caught:
        await connection.fetchall("SELECT :v AS v FROM dual", {"v": value})
    assert code_of(caught) == "DPY-3002"


async def test_a_time_without_a_type_loses_its_microseconds(connection: Any) -> None:
    sql = "SELECT :v AS v FROM dual"
    assert await connection.fetchall(sql, {"v": MOMENT}) == [(MOMENT.replace(microsecond=0),)]
    cursor = connection.cursor()
    cursor.setinputsizes(v=oracledb.DB_TYPE_TIMESTAMP)
    await cursor.execute(sql, {"v": MOMENT})
    assert await cursor.fetchall() == [(MOMENT,)]
    cursor.setinputsizes(v=oracledb.DB_TYPE_TIMESTAMP)
    await cursor.execute(sql, {"v": MOMENT.replace(tzinfo=UTC)})
    assert await cursor.fetchall() == [(MOMENT,)]


async def test_declared_types_last_for_one_statement(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.setinputsizes(v=oracledb.DB_TYPE_TIMESTAMP)
    await cursor.execute("SELECT :v AS v FROM dual", {"v": MOMENT})
    await cursor.execute("SELECT :v AS v FROM dual", {"v": MOMENT})
    assert await cursor.fetchall() == [(MOMENT.replace(microsecond=0),)]


async def test_an_empty_text_is_null(connection: Any) -> None:
    assert await connection.fetchall("SELECT :v AS v FROM dual", {"v": ""}) == [(None,)]


async def test_null_is_nothing_when_texts_are_joined(connection: Any) -> None:
    assert await connection.fetchall("SELECT :v || 'b' AS v FROM dual", {"v": ""}) == [("b",)]


async def test_numbers_in_json_are_decimals(connection: Any) -> None:
    await insert(connection, metadata={"n": 1, "x": 0.1, "l": [2], "e": ""})
    rows = await connection.fetchall("SELECT d.metadata FROM mem_documents d")
    assert rows == [({"n": Decimal(1), "x": Decimal("0.1"), "l": [Decimal(2)], "e": ""},)]
    assert isinstance(rows[0][0]["n"], Decimal)


@pytest.mark.parametrize("text", ["x" * 4001, "ä" * 2001])
async def test_a_long_text_needs_a_type(connection: Any, text: str) -> None:
    with pytest.raises(oracledb.DatabaseError) as caught:
        await insert(connection, types={k: v for k, v in TYPES.items() if k != "content"},
                     content=text)  # fmt: skip
    assert code_of(caught) == "ORA-01461"
    await connection.rollback()
    await insert(connection, content=text)


@pytest.mark.parametrize(("binds", "code"), [({"a": 1, "b": 2}, "DPY-4008"), ({}, "DPY-4010")])
async def test_binds_must_be_the_placeholders(
    connection: Any, binds: dict[str, Any], code: str
) -> None:
    with pytest.raises(oracledb.Error) as caught:
        await connection.fetchall("SELECT :a AS v FROM dual", binds)
    assert code_of(caught) == code


async def test_a_type_for_no_placeholder_is_refused(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.setinputsizes(b=oracledb.DB_TYPE_JSON)
    with pytest.raises(oracledb.Error):
        await cursor.execute("SELECT :a AS v FROM dual", {"a": 1})


async def test_reserved_words_cannot_be_bound(connection: Any) -> None:
    with pytest.raises(oracledb.DatabaseError) as caught:
        await connection.fetchall("SELECT :user AS v FROM dual", {"user": 1})
    assert code_of(caught) == "ORA-01745"


async def test_a_vector_of_another_length_is_refused(connection: Any) -> None:
    with pytest.raises(oracledb.DatabaseError) as caught:
        await chunk(connection, "tea", embedding=array.array("f", [1.0]))
    assert code_of(caught) == "ORA-51803"


async def test_vectors_come_back_as_arrays(connection: Any) -> None:
    await chunk(connection, "tea")
    rows = await connection.fetchall("SELECT c.embedding FROM mem_chunks c")
    assert rows == [(VECTOR,)]
    assert rows[0][0].typecode == "f"


async def test_long_columns_come_back_as_lobs_unless_told(connection: Any) -> None:
    await insert(connection)
    sql = "SELECT d.content FROM mem_documents d"
    lob = (await connection.fetchall(sql))[0][0]
    assert not isinstance(lob, str)
    assert await lob.read() == "text"
    assert await connection.fetchall(sql, fetch_lobs=False) == [("text",)]


# ------------------------------------------------------------------------- rows


async def test_columns_are_checked(connection: Any) -> None:
    with pytest.raises(oracledb.DatabaseError) as caught:
        await insert(connection, live="x" * 41)
    assert code_of(caught) == "ORA-12899"
    with pytest.raises(oracledb.IntegrityError) as missing:
        await insert(connection, content="")
    assert code_of(missing) == "ORA-01400"


async def test_keys_are_unique(connection: Any) -> None:
    await insert(connection)
    with pytest.raises(oracledb.IntegrityError) as caught:
        await insert(connection, live=None)
    assert code_of(caught) == "ORA-00001"


async def test_the_offset_tells_which_row_of_many_failed(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.setinputsizes(**TYPES)
    rows = [document(document_id=str(n), live="same" if n > 2 else None) for n in range(6)]
    with pytest.raises(oracledb.IntegrityError) as caught:
        await cursor.executemany(INSERT, rows)
    assert caught.value.args[0].offset == 4


async def test_keys_that_are_all_null_do_not_collide(connection: Any) -> None:
    await insert(connection, live=None)
    await insert(connection, live=None, document_id="e")


async def test_a_missing_table(connection: Any) -> None:
    with pytest.raises(oracledb.DatabaseError) as caught:
        await connection.fetchall("SELECT 1 AS one FROM nowhere n")
    assert code_of(caught) == "ORA-00942"


async def test_work_is_seen_by_others_after_the_commit(connection: Any) -> None:
    await insert(connection)
    sql = "SELECT COUNT(*) FROM mem_documents d"
    async with oracledb.connect_async(user="mem_app", password="x", dsn="d") as other:
        await other.callproc("mem_owner.mem_session.set_tenant", ["acme"])
        assert await other.fetchall(sql) == [(0,)]
        await connection.commit()
        assert await other.fetchall(sql) == [(1,)]


async def test_writers_wait_for_each_other(connection: Any) -> None:
    await insert(connection)
    async with oracledb.connect_async(user="mem_app", password="x", dsn="d") as other:
        await other.callproc("mem_owner.mem_session.set_tenant", ["acme"])
        second = asyncio.create_task(insert(other, document_id="e", live="e"))
        await asyncio.sleep(0.05)
        assert not second.done()
        await connection.commit()
        await second


# ------------------------------------------------------------------------- security


async def test_without_a_tenant_there_are_no_rows(connection: Any) -> None:
    await insert(connection)
    await connection.callproc("mem_owner.mem_session.clear_tenant", [])
    assert await connection.fetchall("SELECT COUNT(*) FROM mem_documents d") == [(0,)]


async def test_a_row_of_another_tenant_is_refused(connection: Any) -> None:
    with pytest.raises(oracledb.DatabaseError) as caught:
        await insert(connection, tenant="umbra")
    assert code_of(caught) == "ORA-28115"


@pytest.mark.parametrize(
    "sql", ["UPDATE mem_documents SET version = 2", "DELETE FROM mem_documents"]
)
async def test_rows_of_another_tenant_are_not_changed(connection: Any, sql: str) -> None:
    await insert(connection)
    await connection.callproc("mem_owner.mem_session.set_tenant", ["umbra"])
    cursor = connection.cursor()
    await cursor.execute(sql)
    assert cursor.rowcount == 0


async def test_a_tenant_is_required(connection: Any) -> None:
    with pytest.raises(oracledb.DatabaseError) as caught:
        await connection.callproc("mem_owner.mem_session.set_tenant", [None])
    assert code_of(caught) == "ORA-20001"


async def test_only_the_named_package_can_set_the_context(
    connection: Any, standin: StandInStore
) -> None:
    standin.server.set_up(["CREATE OR REPLACE CONTEXT mem_owner_ctx USING mem_owner.other"])
    with pytest.raises(oracledb.DatabaseError) as caught:
        await connection.callproc("mem_owner.mem_session.set_tenant", ["acme"])
    assert code_of(caught) == "ORA-01031"


async def test_a_session_keeps_its_context_when_it_is_released(standin: StandInStore) -> None:
    plan = plan_for(WordEmbedder())
    standin.server.set_up(s for step in steps(plan) for s in step.statements)
    pool = oracledb.create_pool_async(user="u", password="p", dsn="d", min=1, max=1)
    connection: Any = await pool.acquire()
    await connection.callproc("mem_owner.mem_session.set_tenant", ["acme"])
    await pool.release(connection)
    again: Any = await pool.acquire()
    assert again.session.tenant == "acme"
    await pool.close(force=True)


# ------------------------------------------------------------------------- text


async def test_rows_are_found_by_words_after_the_commit(connection: Any) -> None:
    await chunk(connection, "tea milk")
    assert await connection.fetchall(FIND, {"tq": "{tea}"}) == []
    await connection.commit()
    assert await connection.fetchall(FIND, {"tq": "{tea}"}) == [("d:1:0",)]


async def test_an_updated_row_is_not_found_before_the_commit(connection: Any) -> None:
    await chunk(connection, "tea")
    await connection.commit()
    await connection.execute("UPDATE mem_chunks SET search_text = :t", {"t": "coffee"})
    assert await connection.fetchall(FIND, {"tq": "{tea} , {coffee}"}) == []
    await connection.commit()
    assert await connection.fetchall(FIND, {"tq": "{coffee}"}) == [("d:1:0",)]


async def test_a_deleted_row_is_gone_at_once(connection: Any) -> None:
    await chunk(connection, "tea")
    await connection.commit()
    await connection.execute("DELETE FROM mem_chunks")
    assert await connection.fetchall(FIND, {"tq": "{tea}"}) == []


async def test_a_column_without_an_index_cannot_be_searched(connection: Any) -> None:
    with pytest.raises(oracledb.DatabaseError, match="DRG-10599"):
        await connection.fetchall(FIND.replace("search_text", "text"), {"tq": "{tea}"})


@pytest.mark.parametrize(
    "query", ["", None, "near", "tea & milk", "a -b", "(tea", "{tea", "tea}", "50%", ",", "{a} ,"]
)
def test_what_is_an_operator_is_refused(query: str | None) -> None:
    with pytest.raises(oracledb.DatabaseError, match="DRG-50901"):
        text_index.parse(query)


@pytest.mark.parametrize(
    ("query", "phrases"),
    [
        ("{near} , {a&b}", [["NEAR"], ["A", "B"]]),
        ("tea milk", [["TEA", "MILK"]]),
        ("{café}", [["CAFE"]]),
        ("{a}}b}", [["A", "B"]]),
    ],
)
def test_the_grammar(query: str, phrases: list[list[str]]) -> None:
    assert text_index.parse(query) == phrases


def test_more_words_score_higher() -> None:
    index = text_index.TextIndex()
    index.put("both", "tea milk")
    index.put("often", "tea tea tea tea tea tea")
    scores = index.search("{tea} , {milk}")
    assert scores["both"] > scores["often"] >= 1
    assert index.search("{sugar}") == {}


# ------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    ("document", "path", "value", "found"),
    [
        ({"a": [1, 2]}, '$."a"?(@ == $v)', 2, True),  # an array is unwrapped
        ({"a": [{"b": 1}]}, '$."a"."b"', None, True),
        ({"a": "5"}, '$."a"?(@ == $v)', 5, True),  # text and number are compared
        ({"a": None}, '$."a"?(@ == null)', None, True),
        ({"a": ""}, '$."a"?(@ == "")', None, True),
        ({"a": "x"}, '$."a"?(@ == $v)', None, False),
        ({"a": True}, '$."a"?(@ == $v)', 1, False),
        ({"a": "tea"}, '$."a"?(@ starts with $v)', "te", True),
        ({"a": 1}, '$."b"', None, False),
    ],
)
def test_paths(document: Any, path: str, value: Any, found: bool) -> None:
    assert bool(json_path.select(document, path, value)) is found


def test_the_type_of_an_array_is_array() -> None:
    assert json_path.json_value('{"a":["x"]}', '$."a".type()', "VARCHAR220") == "array"
    assert json_path.json_value('{"a":["x"]}', '$."a"', "VARCHAR24000") is None


# ------------------------------------------------------------------------- faults


async def test_unknown_arguments_of_a_pool_are_refused(standin: StandInStore) -> None:
    arguments: dict[str, Any] = {"user": "u", "maximum": 3}
    with pytest.raises(TypeError, match="maximum"):
        oracledb.create_pool_async(**arguments)


async def test_a_pool_needs_a_running_loop(standin: StandInStore) -> None:
    with pytest.raises(RuntimeError):
        await asyncio.to_thread(oracledb.create_pool_async, user="u")


async def test_faults_are_raised_before_or_after_the_work(
    connection: Any, standin: StandInStore
) -> None:
    standin.server.fail_next("ORA-00060")
    with pytest.raises(oracledb.DatabaseError):
        await insert(connection)
    assert await connection.fetchall("SELECT COUNT(*) FROM mem_documents d") == [(0,)]
    standin.server.fail_next("ORA-00060", after=True)
    with pytest.raises(oracledb.DatabaseError):
        await insert(connection)
    assert await connection.fetchall("SELECT COUNT(*) FROM mem_documents d") == [(1,)]


async def test_a_dead_session_stays_dead(connection: Any, standin: StandInStore) -> None:
    standin.server.kill_sessions()
    for code in ("DPY-4011", "DPY-1001"):
        with pytest.raises(oracledb.Error) as caught:
            await connection.ping()
        assert code_of(caught) == code


async def test_a_slow_call_times_out(connection: Any, standin: StandInStore) -> None:
    connection.call_timeout = 20
    standin.server.delay = 1.0
    with pytest.raises(oracledb.Error) as caught:
        await connection.ping()
    assert code_of(caught) == "DPY-4024"
    standin.server.delay = 0.0
