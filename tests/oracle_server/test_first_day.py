"""What nobody could try without a server: run this first on a new one, and read the summary.

    AGENTMEM_TEST_ORACLE_DSN=system/password@host:1521/FREEPDB1 make oracle

A test fails where the engine relies on an answer, and only notes it where it does not.
"""

from __future__ import annotations

import array
import asyncio
from collections.abc import Callable
from typing import Any

import oracledb
import pytest

from agentmem import F, Memory
from agentmem.backends.oracle._errors import full_code
from agentmem.backends.oracle._text_query import EVERY_CHUNK
from tests import oracle_statements
from tests.support import texts

pytestmark = pytest.mark.oracle

Finding = Callable[[str], None]


async def code_of(connection: Any, sql: str, binds: dict[str, Any] | None = None) -> str:
    """Return the code of the error that a statement gives, ``"none"`` when it gives none."""
    try:
        await connection.execute(sql, binds or {})
    except oracledb.Error as error:
        return full_code(error)
    finally:
        await connection.rollback()
    return "none"


async def test_the_server(connection: Any, finding: Finding) -> None:
    finding(f"version {connection.version}")
    for name, sql in (
        ("MAX_STRING_SIZE", "SELECT value FROM v$parameter WHERE name = 'max_string_size'"),
        (
            "fine-grained access control",
            "SELECT value FROM v$option WHERE parameter = 'Fine-grained access control'",
        ),
    ):
        try:
            finding(f"{name}: {(await connection.fetchall(sql))[0][0]}")
        except oracledb.Error as error:
            finding(f"{name} cannot be seen ({full_code(error)})")


async def test_a_committed_row_is_in_the_text_index(memory: Memory, connection: Any) -> None:
    """The index is filled at commit although row-level security is on."""
    await memory.write("kestrel over the moor")
    rows = await connection.fetchall(
        f"SELECT COUNT(*) FROM mem_chunks c WHERE CONTAINS(c.search_text, '{EVERY_CHUNK}', 1) > 0"
    )
    assert rows == [(1,)]


async def test_words_of_every_script_are_found(memory: Memory) -> None:
    written = ["ERR-4711 broke", "東京タワーに行った", "café crème", "🦉 at night"]
    await memory.write(written)
    for query, expected in zip(("ERR 4711", "東京", "cafe", "🦉"), written, strict=True):
        result = await memory.search(query, k=1)
        assert texts(result) == [expected]
        assert result.hits[0].scores.lexical_rank == 1


async def test_no_row_crosses_between_tenants(memory: Memory, store: Any, connection: Any) -> None:
    await memory.write("a secret of acme")
    other = store.memory(memory._choices.embedder, {"tenant": "umbra"})
    async with other:
        assert texts(await other.search("secret")) == []
        assert await other.count() == 0
    sql = "UPDATE mem_documents SET tenant_id = 'umbra'"
    assert await code_of(connection, sql) == "ORA-28115"


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (F("tags") == "a", False),  # an array is not unwrapped by type()
        (F("tags").contains("a"), True),
        (F("tags").contains("z"), False),
        (F("list") == [1, {"b": [2]}], True),
        (F("list") == [1], False),
        (F("name").starts_with("te"), True),
        (F("name").starts_with(""), True),
        (F("empty") == "", True),
        (F("n") == 1.5, True),
        (F("n") == "1.5", False),
        (F("deep.x") == 1, True),
        (F("none").exists(), True),
        (~F("lost").exists(), True),
        (F("flag") == True, True),  # noqa: E712 - a filter
        (F("n").in_([1.5, 2]), True),
        (F("name").in_(["tea", ""]), True),
    ],
)
async def test_filters(memory: Memory, where: Any, found: bool) -> None:
    await memory.write(
        "x",
        metadata={
            "tags": ["a", "b"], "list": [1, {"b": [2]}], "name": "tea", "empty": "", "n": 1.5,
            "deep": {"x": 1}, "none": None, "flag": True,
        },
    )  # fmt: skip
    assert await memory.count(where=where) == found


async def test_the_plan_of_a_search(connection: Any, finding: Finding) -> None:
    """Note whether the text index is used inside the one statement."""
    statement = dict(oracle_statements.searches())["search_both"]
    sql = statement.sql.replace(":qv", "TO_VECTOR('[" + ",".join(["1"] * 64) + "]')")
    await connection.execute(
        "EXPLAIN PLAN FOR " + sql, {"tenant": "acme", "now": None, "tq": "{tea}"}
    )
    rows = await connection.fetchall("SELECT plan_table_output FROM TABLE(DBMS_XPLAN.DISPLAY)")
    plan = "\n".join(str(row[0]) for row in rows)
    finding(f"the text index is {'' if 'DOMAIN INDEX' in plan else 'NOT '}in the plan of a search")


async def test_a_vector_of_another_length(connection: Any, finding: Finding) -> None:
    sql = "UPDATE mem_chunks SET embedding = :v"
    code = await code_of(connection, sql, {"v": array.array("f", [1.0])})
    finding(f"a vector of another length gives {code}")


@pytest.mark.parametrize("query", ["{}", "{ }", "{" + "x" * 3000 + "}"])
async def test_odd_text_queries(connection: Any, finding: Finding, query: str) -> None:
    sql = "SELECT COUNT(*) FROM mem_chunks c WHERE CONTAINS(c.search_text, :tq, 1) > 0"
    finding(f"the text query {query[:10]!r} gives {await code_of(connection, sql, {'tq': query})}")


async def test_syntax_that_the_engine_does_without(connection: Any, finding: Finding) -> None:
    vector = {"v": array.array("f", [1.0] * 64)}
    for name, sql, binds in (
        (
            "FETCH APPROX with a bound number",
            "SELECT c.id FROM mem_chunks c ORDER BY VECTOR_DISTANCE(c.embedding, :v, COSINE) "
            "FETCH APPROX FIRST :n ROWS ONLY",
            {**vector, "n": 3},
        ),
        (
            "a text query with braces behind '$'",
            "SELECT c.id FROM mem_chunks c WHERE CONTAINS(c.search_text, '${walk}', 1) > 0",
            {},
        ),
    ):
        finding(f"{name}: {await code_of(connection, sql, binds)}")


async def test_cancelling_twice(memory: Memory) -> None:
    for steps in range(10):
        task = asyncio.create_task(memory.write(f"tea {steps}"))
        for _ in range(steps):
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await memory.write("at last")
    assert "at last" in texts(await memory.search("at last", k=3))


async def test_round_trips(memory: Memory, finding: Finding) -> None:
    """Note how many round trips a search takes here; the stand-in counts one."""
    counted: list[Any] = []
    pool = memory._open_parts().backend._database._lease.pool  # type: ignore[attr-defined]  # ours
    connection = await pool.acquire()
    connection.round_trip_callback = counted.append
    await pool.release(connection)
    await memory.search("tea")
    finding(f"a search takes {len(counted)} round trips")
