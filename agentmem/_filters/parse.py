"""The JSON form of a filter, for configuration, command line and protocols.

    {"kind": {"eq": "note"}}                         one comparison
    {"kind": "note", "year": {"gte": 2024}}          several fields: all must hold
    {"year": {"gte": 2024, "lt": 2026}}              several operators: all must hold
    {"or": [{...}, {...}]}  {"and": [...]}  {"not": {...}}

A value in place of operators means ``eq``; an object there must hold operators, so that equality
with an object is written ``{"eq": {...}}``. Datetimes are written ``{"$datetime": "..."}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentmem._filters.tree import And, Comparison, Filter, Not, Operator, Or
from agentmem._filters.values import DATETIME, encode_value
from agentmem.errors import FilterError

MAX_DEPTH = 32
MAX_COMPARISONS = 1_000
"""Bounds of a filter, so that no engine meets a statement that it cannot compile."""

_OPERATORS = {operator.value: operator for operator in Operator}


def parse_filter(value: Filter | Mapping[str, Any] | None) -> Filter | None:
    """Return the tree for a filter in either form; None stays None.

    Raises
    ------
    FilterError
        The filter is malformed; `FilterError.path` says where.
    """
    if value is None:
        return None
    tree = value if isinstance(value, Filter) else _object(value, "", 0)
    _check_size(tree)
    return tree


def _object(value: object, path: str, depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise FilterError(f"a filter may be nested {MAX_DEPTH} levels deep", path=path)
    if not isinstance(value, Mapping):
        raise FilterError(
            f"{path or 'a filter'} must be an object such as "
            f'{{"kind": {{"eq": "note"}}}}, not {type(value).__name__}',
            path=path,
        )
    if not value:
        raise FilterError(f"{path or 'the filter'} is empty; leave it out to match all", path=path)
    parts = tuple(_member(name, inner, path, depth) for name, inner in value.items())
    return parts[0] if len(parts) == 1 else And(parts)


def _member(name: object, value: Any, path: str, depth: int) -> Filter:
    here = f"{path}.{name}" if path else str(name)
    if name in ("and", "or"):
        if not isinstance(value, list):
            raise FilterError(f"{here} takes a list of filters", path=here)
        parts = tuple(_object(inner, f"{here}[{i}]", depth + 1) for i, inner in enumerate(value))
        return And(parts) if name == "and" else Or(parts)
    if name == "not":
        return Not(_object(value, here, depth + 1))
    if not isinstance(name, str):
        raise FilterError(f"{here!r} cannot be a field; names are text", path=here)
    return _field(name, value, here)


def _field(name: str, value: Any, here: str) -> Filter:
    if not isinstance(value, Mapping) or DATETIME in value:
        return _comparison(name, Operator.EQ, value, here)
    if not value:
        raise FilterError(f"{here} has no operator; write for example {{'eq': ...}}", path=here)
    parts = []
    for word, operand in value.items():
        operator = _OPERATORS.get(word) if isinstance(word, str) else None
        if operator is None:
            raise FilterError(
                f"{here} has the unknown operator {word!r}; known are {', '.join(_OPERATORS)} "
                "(equality with an object is written {'eq': {...}})",
                path=f"{here}.{word}",
            )
        parts.append(_comparison(name, operator, operand, f"{here}.{word}"))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _comparison(name: str, operator: Operator, value: Any, path: str) -> Filter:
    try:
        return Comparison(name, operator, _decoded(value, path))
    except FilterError as error:
        raise FilterError(str(error), path=path) from None


def _decoded(value: Any, path: str, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise FilterError(f"{path} is nested more than {MAX_DEPTH} levels deep", path=path)
    if isinstance(value, Mapping):
        if DATETIME in value:
            return _moment(value, path)
        return {key: _decoded(inner, path, depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_decoded(inner, path, depth + 1) for inner in value]
    return value


def _moment(value: Mapping[str, Any], path: str) -> datetime:
    text = value[DATETIME]
    try:
        if len(value) != 1:
            raise ValueError
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise FilterError(
            f"{path} is no datetime; write {{'{DATETIME}': '2024-05-01T10:00:00+00:00'}}",
            path=path,
        ) from None


def to_json(tree: Filter) -> dict[str, Any]:
    """Return the JSON form of a tree; `parse_filter` gives the same tree back."""
    if isinstance(tree, And):
        return {"and": [to_json(part) for part in tree.parts]}
    if isinstance(tree, Or):
        return {"or": [to_json(part) for part in tree.parts]}
    if isinstance(tree, Not):
        return {"not": to_json(tree.part)}
    if isinstance(tree, Comparison):
        return {tree.field: {tree.operator.value: encode_value(tree.value)}}
    raise FilterError(f"a filter cannot hold a {type(tree).__name__}")


def _check_size(tree: Filter) -> None:
    comparisons = 0
    level = [tree]
    for depth in range(MAX_DEPTH * 2 + 2):
        if not level:
            return
        if depth > MAX_DEPTH * 2:
            break
        comparisons += sum(isinstance(part, Comparison) for part in level)
        if comparisons > MAX_COMPARISONS:
            raise FilterError(
                f"a filter may hold {MAX_COMPARISONS:,} comparisons; use in_ for many values"
            )
        level = [inner for part in level for inner in _parts(part)]
    raise FilterError(f"a filter may be nested {MAX_DEPTH} levels deep")


def _parts(tree: Filter) -> tuple[Filter, ...]:
    if isinstance(tree, (And, Or)):
        return tree.parts
    return (tree.part,) if isinstance(tree, Not) else ()
