"""Compiles a filter to SQLite. Every compiled condition is 0 or 1, never NULL.

Metadata is stored as canonical JSON, so equality of lists and objects is equality of text. A value
of a filter is always a bound parameter, and so is the path to a field. Numbers with a fraction are
bound as JSON text and read by the same code as the stored ones, so that both are rounded alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from agentmem._clock import to_micros
from agentmem._filters import And, Comparison, Filter, Not, Operator, Or, canonical_json
from agentmem._filters.values import (
    DATETIME,
    NUMBER_COLUMNS,
    TIME_COLUMNS,
    encode_value,
    fits_column,
)
from agentmem.errors import FilterError

Parameters: TypeAlias = tuple[Any, ...]

_COLUMNS = {"id": "document_id"}
_SIGNS = {Operator.GT: ">", Operator.GTE: ">=", Operator.LT: "<", Operator.LTE: "<="}
_IS_NUMBER = "{type} IN ('integer', 'real')"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A condition and the values bound to it, in order."""

    sql: str
    params: Parameters = ()


@dataclass(frozen=True, slots=True)
class _Value:
    """SQL for a stored value and for its JSON type, with what each of them binds."""

    type: str
    sql: str
    params: Parameters


_TRUE, _FALSE = Compiled("1"), Compiled("0")


def compile_filter(tree: Filter, *, table: str = "d") -> Compiled:
    """Return the condition over ``documents AS <table>`` that the filter stands for."""
    if isinstance(tree, And):
        return _joined("AND", [compile_filter(part, table=table) for part in tree.parts], _TRUE)
    if isinstance(tree, Or):
        return _joined("OR", [compile_filter(part, table=table) for part in tree.parts], _FALSE)
    if isinstance(tree, Not):
        part = compile_filter(tree.part, table=table)
        return Compiled(f"(NOT {part.sql})", part.params)
    if isinstance(tree, Comparison):
        compiler = _metadata if tree.column is None else _column
        return compiler(tree, table)
    raise FilterError(f"a filter cannot hold a {type(tree).__name__}")


def _joined(word: str, parts: Sequence[Compiled], empty: Compiled) -> Compiled:
    """Join conditions as a balanced tree: SQLite bounds the depth of an expression."""
    if not parts:
        return empty
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left = _joined(word, parts[:middle], empty)
    right = _joined(word, parts[middle:], empty)
    return Compiled(f"({left.sql} {word} {right.sql})", left.params + right.params)


def _negated(part: Compiled) -> Compiled:
    return Compiled(f"(NOT {part.sql})", part.params)


def _sure(sql: str, params: Parameters) -> Compiled:
    """Return a condition in which NULL counts as false."""
    return Compiled(f"(({sql}) IS TRUE)", params)


# ------------------------------------------------------------------------------ metadata


def _metadata(tree: Comparison, table: str) -> Compiled:
    path = "$" + "".join(f'."{name}"' for name in tree.path)
    value = _Value(f"json_type({table}.metadata, ?)", f"json_extract({table}.metadata, ?)", (path,))
    wanted = tree.value
    match tree.operator:
        case Operator.EXISTS:
            word = "IS NOT NULL" if wanted else "IS NULL"
            return Compiled(f"({value.type} {word})", value.params)
        case Operator.EQ:
            return _equals(value, wanted)
        case Operator.NE:
            return _negated(_equals(value, wanted))
        case Operator.IN:
            return _one_of(value, wanted)
        case Operator.NIN:
            return _negated(_one_of(value, wanted))
        case Operator.CONTAINS:
            return _contains(value, wanted, table)
        case Operator.STARTS_WITH:
            sql = f"{value.type} = 'text' AND substr({value.sql}, 1, length(?)) = ?"
            return _sure(sql, (*value.params * 2, wanted, wanted))
    return _ordered(value, _SIGNS[tree.operator], wanted, path, table)


def _equals(value: _Value, wanted: Any) -> Compiled:
    if wanted is None or isinstance(wanted, bool):
        return _sure(f"{value.type} = ?", (*value.params, json.dumps(wanted)))
    condition, sql, params = _operand(wanted)
    return _sure(
        f"{condition.format(type=value.type)} AND {value.sql} = {sql}",
        (*value.params * 2, *params),
    )


