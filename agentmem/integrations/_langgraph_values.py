"""How an item of a LangGraph store becomes a document, and back; and what its filters mean.

An item's value can be any JSON. Metadata and filters know fewer keys and numbers, so a value is
stored twice: as exact JSON text, from which it is read, and in a form that every engine can filter.

* An object becomes an object with the mark ``__object``; a key that cannot be a field's name is
  replaced by a hash. ``F("value.color") == "red"`` finds a value with the plain key ``color``.
* A number or text that metadata cannot hold becomes an object of one mark, so that equality holds.
* What lies deeper than twenty levels becomes a hash, for the same purpose.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentmem import F, Filter
from agentmem._filters import Comparison, Operator, canonical_json
from agentmem._filters.values import MAX_FLOAT, MAX_INTEGER, MIN_FLOAT, MIN_INTEGER
from agentmem.errors import FilterError, InvalidInputError

_OBJECT = "__object"
_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LEVELS = 20
_OPERATORS = {
    "$eq": Operator.EQ,
    "$ne": Operator.NE,
    "$gt": Operator.GT,
    "$gte": Operator.GTE,
    "$lt": Operator.LT,
    "$lte": Operator.LTE,
}
_LABEL_BYTES = 1000


# --------------------------------------------------------------------------- values


def to_json(value: Mapping[str, Any]) -> str:
    """Return a value as JSON text.

    Raises
    ------
    InvalidInputError
        It is no JSON: another type, a key that is no text, NaN or infinity.
    """
    _check_keys(value, "value")
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"a value must be JSON: a mapping of texts to texts, finite numbers, true, false, "
            f"None, lists and mappings ({error})"
        ) from error


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it holds a {type(value).__name__}")


def _check_keys(value: object, path: str) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidInputError(f"{path} has the key {key!r}; keys must be str")
            _check_keys(inner, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            _check_keys(inner, f"{path}[{place}]")


def filterable(value: Any, level: int = 0) -> Any:
    """Return the form of a JSON value that engines can filter."""
    if isinstance(value, str):
        return value if _is_text(value) else {"__text": json.dumps(value)}
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if MIN_INTEGER <= value <= MAX_INTEGER else {"__number": str(value)}
    if isinstance(value, float):
        return value if _fits(value) else _large(value)
    if level == _LEVELS:
        return {"__deep": _digest(canonical_json(filterable(value)))}
    if isinstance(value, Mapping):
        inner = {field_name(key): filterable(v, level + 1) for key, v in value.items()}
        return {_OBJECT: True, **inner}
    if isinstance(value, (list, tuple)):
        return [filterable(v, level + 1) for v in value]
    raise FilterError(f"a filter compares JSON values, not {type(value).__name__}")


def field_name(key: str) -> str:
    """Return the name under which an object's key is stored."""
    return key if _NAME.fullmatch(key) else f"__{_digest(key)}"


def label(text: str) -> Any:
    """Return the stored form of one label of a namespace; only equality is asked of it."""
    long = len(text.encode("utf-8", "surrogatepass")) > _LABEL_BYTES
    return {"__long": _digest(text)} if long else filterable(text)


def _fits(number: float) -> bool:
    return number == 0.0 or MIN_FLOAT <= abs(number) <= MAX_FLOAT


def _large(number: float) -> Any:
    if number != number or number in (float("inf"), float("-inf")):
        raise FilterError(f"{number} is no number of JSON")
    # 1e300 and 10**300 are not equal in Python either; whole floats are exact integers.
    return {"__number": str(int(number)) if number.is_integer() else repr(number)}


def _is_text(text: str) -> bool:
    return "\0" not in text and (text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


# ---------------------------------------------------------------------------- texts


def readable(value: Any, name: str = "") -> Iterator[str]:
    """Yield the leaves of a value, each as ``name: text``."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from readable(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from readable(inner, name)
    elif value is not None:
        text = json.dumps(value) if isinstance(value, bool) else str(value)
        yield f"{name}: {text}" if name else text


def clean(text: str) -> str:
    """Return a text that can be indexed: without NUL and lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


# -------------------------------------------------------------------------- filters


def to_filter(conditions: Mapping[str, Any]) -> list[Filter]:
    """Return the filters over metadata that a LangGraph filter means; all must hold.

    Raises
    ------
    FilterError
        An operator is unknown, or an operand cannot be compared.
    """
    found: list[Filter] = []
    for key, wanted in conditions.items():
        if not isinstance(key, str):
            raise FilterError(f"a filter has the key {key!r}; keys must be str")
        found += _matching(f"value.{field_name(key)}", wanted, 1)
    return found


def _matching(field: str, wanted: Any, level: int) -> list[Filter]:
    if not isinstance(wanted, Mapping):
        return [Comparison(field, Operator.EQ, filterable(wanted, level))]
    if any(isinstance(key, str) and key.startswith("$") for key in wanted):
        return [_operator(field, name, operand, level) for name, operand in wanted.items()]
    # A part of an object: what is named must be there, whatever else there is.
    parts: list[Filter] = [Comparison(f"{field}.{_OBJECT}", Operator.EQ, True)]
    for key, inner in wanted.items():
        parts += _matching(f"{field}.{field_name(key)}", inner, level + 1)
    return parts


def _operator(field: str, name: str, operand: Any, level: int) -> Filter:
    operator = _OPERATORS.get(name)
    if operator is None:
        raise FilterError(
            f"{name!r} is no operator of a store's filter; known are {', '.join(_OPERATORS)}",
            path=f"{field}.{name}",
        )
    stored = operator in (Operator.EQ, Operator.NE)
    return Comparison(field, operator, filterable(operand, level) if stored else operand)


def in_namespace(labels: Sequence[str], *, any_label: str | None = None) -> list[Filter]:
    """Return the filters for items whose namespace begins with these labels.

    Parameters
    ----------
    any_label
        The label that stands for any.
    """
    return [
        F(f"namespace.level{place}") == label(text)
        for place, text in enumerate(labels)
        if text != any_label
    ]
