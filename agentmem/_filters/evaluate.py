"""The meaning of a filter, in plain Python. Engines are tested against this."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentmem._filters.tree import And, Comparison, Filter, Not, Operator, Or
from agentmem._filters.values import equal
from agentmem.errors import FilterError

_MISSING = object()


def evaluate(tree: Filter, metadata: Mapping[str, Any], columns: Mapping[str, Any]) -> bool:
    """Return whether the filter holds for a document.

    Parameters
    ----------
    metadata
        The document's metadata, with datetimes as aware datetimes.
    columns
        Its own fields by name; None counts as missing.
    """
    if isinstance(tree, And):
        return all(evaluate(part, metadata, columns) for part in tree.parts)
    if isinstance(tree, Or):
        return any(evaluate(part, metadata, columns) for part in tree.parts)
    if isinstance(tree, Not):
        return not evaluate(tree.part, metadata, columns)
    if isinstance(tree, Comparison):
        return _compare(tree.operator, _stored(tree, metadata, columns), tree.value)
    raise FilterError(f"a filter cannot hold a {type(tree).__name__}")


def _stored(
    comparison: Comparison, metadata: Mapping[str, Any], columns: Mapping[str, Any]
) -> object:
    if comparison.column is not None:
        value = columns.get(comparison.column)
        return _MISSING if value is None else value
    value = metadata
    for name in comparison.path:
        if not isinstance(value, Mapping) or name not in value:
            return _MISSING
        value = value[name]
    return value


def _compare(operator: Operator, stored: Any, wanted: Any) -> bool:
    missing = stored is _MISSING
    if operator is Operator.EXISTS:
        return missing is not wanted
    if operator is Operator.NE:
        return missing or not equal(stored, wanted)
    if operator is Operator.NIN:
        return missing or not any(equal(stored, member) for member in wanted)
    if missing:
        return False
    if operator is Operator.EQ:
        return equal(stored, wanted)
    if operator is Operator.IN:
        return any(equal(stored, member) for member in wanted)
    if operator is Operator.CONTAINS:
        return isinstance(stored, (list, tuple)) and any(equal(s, wanted) for s in stored)
    if operator is Operator.STARTS_WITH:
        return isinstance(stored, str) and stored.startswith(wanted)
    return _kind(stored) == _kind(wanted) is not None and _ordered(operator, stored, wanted)


def _kind(value: object) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "text"
    return "datetime" if isinstance(value, datetime) else None


def _ordered(operator: Operator, stored: Any, wanted: Any) -> bool:
    if operator is Operator.GT:
        return bool(stored > wanted)
    if operator is Operator.GTE:
        return bool(stored >= wanted)
    if operator is Operator.LT:
        return bool(stored < wanted)
    return bool(stored <= wanted)
