"""Compiles a filter to Oracle SQL: JSON conditions for metadata, columns for the rest.

A path expression of Oracle unwraps arrays by itself, so `$."a"?(@ == 1)` is true for ``[1, 2]``.
Our filters do not, hence each condition first asks for the type of the value and of each object on
the way to it; ``type()`` never unwraps. A condition may be NULL where it is not true; a negation is
a CASE, which treats both alike.

Paths are made of names that `agentmem._filters` has checked (letters, digits, ``_``, ``-``) and
stand in double quotes; every value is bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from agentmem._clock import to_micros
from agentmem._filters import And, Comparison, Filter, Not, Operator, Or
from agentmem._filters.values import (
    DATETIME,
    NUMBER_COLUMNS,
    TIME_COLUMNS,
    encode_value,
    fits_column,
)
from agentmem.backends.oracle._values import Bind, json_bind, time_bind
from agentmem.errors import FilterError

_COLUMNS = {"id": "document_id", "key": "doc_key"}
_SIGNS = {Operator.GT: ">", Operator.GTE: ">=", Operator.LT: "<", Operator.LTE: "<="}
_TRUE, _FALSE = "1 = 1", "1 = 0"
_NUMBER_TYPES = "('number', 'double', 'float')"


class FilterCompiler:
    """Compiles filters over one table alias and collects what they bind.

    Parameters
    ----------
    alias
        Alias of the table; it has the columns of a document and `metadata`.
    binds
        Where the bound values are put, under names ``f0``, ``f1``, ...
    """

    def __init__(self, alias: str, binds: dict[str, Bind]) -> None:
        self._alias = alias
        self._binds = binds
        self._bound = 0

    def compile(self, tree: Filter) -> str:
        """Return the condition, in parentheses where it needs them."""
        if isinstance(tree, And):
            return self._joined(" AND ", tree.parts, _TRUE)
        if isinstance(tree, Or):
            return self._joined(" OR ", tree.parts, _FALSE)
        if isinstance(tree, Not):
            return _negated(self.compile(tree.part))
        if isinstance(tree, Comparison):
            return self._metadata(tree) if tree.column is None else self._column(tree)
        raise FilterError(f"a filter cannot hold a {type(tree).__name__}")

    def _joined(self, word: str, parts: Sequence[Filter], empty: str) -> str:
        return _joined(word, [self.compile(part) for part in parts], empty)

    def _bind(self, value: Bind) -> str:
        name = f"f{self._bound}"
        self._bound += 1
        self._binds[name] = value
        return f":{name}"

    # -------------------------------------------------------------------- metadata

    def _metadata(self, tree: Comparison) -> str:
        path, wanted = tree.path, tree.value
        match tree.operator:
            case Operator.EXISTS:
                found = _all([*self._objects(path), f"JSON_EXISTS({self._json}, '{_text(path)}')"])
                return found if wanted else _negated(found)
            case Operator.EQ:
                return self._equals(path, wanted)
            case Operator.NE:
                return _negated(self._equals(path, wanted))
            case Operator.IN:
                return self._one_of(path, wanted)
            case Operator.NIN:
                return _negated(self._one_of(path, wanted))
            case Operator.CONTAINS:
                return self._contains(path, wanted)
            case Operator.STARTS_WITH:
                if not wanted:
                    return _all(self._typed(path, "= 'string'"))
                return self._matches(path, "= 'string'", "@ starts with $v", wanted)
        sign = _SIGNS[tree.operator]
        if isinstance(wanted, datetime):
            return self._matches(
                (*path, DATETIME), "= 'string'", f"@ {sign} $v", encode_value(wanted)[DATETIME]
            )
        if isinstance(wanted, str):
            return self._matches(path, "= 'string'", f"@ {sign} $v", wanted)
        return self._matches(path, f"IN {_NUMBER_TYPES}", f"@ {sign} $v", wanted)

    @property
    def _json(self) -> str:
        return f"{self._alias}.metadata"

    def _type(self, path: Sequence[str]) -> str:
        return (
            f"JSON_VALUE({self._json}, '{_text(path)}.type()' RETURNING VARCHAR2(20) "
            "NULL ON ERROR NULL ON EMPTY)"
        )

    def _objects(self, path: Sequence[str]) -> list[str]:
        """Return conditions that everything on the way to the value is an object."""
        return [f"{self._type(path[:depth])} = 'object'" for depth in range(1, len(path))]

    def _typed(self, path: Sequence[str], condition: str) -> list[str]:
        return [*self._objects(path), f"{self._type(path)} {condition}"]

    def _matches(self, path: Sequence[str], kind: str, test: str, value: Bind) -> str:
        """Return that the value at `path` is of a kind and passes the test with `$v`."""
        if value == "":  # would be bound as NULL
            literal = test.replace("$v", '""')
            exists = f"JSON_EXISTS({self._json}, '{_text(path)}?({literal})')"
        else:
            exists = (
                f"JSON_EXISTS({self._json}, '{_text(path)}?({test})' "
                f'PASSING {self._bind(value)} AS "v")'
            )
        return _all([*self._typed(path, kind), exists])

    def _equals(self, path: Sequence[str], wanted: Any) -> str:
        if wanted is None:
            return _all(self._typed(path, "= 'null'"))
        if isinstance(wanted, bool):
            word = "true" if wanted else "false"
            exists = f"JSON_EXISTS({self._json}, '{_text(path)}?(@ == {word})')"
            return _all([*self._typed(path, "= 'boolean'"), exists])
        if isinstance(wanted, str):
            return self._matches(path, "= 'string'", "@ == $v", wanted)
        if isinstance(wanted, (int, float)):
            return self._matches(path, f"IN {_NUMBER_TYPES}", "@ == $v", wanted)
        kind = "array" if isinstance(wanted, list) else "object"
        stored = f"JSON_QUERY({self._json}, '{_text(path)}' RETURNING JSON NULL ON ERROR)"
        same = f"JSON_EQUAL({stored}, {self._bind(json_bind(encode_value(wanted)))})"
        return _all([*self._typed(path, f"= '{kind}'"), same])

    def _one_of(self, path: Sequence[str], members: Iterable[Any]) -> str:
        texts: list[str] = []
        numbers: list[float] = []
        parts: list[str] = []
        for member in members:
            if isinstance(member, str) and member:
                texts.append(member)
            elif isinstance(member, (int, float)) and not isinstance(member, bool):
                numbers.append(member)
            else:
                parts.append(self._equals(path, member))
        if texts:
            parts.append(self._among(path, "= 'string'", "VARCHAR2(4000)", texts))
        if numbers:
            parts.append(self._among(path, f"IN {_NUMBER_TYPES}", "NUMBER", numbers))
        return _joined(" OR ", parts, _FALSE)

    def _among(self, path: Sequence[str], kind: str, returning: str, values: list[Any]) -> str:
        stored = (
            f"JSON_VALUE({self._json}, '{_text(path)}' RETURNING {returning} "
            "NULL ON ERROR NULL ON EMPTY)"
        )
        listed = _listed(self._bind(json_bind(values)), returning)
        return _all([*self._typed(path, kind), f"{stored} IN ({listed})"])

    def _contains(self, path: Sequence[str], wanted: Any) -> str:
        """Return that the list at `path` has an element equal to `wanted`.

        The elements are rows of a JSON_TABLE: a path with a filter would look into lists that are
        elements themselves.
        """
        kind, column, test = self._element(wanted)
        rows = (
            f"JSON_TABLE({self._json}, '{_text(path)}[*]' COLUMNS "
            f"(kind VARCHAR2(20) PATH '$.type()'{column}))"
        )
        found = f"EXISTS (SELECT 1 FROM {rows} e WHERE {_all([f'e.kind {kind}', *test])})"
        return _all([*self._typed(path, "= 'array'"), found])

    def _element(self, wanted: Any) -> tuple[str, str, list[str]]:
        """Return the test of an element's type, the column that holds it, and what it must be."""
        if wanted is None:
            return "= 'null'", "", []
        if isinstance(wanted, bool):
            text = "true" if wanted else "false"
            return "= 'boolean'", ", v VARCHAR2(5) PATH '$'", [f"e.v = '{text}'"]
        if isinstance(wanted, str):
            # '' is NULL in Oracle; a text that does not fit the column is NULL as well.
            if not wanted:
                empty = "JSON_EXISTS(e.j, '$?(@ == \"\")')"
                return "= 'string'", ", j JSON PATH '$'", [empty]
            return "= 'string'", ", v VARCHAR2(4000) PATH '$'", [f"e.v = {self._bind(wanted)}"]
        if isinstance(wanted, (int, float)):
            test = f"e.v = {self._bind(wanted)}"
            return f"IN {_NUMBER_TYPES}", ", v NUMBER PATH '$'", [test]
        kind = "array" if isinstance(wanted, list) else "object"
        same = f"JSON_EQUAL(e.j, {self._bind(json_bind(encode_value(wanted)))})"
        return f"= '{kind}'", ", j JSON PATH '$'", [same]

    # -------------------------------------------------------------------- own fields

    def _column(self, tree: Comparison) -> str:
        name, wanted = tree.field, tree.value
        column = f"{self._alias}.{_COLUMNS.get(name, name)}"
        match tree.operator:
            case Operator.EXISTS:
                return f"{column} IS {'NOT NULL' if wanted else 'NULL'}"
            case Operator.EQ:
                return self._is_one_of(name, column, [wanted])
            case Operator.NE:
                return _negated(self._is_one_of(name, column, [wanted]))
            case Operator.IN:
                return self._is_one_of(name, column, wanted)
            case Operator.NIN:
                return _negated(self._is_one_of(name, column, wanted))
            case Operator.CONTAINS:
                return _FALSE
            case Operator.STARTS_WITH:
                return self._starts_with(name, column, wanted)
        if not fits_column(name, wanted):
            return _FALSE
        if wanted == "":
            return _compared_to_empty(column, tree.operator)
        return f"{column} {_SIGNS[tree.operator]} {self._bind(_bound(wanted))}"

    def _is_one_of(self, name: str, column: str, members: Iterable[Any]) -> str:
        """Return that the column equals one of `members`. No column ever holds ''."""
        values = [member for member in members if fits_column(name, member) and member != ""]
        if not values:
            return _FALSE
        if len(values) == 1 or name in TIME_COLUMNS:
            same = [f"{column} = {self._bind(_bound(value))}" for value in values]
            return _joined(" OR ", same, _FALSE)
        kind = "NUMBER" if name in NUMBER_COLUMNS else "VARCHAR2(4000)"
        return f"{column} IN ({_listed(self._bind(json_bind(values)), kind)})"

    def _starts_with(self, name: str, column: str, prefix: str) -> str:
        if name in TIME_COLUMNS or name in NUMBER_COLUMNS:
            return _FALSE
        if not prefix:
            return f"{column} IS NOT NULL"
        bound = self._bind(prefix)
        return f"SUBSTR({column}, 1, LENGTH({bound})) = {bound}"


