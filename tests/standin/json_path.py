"""Evaluates SQL/JSON paths as Oracle does: lax, so that arrays are unwrapped by themselves.

A step into an object looks into each element of an array; a filter is applied to each element; only
``type()`` takes an array as it is. Comparisons convert between text and number.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r'\."(?P<quoted>[^"]*)"|\.(?P<method>type)\(\)|\.(?P<plain>\w+)|(?P<all>\[\*\])'
    r"|\?\((?P<filter>.*)\)$"
)
_TEST = re.compile(
    r'@\s*(?P<sign>==|!=|>=|<=|>|<|starts with)\s*(?P<right>\$v|""|null|true|false)$'
)
_MISSING = object()
Steps = tuple[tuple[str, str], ...]


@lru_cache(maxsize=4096)
def parse(path: str) -> Steps:
    """Return the steps of a path as pairs of kind and text."""
    assert path.startswith("$"), path
    steps, place = [], 1
    while place < len(path):
        match = _STEP.match(path, place)
        assert match, f"the stand-in does not know this path: {path}"
        kind = match.lastgroup or ""
        steps.append(("member" if kind in ("quoted", "plain") else kind, match.group(kind)))
        place = match.end()
    return tuple(steps)


def select(document: Any, path: str, value: Any = _MISSING) -> list[Any]:
    """Return what a path selects; `value` is what ``$v`` stands for."""
    items = [document]
    for kind, text in parse(path):
        if kind == "member":
            items = [i[text] for i in _unwrapped(items) if isinstance(i, dict) and text in i]
        elif kind == "all":
            items = [e for i in items for e in (i if isinstance(i, list) else [i])]
        elif kind == "method":
            items = [type_name(item) for item in items]
        else:
            items = [item for item in _unwrapped(items) if _passes(item, text, value)]
    return items


def _unwrapped(items: list[Any]) -> list[Any]:
    return [e for item in items for e in (item if isinstance(item, list) else [item])]


def type_name(value: Any) -> str:
    """Return the JSON type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"


def _passes(item: Any, test: str, value: Any) -> bool:
    match = _TEST.match(test.strip())
    assert match, f"the stand-in does not know this filter: {test}"
    constants = {'""': "", "null": None, "true": True, "false": False}
    right = value if match["right"] == "$v" else constants[match["right"]]
    if right is None and match["right"] == "$v":
        right = ""  # NULL is passed as an empty text
    return _compare(item, match["sign"], right)


def _compare(left: Any, sign: str, right: Any) -> bool:
    if isinstance(left, (dict, list)):
        return False
    if sign == "starts with":
        return isinstance(left, str) and left.startswith(right)
    if left is None or right is None or isinstance(left, bool) or isinstance(right, bool):
        same = left is right
        return {"==": same, "!=": not same}.get(sign, False)
    if isinstance(left, str) != isinstance(right, str):
        left, right = _number(left), _number(right)
        if left is None or right is None:
            return False
    if not isinstance(left, str):
        left, right = Decimal(str(left)), Decimal(str(right))
    results: dict[str, bool] = {
        "==": left == right,
        "!=": left != right,
        ">": left > right,
        ">=": left >= right,
        "<": left < right,
        "<=": left <= right,
    }
    return results[sign]


def _number(value: Any) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def number_text(value: Any) -> str:
    """Return a number in one form for each value, to be compared as text."""
    exact = Decimal(str(value))
    return "0" if not exact else str(exact.normalize())


# ------------------------------------------------------------- functions that statements call


def json_exists(text: str | None, path: str, value: Any) -> bool:
    return text is not None and bool(select(json.loads(text), path, value))


def json_value(text: str | None, path: str, kind: str) -> str | None:
    """Return the single scalar at a path as text, None for anything else."""
    found = [] if text is None else select(json.loads(text), path)
    if len(found) != 1:
        return None
    return _scalar(found[0], kind)


def _scalar(value: Any, kind: str) -> str | None:
    if value is None or isinstance(value, (list, dict)):
        return None
    if kind == "NUMBER":
        number = None if isinstance(value, bool) else _number(value)
        return None if number is None else number_text(number)
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    limit = int(kind.removeprefix("VARCHAR2"))
    return None if not text or len(text.encode()) > limit else text


def json_query(text: str | None, path: str) -> str | None:
    """Return the single value at a path as JSON."""
    found = [] if text is None else select(json.loads(text), path)
    return json.dumps(found[0]) if len(found) == 1 else None


def json_equal(left: str | None, right: str | None) -> bool:
    if left is None or right is None:
        return False
    return bool(_strict(json.loads(left)) == _strict(json.loads(right)))


def _strict(value: Any) -> Any:
    """Return a form that is equal only for values of one type: True is not 1."""
    if isinstance(value, list):
        return [_strict(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _strict(inner) for key, inner in value.items()}
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return ("number", number_text(value))
    return (type_name(value), value)


def json_rows(text: str | None, path: str, columns: str) -> list[dict[str, Any]]:
    """Return the rows of a JSON_TABLE; `columns` is ``name|kind|path`` joined by ``;``."""
    if text is None:
        return []
    rows = []
    for place, item in enumerate(select(json.loads(text), path), start=1):
        row: dict[str, Any] = {"v": None, "kind": None, "j": None, "content": None}
        for column in columns.split(";"):
            name, kind, inner = column.split("|")
            found = select(item, inner)
            if kind == "ORDINALITY":
                row["place"] = place
            elif len(found) == 1:
                row[name] = json.dumps(found[0]) if kind == "JSON" else _scalar(found[0], kind)
        row.setdefault("place", place)
        rows.append(row)
    return rows
