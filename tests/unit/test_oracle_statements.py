"""The text of the Oracle engine's statements: parsed, checked for their structure, kept as files.

After a change that is meant, write the files again with ``python -m tests.golden`` and
read the difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import parseora
import pytest

from agentmem import F
from agentmem.backends.base import Scope
from agentmem.backends.oracle._filters import FilterCompiler
from agentmem.backends.oracle._search import search_statement
from tests import oracle_statements as statements

GOLDEN = Path(__file__).parents[1] / "golden" / "oracle"
# Kinds of statements that the parser keeps as they are, so that it proves nothing about them.
NOT_MODELLED = re.compile(r"CREATE (USER|VECTOR INDEX|OR REPLACE CONTEXT)|DROP CONTEXT")
# The only texts that may stand in a statement; everything of a caller's is bound.
LITERALS = re.compile(
    r"""\$(\."[A-Za-z_$-]+")*(\[\*\])?(\.type\(\))?(\?\(@.*\))?      # paths of checked names
    |object|array|string|number|double|float|boolean|null|true|false  # JSON types
    |mem_documents|mem_chunks|\{zqall\}|check|0                       # constants of ours
    """,
    re.VERBOSE,
)

EVERYTHING = list(statements.everything())


def for_parser(sql: str) -> str:
    """Replace what the parser does not know yet."""
    sql = re.sub(r"FETCH (APPROX|EXACT) FIRST", "FETCH FIRST", sql)
    return re.sub(r"VECTOR\(\d+, FLOAT32\)", "VECTOR", sql)


@pytest.mark.parametrize(("name", "sql"), EVERYTHING, ids=[name for name, _ in EVERYTHING])
def test_it_parses(name: str, sql: str) -> None:
    block = re.match(r"BEGIN|CREATE OR REPLACE (PACKAGE|FUNCTION)", sql)
    end = "\n/\n" if block else ";\n"
    for parsed in parseora.parse(for_parser(sql) + end, version="26ai"):
        assert not parsed["errors"], f"{parsed['errors']}\n{sql}"
        if not NOT_MODELLED.match(sql):
            assert not parsed["warnings"], f"{parsed['warnings']}\n{sql}"


def test_the_parser_finds_faults() -> None:
    for wrong in ("SELECT FROM WHERE", "SELECT a FROM t WHERE (a = 1", "UPDATE SET a = 1"):
        assert any(parsed["errors"] for parsed in parseora.parse(f"{wrong};\n", version="26ai"))


def bound() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for name, statement in statements.searches():
        yield name, statement.sql, statement.binds
    yield from statements.selections()


BOUND = list(bound())


@pytest.mark.parametrize(("name", "sql", "binds"), BOUND, ids=[row[0] for row in BOUND])
def test_placeholders_and_binds_are_the_same(name: str, sql: str, binds: Mapping[str, Any]) -> None:
    without_texts = re.sub(r"'[^']*'", "''", sql)
    assert set(re.findall(r":([a-z]\w*)", without_texts)) == binds.keys()


@pytest.mark.parametrize(("name", "sql", "binds"), BOUND, ids=[row[0] for row in BOUND])
def test_no_text_of_a_caller_is_in_the_statement(
    name: str, sql: str, binds: Mapping[str, Any]
) -> None:
    for text in re.findall(r"'([^']*)'", sql):
        assert LITERALS.fullmatch(text), text


@pytest.mark.parametrize(("name", "sql", "binds"), BOUND, ids=[row[0] for row in BOUND])
def test_every_table_is_restricted_to_the_tenant(
    name: str, sql: str, binds: Mapping[str, Any]
) -> None:
    tables = re.findall(r"mem_(?:documents|chunks) (\w+)", sql)
    assert tables
    for alias in tables:
        assert f"{alias}.tenant_id = :tenant" in sql


@pytest.mark.parametrize(
    ("name", "sql"),
    [(name, sql) for name, sql in statements.constants() if "mem_meta" not in sql],
)
def test_every_constant_statement_names_the_tenant(name: str, sql: str) -> None:
    if name.startswith("doctor_count") or "dual" in sql or "session_privs" in sql or "$" in sql:
        return  # these look for rows of others on purpose, or at no table of ours
    assert ":tenant" in sql


SEARCHES = list(statements.searches())


@pytest.mark.parametrize(("name", "statement"), SEARCHES, ids=[name for name, _ in SEARCHES])
def test_the_scope_is_the_same_in_both_pools(name: str, statement: Any) -> None:
    sql = statement.sql
    scopes = [
        re.sub(r"\s+AND (c\.embedding IS NOT NULL|CONTAINS\(.*?\) > 0)", "", text).strip()
        for text in re.findall(r"FROM mem_chunks c\n    WHERE (.*?)\n    ORDER BY", sql, re.DOTALL)
    ]
    assert len(scopes) == ("vec AS" in sql) + ("lex AS" in sql)
    assert len(set(scopes)) == 1
    assert "c.visible_from" in scopes[0] or "c.as_of_from" in scopes[0]


@pytest.mark.parametrize(("name", "statement"), SEARCHES, ids=[name for name, _ in SEARCHES])
def test_the_structure_of_a_search(name: str, statement: Any) -> None:
    sql = statement.sql
    both = "vec AS" in sql and "lex AS" in sql
    assert sql.count("FULL OUTER JOIN") == both
    assert sql.count("AS vector_rank\n  FROM") == ("vec AS" in sql)
    assert sql.count("ROW_NUMBER()") == ("vec AS" in sql) + 1  # and the place among the fused
    assert sql.count("DENSE_RANK()") == ("lex AS" in sql)
    assert sql.count("CONTAINS(") == ("lex AS" in sql)
    if "vec AS" in sql:
        approximate = name == "search_approx"
        assert f"FETCH {'APPROX' if approximate else 'EXACT'} FIRST 100 ROWS ONLY" in sql
    # Only the rows that are left are reranked, and content is read in the last block alone.
    assert ("PREDICTION" in sql) == ("scored AS" in sql)
    before, last = sql.rsplit("\nSELECT k.id", 1)
    assert "c.codes" in last
    assert "c.codes" not in before


def test_an_index_is_used_only_when_the_distance_comes_first() -> None:
    sql = dict(statements.searches())["search_approx"].sql
    inner = sql[sql.index("SELECT c.id") : sql.index("FETCH APPROX")]
    assert "SELECT c.id, VECTOR_DISTANCE(c.embedding, :qv, COSINE) AS distance" in inner
    assert inner.rstrip().endswith("ORDER BY distance, c.id")


def test_the_text_does_not_depend_on_values() -> None:
    one = statements.request(terms=("tea",))
    other = statements.request(terms=("coffee", "milk"))
    scope = Scope(**statements.SCOPE | {"user_id": "a", "collections": ("x",)})
    another = Scope(**statements.SCOPE | {"user_id": "b", "collections": ("y", "z")})
    texts = {
        made.sql
        for made in (
            search_statement(scope, one, statements.META),
            search_statement(another, other, statements.META),
        )
        if made
    }
    assert len(texts) == 1


@pytest.mark.parametrize(("name", "sql", "binds"), BOUND, ids=[row[0] for row in BOUND])
def test_every_order_ends_in_a_unique_key(name: str, sql: str, binds: Mapping[str, Any]) -> None:
    for order in re.findall(r"ORDER BY ([^)\n]*)\n\s*FETCH", sql):
        assert re.search(r"(\.id|document_id)$", order.strip()), order


@pytest.mark.parametrize(("name", "sql"), list(statements.golden()))
def test_golden(name: str, sql: str) -> None:
    path = GOLDEN / f"{name}.sql"
    assert path.is_file(), f"{path} is missing; run python -m tests.golden"
    assert path.read_text(encoding="utf-8") == f"{sql.rstrip()}\n"


def test_no_golden_file_is_left_over() -> None:
    names = {name for name, _ in statements.golden()}
    assert {path.stem for path in GOLDEN.glob("*.sql")} == names


@pytest.mark.parametrize(
    "where", [F("a") == "", F("a") > "", F("a").starts_with(""), F("a").in_([""]), F("title") >= ""]
)
def test_an_empty_text_is_never_bound(where: Any) -> None:
    """It would be NULL in the database."""
    binds: dict[str, Any] = {}
    FilterCompiler("c", binds).compile(where)
    assert binds == {}