def _operand(wanted: Any) -> tuple[str, str, Parameters]:
    """Return the test of the stored type, the SQL of the wanted value, and what it binds."""
    if isinstance(wanted, str):
        return "{type} = 'text'", "?", (wanted,)
    if isinstance(wanted, int):
        return _IS_NUMBER, "?", (wanted,)
    if isinstance(wanted, float):
        return _IS_NUMBER, "json_extract(?, '$')", (canonical_json(wanted),)
    kind = "array" if isinstance(wanted, list) else "object"
    return f"{{type}} = '{kind}'", "?", (canonical_json(encode_value(wanted)),)


def _one_of(value: _Value, members: Iterable[Any]) -> Compiled:
    texts, numbers, containers, parts = [], [], [], []
    for member in members:
        if member is None or isinstance(member, bool):
            parts.append(_equals(value, member))
        elif isinstance(member, str):
            texts.append(member)
        elif isinstance(member, (int, float)):
            numbers.append(member)
        else:
            containers.append(canonical_json(encode_value(member)))
    groups: tuple[tuple[str, list[Any]], ...] = (
        ("{type} = 'text'", texts),
        (_IS_NUMBER, numbers),
        ("{type} IN ('array', 'object')", containers),
    )
    for condition, group in groups:
        if group:
            sql = (
                f"{condition.format(type=value.type)} "
                f"AND {value.sql} IN (SELECT value FROM json_each(?))"
            )
            parts.append(_sure(sql, (*value.params * 2, canonical_json(group))))
    return _joined("OR", parts, _FALSE)


def _contains(value: _Value, wanted: Any, table: str) -> Compiled:
    element = _equals(_Value("e.type", "e.value", ()), wanted)
    sql = (
        f"{value.type} = 'array' AND EXISTS "
        f"(SELECT 1 FROM json_each({table}.metadata, ?) e WHERE {element.sql})"
    )
    return _sure(sql, (*value.params * 2, *element.params))


def _ordered(value: _Value, sign: str, wanted: Any, path: str, table: str) -> Compiled:
    if isinstance(wanted, datetime):
        inner = f'{path}."{DATETIME}"'
        sql = f"json_extract({table}.metadata, ?) {sign} ?"
        return _sure(sql, (inner, encode_value(wanted)[DATETIME]))
    condition, operand, params = _operand(wanted)
    sql = f"{condition.format(type=value.type)} AND {value.sql} {sign} {operand}"
    return _sure(sql, (*value.params * 2, *params))


# ------------------------------------------------------------------------ own fields


def _column(tree: Comparison, table: str) -> Compiled:
    name = tree.field
    sql = f"{table}.{_COLUMNS.get(name, name)}"
    wanted = tree.value
    match tree.operator:
        case Operator.EXISTS:
            return Compiled(f"({sql} {'IS NOT NULL' if wanted else 'IS NULL'})")
        case Operator.EQ:
            return _column_is(name, sql, [wanted])
        case Operator.NE:
            return _negated(_column_is(name, sql, [wanted]))
        case Operator.IN:
            return _column_is(name, sql, wanted)
        case Operator.NIN:
            return _negated(_column_is(name, sql, wanted))
        case Operator.CONTAINS:
            return _FALSE
        case Operator.STARTS_WITH:
            if name in TIME_COLUMNS or name in NUMBER_COLUMNS:
                return _FALSE
            return _sure(f"substr({sql}, 1, length(?)) = ?", (wanted, wanted))
    if not fits_column(name, wanted):
        return _FALSE
    return _sure(f"{sql} {_SIGNS[tree.operator]} ?", (_bound(wanted),))


def _column_is(name: str, sql: str, members: Iterable[Any]) -> Compiled:
    values = [_bound(member) for member in members if fits_column(name, member)]
    if not values:
        return _FALSE
    return _sure(f"{sql} IN (SELECT value FROM json_each(?))", (json.dumps(values),))


def _bound(value: Any) -> Any:
    return to_micros(value) if isinstance(value, datetime) else value