def listed_names(bind: str) -> str:
    """Return a subquery with the texts of a bound JSON list."""
    return _listed(bind, "VARCHAR2(4000)")


def _listed(bind: str, kind: str) -> str:
    return f"SELECT j.v FROM JSON_TABLE({bind}, '$[*]' COLUMNS (v {kind} PATH '$')) j"


def _text(path: Sequence[str]) -> str:
    return "$" + "".join(f'."{name}"' for name in path)


def _all(conditions: Sequence[str]) -> str:
    return _joined(" AND ", conditions, _TRUE)


def _joined(word: str, conditions: Sequence[str], empty: str) -> str:
    if not conditions:
        return empty
    if len(conditions) == 1:
        return conditions[0]
    return "(" + word.join(conditions) + ")"


def _negated(condition: str) -> str:
    return f"CASE WHEN {condition} THEN 0 ELSE 1 END = 1"


def _compared_to_empty(column: str, operator: Operator) -> str:
    """Return the comparison with '', which Oracle cannot bind: every text is greater."""
    greater = operator in (Operator.GT, Operator.GTE)
    return f"{column} IS NOT NULL" if greater else _FALSE


def _bound(value: Any) -> Bind:
    if isinstance(value, datetime):
        return time_bind(to_micros(value))
    return value  # type: ignore[no-any-return]  # text or number, by fits_column
