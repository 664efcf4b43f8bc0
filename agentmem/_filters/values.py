"""Values of metadata and filters: what is allowed, and how they look as JSON.

A datetime is stored as ``{"$datetime": "2024-05-01T10:00:00.000000+00:00"}``, always in UTC and
with microseconds, so that equal instants have equal text and text order is time order. For that
reason no other key may start with ``$``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json

from agentmem.errors import InvalidInputError

DATETIME = "$datetime"
MAX_DEPTH = 32
MAX_KEY_BYTES = 255
MAX_INTEGER = 2**63 - 1
MIN_INTEGER = -(2**63)
MAX_FLOAT = 1e125
MIN_FLOAT = 1e-129
"""Numbers with a fraction lie between these, as far from zero, so that every engine holds them."""


TIME_COLUMNS = frozenset({"created_at", "valid_from", "valid_until", "expires_at"})
NUMBER_COLUMNS = frozenset({"version"})
"""Own fields of a document that hold instants and numbers; the others hold texts."""


def fits_column(name: str, value: object) -> bool:
    """Return whether a value can be compared with an own field at all."""
    if name in TIME_COLUMNS:
        return isinstance(value, datetime)
    if name in NUMBER_COLUMNS:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, str)


def check_metadata(metadata: object) -> None:
    """Check that `metadata` can be stored and compared on every engine.

    Raises
    ------
    InvalidInputError
        It is no mapping, or something in it cannot be stored; the message names the path.
    """
    if not isinstance(metadata, Mapping):
        raise InvalidInputError(f"metadata must be a mapping, not {type(metadata).__name__}")
    check_value(metadata, "metadata")


def check_value(value: object, path: str, depth: int = 0) -> None:
    """Check one value of metadata or of a filter.

    Raises
    ------
    InvalidInputError
        It cannot be stored; the message names `path`.
    """
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"{path} is nested more than {MAX_DEPTH} levels deep; flatten it")
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, (int, float)):
        _check_number(value, path)
    elif isinstance(value, datetime):
        _check_datetime(value, path)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _check_key(key, path)
            check_value(inner, f"{path}.{key}", depth + 1)
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            check_value(inner, f"{path}[{place}]", depth + 1)
    else:
        raise InvalidInputError(
            f"{path} is a {type(value).__name__}, which cannot be stored; "
            "use str, int, float, bool, None, datetime, list or dict"
        )


def _check_text(value: str, path: str) -> None:
    if "\0" in value:
        raise InvalidInputError(f"{path} holds a NUL character; remove it")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"{path} holds a lone surrogate, which is no character; "
            "decode the text with errors='replace'"
        ) from None


def _check_number(value: float, path: str) -> None:
    if isinstance(value, int):
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            raise InvalidInputError(
                f"{path} is {value}, beyond 64 bits; store large numbers as text"
            )
    elif not math.isfinite(value):
        raise InvalidInputError(f"{path} is {value}, which is no number; use None for missing ones")
    elif value and not MIN_FLOAT <= abs(value) <= MAX_FLOAT:
        raise InvalidInputError(
            f"{path} is {value}, beyond {MIN_FLOAT:g} to {MAX_FLOAT:g}; store such numbers as text"
        )


def _check_datetime(value: datetime, path: str) -> None:
    if value.utcoffset() is None:
        raise InvalidInputError(
            f"{path} is {value!r}, a datetime without a time zone; "
            "add one, for example value.replace(tzinfo=timezone.utc)"
        )
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise InvalidInputError(
            f"{path} is {value!r}, which lies outside the years 1 to 9999 in UTC"
        ) from None


def _check_key(key: object, path: str) -> None:
    if not isinstance(key, str):
        raise InvalidInputError(f"{path} has the key {key!r}; keys must be str")
    if not key:
        raise InvalidInputError(f"{path} has an empty key; give it a name")
    _check_text(key, f"the key {key!r} of {path}")
    if len(key.encode("utf-8")) > MAX_KEY_BYTES:
        raise InvalidInputError(f"{path} has a key of more than {MAX_KEY_BYTES} bytes; shorten it")
    if key.startswith("$"):
        raise InvalidInputError(f"{path} has the key {key!r}; keys starting with '$' are reserved")


def encode_value(value: Any) -> Any:
    """Return a checked value in its JSON form."""
    if isinstance(value, datetime):
        return {DATETIME: value.astimezone(UTC).isoformat(timespec="microseconds")}
    if isinstance(value, Mapping):
        return {key: encode_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode_value(inner) for inner in value]
    return value


def decode_value(value: Any) -> Any:
    """Undo `encode_value`; the value comes from JSON."""
    if isinstance(value, dict):
        if len(value) == 1 and DATETIME in value:
            return datetime.fromisoformat(value[DATETIME])
        return {key: decode_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [decode_value(inner) for inner in value]
    return value


def encode_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked metadata in its JSON form."""
    return {key: encode_value(value) for key, value in metadata.items()}


def decode_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Undo `encode_metadata`."""
    return {key: decode_value(value) for key, value in metadata.items()}


def read_metadata(text: str) -> dict[str, Any]:
    """Return metadata from the JSON text that it is stored as."""
    stored: dict[str, Any] = from_json(text)  # a search reads a hundred: faster than json.loads
    return decode_metadata(stored) if DATETIME in text else stored


def canonical_json(value: Any) -> str:
    """Return JSON text such that equal values have equal text.

    Members are sorted, and a float without a fraction is written as an integer where that is exact.
    """
    return json.dumps(_canonical(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_INTEGER:
        return int(value)
    if isinstance(value, Mapping):
        return {key: _canonical(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(inner) for inner in value]
    return value


def equal(left: Any, right: Any) -> bool:
    """Return whether two decoded values are equal: types count, and 1 equals 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    if _is_list(left) and _is_list(right):
        return len(left) == len(right) and all(map(equal, left, right))
    if left is None or right is None:
        return left is right
    return type(left) is type(right) and bool(left == right)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))
