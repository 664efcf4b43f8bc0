"""Translates a statement from Oracle to DuckDB by its syntax tree.

Functions that the parser does not know are renamed first; then tables get the conditions of their
policies, and functions of Oracle become functions of DuckDB or of this package.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp

from tests.standin.catalog import Catalog
from tests.standin.errors import error, text_error

TENANT = "si_context"
"""The parameter that holds the tenant of the session."""

_FETCH = re.compile(r"FETCH\s+(?:APPROX|EXACT)\s+FIRST", re.IGNORECASE)
_JSON_EXISTS = re.compile(r"JSON_EXISTS\(([\w.]+), '([^']*)'(?: PASSING (:\w+) AS \"v\")?\)")
_JSON_VALUE = re.compile(
    r"JSON_VALUE\(([\w.]+), '([^']*)' RETURNING (VARCHAR2\(\d+\)|NUMBER) "
    r"NULL ON ERROR NULL ON EMPTY\)"
)
_JSON_QUERY = re.compile(r"JSON_QUERY\(([\w.]+), '([^']*)' RETURNING JSON NULL ON ERROR\)")
_JSON_TABLE = re.compile(
    r"JSON_TABLE\((:?[\w.]+), '([^']*)' COLUMNS\s+\(((?:[^()]|\([^()]*\))*)\)\) (\w+)"
)
_DICTIONARY = ("user_", "all_", "ctx_", "session_")
_MODEL = re.compile(
    r"(PREDICTION|VECTOR_EMBEDDING)\((\w+) USING (.+?) AS DATA1?(?:,\s*(.+?) AS DATA2)?\)",
    re.DOTALL,
)


@dataclass(slots=True)
class Translated:
    """A statement for DuckDB.

    Attributes
    ----------
    kind, table
        ``"SELECT"``, ``"INSERT"``, ``"UPDATE"`` or ``"DELETE"``, and what is changed.
    binds, parameters
        The names that the caller binds, and those in the translated text.
    models
        The models in the database that it runs.
    words
        Bind or literal of each CONTAINS.
    columns
        For a query, the Oracle type of each column where it is known; for a change, the name of
        the column that each bind is stored in.
    """

    sql: str
    kind: str
    table: str | None
    binds: set[str]
    words: list[tuple[str, bool]] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)
    stored: dict[str, str] = field(default_factory=dict)
    sets_text: bool = False
    parameters: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)


def translate(sql: str, catalog: Catalog) -> Translated:
    """Return the statement for DuckDB."""
    for function in re.findall(r"mem_upkeep\.(\w+)", sql):
        if f"FUNCTION {function}" not in catalog.packages.get("mem_upkeep", ""):
            raise error("ORA-00904", f"{function}: invalid identifier")
    binds = set(re.findall(r"(?<![\w'\"]):([A-Za-z]\w*)", _without_literals(sql)))
    tree = sqlglot.parse_one(_renamed(sql), read="oracle")
    kind = type(tree).__name__.upper()
    if kind not in ("INSERT", "UPDATE", "DELETE"):
        kind = "SELECT"
    target = tree.find(exp.Table).name.lower() if kind in ("INSERT", "UPDATE", "DELETE") else None  # type: ignore[union-attr]  # such statements have one
    result = Translated("", kind, target, binds)
    result.models = {match[2].lower() for match in _MODEL.finditer(sql)}
    _check_tables(tree, catalog)
    _stored(tree, result, catalog)
    _outputs(tree, result, catalog)
    _protect(tree, catalog, kind)
    tree = tree.transform(_functions(result, catalog))
    text = tree.sql(dialect="duckdb").replace("SI_RECURSIVE", "recursive := true")
    result.sql = text.replace(" FROM dual", "")
    result.parameters = set(re.findall(r"\$(\w+)", _without_literals(result.sql)))
    return result


def _without_literals(sql: str) -> str:
    return re.sub(r"'(?:[^']|'')*'", "''", sql)


def _renamed(sql: str) -> str:
    sql = _FETCH.sub("FETCH FIRST", sql)
    sql = _MODEL.sub(_model, sql)
    sql = _JSON_EXISTS.sub(
        lambda m: f"SI_JSON_EXISTS({m[1]}, '{m[2]}', {m[3] + '__json' if m[3] else 'NULL'})", sql
    )
    sql = _JSON_VALUE.sub(
        lambda m: f"SI_JSON_VALUE({m[1]}, '{m[2]}', '{m[3].replace('(', '').replace(')', '')}')",
        sql,
    )
    sql = _JSON_QUERY.sub(r"SI_JSON_QUERY(\1, '\2')", sql)
    sql = sql.replace(" JSON_EQUAL(", " SI_JSON_EQUAL(").replace("(JSON_EQUAL(", "(SI_JSON_EQUAL(")
    sql = re.sub(r"mem_upkeep\.(\w+)", r"SI_UPKEEP('\1')", sql)
    sql = sql.replace("SYS_EXTRACT_UTC(SYSTIMESTAMP)", "SI_NOW()")
    sql = sql.replace("DBMS_LOB.SUBSTR(", "SI_SUBSTR(").replace(" CONTAINS(", " SI_CONTAINS(")
    return _tables(sql)


def _model(match: re.Match[str]) -> str:
    arguments = ", ".join(part for part in (match[3], match[4]) if part)
    return f"SI_{match[1]}('{match[2]}', {arguments})"


def _tables(sql: str) -> str:
    """Turn each JSON_TABLE into a subquery over a function that gives rows."""
    for match in list(_JSON_TABLE.finditer(sql)):
        source, path, columns, alias = match.groups()
        specification = ";".join(_json_column(part) for part in columns.split(", "))
        rows = f"SI_ROWS({source}, '{path}', '{specification}')"
        sql = sql.replace(match[0], f"(SELECT UNNEST({rows}, SI_RECURSIVE) FROM dual) {alias}")
        if "|NUMBER|" in specification:
            sql = re.sub(rf"\b{alias}\.v = (:\w+)", rf"{alias}.v = \1__number", sql)
    return sql


def _json_column(part: str) -> str:
    if part.endswith("FOR ORDINALITY"):
        return f"{part.split()[0]}|ORDINALITY|$"
    name, kind, path = re.fullmatch(r"(\w+) (\w+(?:\(\d+\))?) PATH '([^']*)'", part).groups()  # type: ignore[union-attr]  # fails loudly
    return f"{name}|{kind.replace('(', '').replace(')', '')}|{path}"


def _check_tables(tree: exp.Expr, catalog: Catalog) -> None:
    known = {cte.alias.lower() for cte in tree.find_all(exp.CTE)} | {"dual"}
    for table in tree.find_all(exp.Table):
        name = table.name.lower()
        table.set("db", None)
        if name in known or name in catalog.tables or name.startswith(_DICTIONARY):
            continue
        raise error("ORA-00942", "table or view does not exist")


def _protect(tree: exp.Expr, catalog: Catalog, kind: str) -> None:
    """Add the conditions of the policies."""
    target = tree.this if kind in ("INSERT", "UPDATE", "DELETE") else None
    for table in list(tree.find_all(exp.Table)):
        inside = target is not None and (table is target or table.parent is target)
        condition = catalog.predicate(table.name.lower(), kind if inside else "SELECT")
        if condition is None:
            continue
        if not inside:
            alias = table.alias or table.name
            table.replace(
                sqlglot.parse_one(
                    f"SELECT * FROM {table.name} WHERE {condition}", read="oracle"
                ).subquery(alias)  # type: ignore[attr-defined]  # a query has it
            )
        elif kind in ("UPDATE", "DELETE"):
            tree.where(condition, dialect="oracle", copy=False)  # type: ignore[attr-defined]  # both have it


def _stored(tree: exp.Expr, result: Translated, catalog: Catalog) -> None:
    """Note which bind is stored in which column."""
    if isinstance(tree, exp.Insert) and isinstance(tree.this, exp.Schema):
        names = [column.name.lower() for column in tree.this.expressions]
        values = tree.expression.expressions[0].expressions
        pairs = zip(names, values, strict=True)
    elif isinstance(tree, exp.Update):
        pairs = zip(
            [e.this.name.lower() for e in tree.expressions],
            [e.expression for e in tree.expressions],
            strict=True,
        )
    else:
        return
    columns = catalog.tables[result.table or ""].columns
    for name, value in pairs:
        result.sets_text |= bool(catalog.text_index and name == catalog.text_index[1])
        if isinstance(value, exp.Placeholder):
            result.stored[value.name] = name
            if columns[name].kind == "VECTOR":
                value.replace(_cast(value.copy(), f"FLOAT[{columns[name].size}]"))


def _cast(value: exp.Expr, kind: str) -> exp.Expr:
    return exp.cast(value, exp.DataType.build(kind, dialect="duckdb"))


def _outputs(tree: exp.Expr, result: Translated, catalog: Catalog) -> None:
    if isinstance(tree, exp.Union):
        tree = tree.left
    if not isinstance(tree, exp.Select):
        return
    kinds = {c.name: c.kind for table in catalog.tables.values() for c in table.columns.values()}
    for projection in tree.expressions:
        plain = projection.unalias()
        name = plain.name.lower() if isinstance(plain, exp.Column) else None
        embedded = isinstance(plain, exp.Anonymous) and plain.name.upper() == "SI_VECTOR_EMBEDDING"
        result.outputs.append("VECTOR" if embedded else kinds.get(name or ""))


def _functions(result: Translated, catalog: Catalog) -> Callable[[exp.Expr], exp.Expr]:
    """Return a function that translates one node."""

    def one(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.DPipe):
            return exp.Anonymous(this="CONCAT", expressions=[node.this, node.expression])
        if not isinstance(node, exp.Anonymous):
            return node
        name = node.name.upper()
        if name == "SI_CONTAINS":
            return _score(node, _words(node, result, catalog))
        if name == "SCORE":
            return _score(node, len(result.words) or 1)
        if name == "VECTOR_DISTANCE":
            return _distance(node, catalog)
        if name == "SYS_CONTEXT":
            return exp.Placeholder(this=TENANT)
        return node

    return one


def _words(node: exp.Anonymous, result: Translated, catalog: Catalog) -> int:
    column, words, _ = node.expressions
    if catalog.text_index is None or column.name.lower() != catalog.text_index[1]:
        raise text_error("DRG-10599", "column is not indexed")
    result.words.append((words.name, isinstance(words, exp.Placeholder)))
    return len(result.words)


def _score(node: exp.Expr, number: int) -> exp.Expr:
    """Return the score of the row of the query around, whose FROM has one table."""
    query = node.find_ancestor(exp.Select)
    assert query
    alias = query.args["from_"].this.alias_or_name
    key = sqlglot.parse_one(f"CONCAT({alias}.tenant_id, '/', {alias}.id)", read="duckdb")
    return exp.func("SI_SCORE", key, exp.Placeholder(this=f"si_words{number}"))


def _distance(node: exp.Anonymous, catalog: Catalog) -> exp.Expr:
    column, other, metric = node.expressions
    if metric.name.upper() != "COSINE":
        raise error("ORA-51806", f"the stand-in knows no distance {metric.name}")
    size = next(
        c.size
        for t in catalog.tables.values()
        for c in t.columns.values()
        if c.name == column.name.lower()
    )
    kind = f"DOUBLE[{size}]"
    return exp.func("ARRAY_COSINE_DISTANCE", _cast(column, kind), _cast(other, kind))
