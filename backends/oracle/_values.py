"""Carries values between Python and Oracle.

The driver guesses a bind's type from its value, and guesses wrong for times (DATE, without
microseconds), JSON, long texts and NULL. So every value whose type matters is wrapped in `Typed`,
and nothing else is bound than these, text, numbers and NULL.
"""

from __future__ import annotations

import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import oracledb

from agentmem._filters import decode_metadata, encode_metadata
from agentmem.backends.base import FOREVER, NEVER, Micros, Vector
from agentmem.backends.oracle._names import VARCHAR_BYTES

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_FIRST, _LAST = datetime.min, datetime.max


@dataclass(frozen=True, slots=True)
class Typed:
    """A value with the type in which it is bound."""

    type: Any
    value: Any


Bind: TypeAlias = Typed | str | int | float | None
Binds: TypeAlias = Mapping[str, Bind]


def time_bind(moment: Micros | None) -> Typed:
    """Return an instant for a TIMESTAMP(6) column, which holds UTC without saying so.

    Open ends become the first and the last instant that a TIMESTAMP can hold.
    """
    return Typed(oracledb.DB_TYPE_TIMESTAMP, None if moment is None else _naive(moment))


def _naive(moment: Micros) -> datetime:
    if moment <= NEVER:
        return _FIRST
    if moment >= FOREVER:
        return _LAST
    return _EPOCH + moment * _MICROSECOND


def json_bind(value: Any) -> Typed:
    """Return a value for a JSON column or function."""
    return Typed(oracledb.DB_TYPE_JSON, value)


def metadata_bind(metadata: Mapping[str, Any]) -> Typed:
    """Return metadata for its JSON column."""
    return json_bind(encode_metadata(metadata))


def vector_bind(vector: Vector) -> Typed:
    """Return a vector for a VECTOR(n, FLOAT32) column."""
    return Typed(oracledb.DB_TYPE_VECTOR, array.array("f", vector.astype("<f4").tobytes()))


def clob_bind(text: str) -> Typed:
    """Return a text of any length."""
    return Typed(oracledb.DB_TYPE_CLOB, text)


def with_short_texts(rows: Sequence[dict[str, Bind]]) -> list[dict[str, Bind]]:
    """Return rows in which a long text is bound as VARCHAR2 where every row's fits into one.

    A LOB costs round trips of its own for each value before the statement is sent.
    """
    names = {name for row in rows for name, bind in row.items() if _is_long(bind)}
    short = {name for name in names if all(_fits(row[name]) for row in rows)}
    return [
        {
            name: Typed(oracledb.DB_TYPE_VARCHAR, bind.value)
            if name in short and isinstance(bind, Typed)
            else bind
            for name, bind in row.items()
        }
        for row in rows
    ]


def _is_long(bind: Bind) -> bool:
    return isinstance(bind, Typed) and bind.type is oracledb.DB_TYPE_CLOB


def _fits(bind: Bind) -> bool:
    return isinstance(bind, Typed) and len(bind.value.encode("utf-8")) <= VARCHAR_BYTES


def blob_bind(data: bytes | None) -> Typed:
    """Return bytes of any length."""
    return Typed(oracledb.DB_TYPE_BLOB, data)


def to_micros(moment: datetime | None) -> Micros | None:
    """Undo `time_bind`."""
    if moment is None:
        return None
    return (moment - _EPOCH) // _MICROSECOND


def to_bound(moment: datetime) -> Micros:
    """Undo `time_bind` for an end of an interval."""
    if moment == _FIRST:
        return NEVER
    if moment == _LAST:
        return FOREVER
    return (moment - _EPOCH) // _MICROSECOND


def to_json(value: Any) -> Any:
    """Return a fetched JSON value with Python's numbers; the driver gives Decimal for each."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {key: to_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [to_json(inner) for inner in value]
    return value


def to_metadata(value: Any) -> dict[str, Any]:
    """Undo `metadata_bind`."""
    return decode_metadata(to_json(value))


def to_vector(value: Any) -> Vector:
    """Return a fetched VECTOR as an array."""
    return np.asarray(value, dtype=np.float32)


def now_utc() -> datetime:
    """Return the current time as it is bound, for checks of the server's clock."""
    return datetime.now(UTC).replace(tzinfo=None)
