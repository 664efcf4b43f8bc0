"""How the driver treats values that are bound, and how values come back."""

from __future__ import annotations

import array
import json
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import oracledb

from tests.standin.errors import error

LONGEST_TEXT = 4000
_PLAIN = (type(None), bool, str, bytes, int, float, Decimal, date, datetime, array.array)
# Names that a statement cannot bind (ORA-01745); some of the reserved words.
_RESERVED = frozenset(
    {"access", "comment", "date", "level", "mode", "number", "resource", "size", "start", "uid",
     "user", "order", "group", "by", "table", "index", "option", "row", "rows", "share", "values"}
)  # fmt: skip


class Variable:
    """What `cursor.var` returns."""

    def __init__(self, kind: Any) -> None:
        self.type = kind
        self._value: Any = None

    def setvalue(self, place: int, value: Any) -> None:
        assert place == 0
        self._value = value

    def getvalue(self, place: int = 0) -> Any:
        assert place == 0
        return self._value


def check_names(wanted: set[str], given: Mapping[str, Any]) -> None:
    """Raise unless exactly the placeholders of a statement are bound."""
    reserved = wanted & _RESERVED
    if reserved:
        raise error("ORA-01745", f"invalid host/bind variable name {min(reserved)}")
    unknown = given.keys() - wanted
    if unknown:
        raise error("DPY-4008", f'no bind placeholder named ":{min(unknown)}" was found in the SQL')
    missing = wanted - given.keys()
    if missing:
        raise error(
            "DPY-4010", f'a bind variable replacement value for ":{min(missing)}" is missing'
        )


def converted(name: str, value: Any, kind: Any) -> Any:
    """Return what the server receives for a bound value, `kind` None when no type was declared."""
    if isinstance(value, Variable):
        return converted(name, value.getvalue(), value.type)
    if kind is oracledb.DB_TYPE_JSON:
        return to_json_text(value)
    if not isinstance(value, _PLAIN):
        raise error("DPY-3002", f"Python value of type {type(value).__name__!r} is not supported")
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.replace(tzinfo=None)  # the driver drops it without a word
        if kind is not oracledb.DB_TYPE_TIMESTAMP:
            return value.replace(microsecond=0)
        return value
    if isinstance(value, array.array):
        return _vector(value)
    if isinstance(value, str):
        return _text(name, value, kind)
    if value is None or isinstance(value, (bool, bytes)):
        return value
    if kind in (None, oracledb.DB_TYPE_NUMBER):
        return value
    raise error("DPY-3013", f"value of type {type(value).__name__} does not fit {kind} ({name})")


def _text(name: str, value: str, kind: Any) -> str | None:
    if kind not in (None, oracledb.DB_TYPE_VARCHAR, oracledb.DB_TYPE_CLOB):
        raise error("DPY-3013", f"a text does not fit {kind} ({name})")
    if kind is not oracledb.DB_TYPE_CLOB and len(value.encode()) > LONGEST_TEXT:
        raise error("ORA-01461", "can bind a LONG value only for insert into a LONG column")
    return value or None


def _vector(value: array.array[Any]) -> list[float]:
    if value.typecode not in "fdbB":
        raise error("DPY-3002", f"array of typecode {value.typecode!r} is not supported")
    return list(map(float, value))


def to_json_text(value: Any) -> str | None:
    """Return a Python value as the JSON that is stored: numbers exactly, no order of members."""
    if value is None:
        return None
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) and key for key in value):
            raise error("DPY-3002", "JSON keys must be str")
        return {key: _plain(value[key]) for key in sorted(value)}
    raise error("DPY-3002", f"Python value of type {type(value).__name__!r} is not supported")


def from_json_text(text: str | None) -> Any:
    """Return fetched JSON as the driver gives it: every number is a Decimal."""
    if text is None:
        return None
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


class Lob:
    """What a LOB column gives unless the caller asked for plain values."""

    def __init__(self, value: Any) -> None:
        self._value = value

    async def read(self) -> Any:
        return self._value
