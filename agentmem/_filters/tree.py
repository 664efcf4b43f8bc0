"""The tree of a filter, and `F`, which builds it from Python expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, NoReturn

from agentmem._filters.values import check_value
from agentmem.errors import FilterError, InvalidInputError

COLUMNS = frozenset(
    {
        "id",
        "key",
        "title",
        "source_uri",
        "user_id",
        "collection",
        "version",
        "created_at",
        "valid_from",
        "valid_until",
        "expires_at",
    }
)
"""Fields of the document itself; every other name is a key of its metadata."""

METADATA_PREFIX = "metadata."
MAX_MEMBERS = 10_000
"""Most values of one `in` list: beyond it a collection or a metadata field serves better."""

MAX_TEXT_BYTES = 4000
"""Longest text that a field is compared with: the longest that every engine binds."""

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")


class Operator(Enum):
    """What a comparison asks of a field."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    IN = "in"
    NIN = "nin"
    EXISTS = "exists"
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"


_ORDERED = (Operator.GT, Operator.GTE, Operator.LT, Operator.LTE)


class Filter:
    """A condition on documents. Combine conditions with ``&``, ``|`` and ``~``."""

    __slots__ = ()

    def __and__(self, other: Filter) -> Filter:
        """Hold when both do."""
        return And((*_flat(self, And), *_flat(_filter(other), And)))

    def __or__(self, other: Filter) -> Filter:
        """Hold when at least one does."""
        return Or((*_flat(self, Or), *_flat(_filter(other), Or)))

    def __invert__(self) -> Filter:
        """Negate it."""
        return Not(self)

    def __bool__(self) -> NoReturn:
        """Refuse: `and`, `or`, `not` and chained comparisons would lose conditions."""
        raise FilterError(
            "a filter has no truth value; combine filters with & | ~ instead of and, or, not, and "
            "write (F('x') > 1) & (F('x') < 5) instead of 1 < F('x') < 5"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Filter):
    """One field against one value.

    Raises
    ------
    FilterError
        The field's name or the value does not fit.
    """

    field: str
    operator: Operator
    value: Any

    def __post_init__(self) -> None:
        """Check the parts."""
        check_field(self.field)
        object.__setattr__(self, "value", _checked(self.field, self.operator, self.value))

    @property
    def column(self) -> str | None:
        """The document's own field, or None for metadata."""
        return self.field if self.field in COLUMNS else None

    @property
    def path(self) -> tuple[str, ...]:
        """The keys that lead to the value in the metadata."""
        return tuple(self.field.removeprefix(METADATA_PREFIX).split("."))

    def __hash__(self) -> int:
        """Hash by text: a value may be a list or a dict."""
        return hash(repr(self))

    def __repr__(self) -> str:
        """Return the Python expression."""
        return _PYTHON[self.operator].format(f"F({self.field!r})", self.value)


@dataclass(frozen=True, slots=True, repr=False)
class And(Filter):
    """All parts hold; true without parts."""

    parts: tuple[Filter, ...]

    def __repr__(self) -> str:
        """Return the Python expression."""
        return "(" + " & ".join(map(repr, self.parts)) + ")"


@dataclass(frozen=True, slots=True, repr=False)
class Or(Filter):
    """At least one part holds; false without parts."""

    parts: tuple[Filter, ...]

    def __repr__(self) -> str:
        """Return the Python expression."""
        return "(" + " | ".join(map(repr, self.parts)) + ")"


@dataclass(frozen=True, slots=True, repr=False)
class Not(Filter):
    """The part does not hold."""

    part: Filter

    def __repr__(self) -> str:
        """Return the Python expression."""
        return f"~{self.part!r}"


_PYTHON = {
    Operator.EQ: "({} == {!r})",
    Operator.NE: "({} != {!r})",
    Operator.GT: "({} > {!r})",
    Operator.GTE: "({} >= {!r})",
    Operator.LT: "({} < {!r})",
    Operator.LTE: "({} <= {!r})",
    Operator.IN: "{}.in_({!r})",
    Operator.NIN: "{}.not_in({!r})",
    Operator.EXISTS: "{}.exists({!r})",
    Operator.CONTAINS: "{}.contains({!r})",
    Operator.STARTS_WITH: "{}.starts_with({!r})",
}


class F:
    """A field in a filter expression.

    Parameters
    ----------
    field
        A key of the metadata, with dots for nested objects, or one of the document's own fields
        (`id`, `key`, `title`, `source_uri`, `user_id`, `collection`, `version`, `created_at`,
        `valid_from`, `valid_until`, `expires_at`). ``metadata.`` in front always means metadata.

    Raises
    ------
    FilterError
        The name cannot be a field.
    """

    __slots__ = ("_field",)

    def __init__(self, field: str) -> None:
        self._field = check_field(field)

    def __eq__(self, value: object) -> Filter:  # type: ignore[override]  # builds a filter
        """Equal to `value`, in type and content."""
        return Comparison(self._field, Operator.EQ, value)

    def __ne__(self, value: object) -> Filter:  # type: ignore[override]  # builds a filter
        """Not equal to `value`, or missing."""
        return Comparison(self._field, Operator.NE, value)

    def __gt__(self, value: object) -> Filter:
        """Greater than a number, text or datetime."""
        return Comparison(self._field, Operator.GT, value)

    def __ge__(self, value: object) -> Filter:
        """Greater than or equal to a number, text or datetime."""
        return Comparison(self._field, Operator.GTE, value)

    def __lt__(self, value: object) -> Filter:
        """Less than a number, text or datetime."""
        return Comparison(self._field, Operator.LT, value)

    def __le__(self, value: object) -> Filter:
        """Less than or equal to a number, text or datetime."""
        return Comparison(self._field, Operator.LTE, value)

    __hash__ = None  # type: ignore[assignment]  # a field is not a value

    def in_(self, values: Iterable[object]) -> Filter:
        """Equal to one of `values`; an empty list matches nothing."""
        return Comparison(self._field, Operator.IN, values)

    def not_in(self, values: Iterable[object]) -> Filter:
        """Equal to none of `values`, or missing."""
        return Comparison(self._field, Operator.NIN, values)

    def exists(self, wanted: bool = True) -> Filter:
        """Present, also when its value is None; the opposite with False."""
        return Comparison(self._field, Operator.EXISTS, wanted)

    def contains(self, value: object) -> Filter:
        """Hold for a list with an element equal to `value`."""
        return Comparison(self._field, Operator.CONTAINS, value)

    def starts_with(self, prefix: str) -> Filter:
        """Hold for a text that begins with `prefix`."""
        return Comparison(self._field, Operator.STARTS_WITH, prefix)

    def __repr__(self) -> str:
        """Return the Python expression."""
        return f"F({self._field!r})"


def columns_of(tree: Filter) -> frozenset[str]:
    """Return the document's own fields that a filter looks at."""
    if isinstance(tree, (And, Or)):
        return frozenset().union(*map(columns_of, tree.parts))
    if isinstance(tree, Not):
        return columns_of(tree.part)
    column = tree.column if isinstance(tree, Comparison) else None
    return frozenset() if column is None else frozenset({column})


def check_field(field: object) -> str:
    """Return `field` when it can be a field.

    Raises
    ------
    FilterError
        It cannot.
    """
    if not isinstance(field, str) or not _FIELD.fullmatch(field) or field == "metadata":
        raise FilterError(
            f"{field!r} cannot be a field; a name starts with a letter or '_', goes on with "
            "letters, digits, '_' and '-', and dots join names",
            path=str(field),
        )
    return field


def _flat(tree: Filter, kind: type[And] | type[Or]) -> tuple[Filter, ...]:
    """Return the parts of a tree of this kind, so that a chain of `|` does not nest."""
    return tree.parts if isinstance(tree, kind) else (tree,)


def _filter(other: object) -> Filter:
    if not isinstance(other, Filter):
        raise FilterError(f"a filter cannot be combined with a {type(other).__name__}")
    return other


def _checked(field: str, operator: Operator, value: Any) -> Any:
    where = f"{field}.{operator.value}"
    if operator in (Operator.IN, Operator.NIN):
        return _members(value, where)
    _check_operand(value, where)
    if operator is Operator.EXISTS and not isinstance(value, bool):
        raise FilterError(f"{where} takes true or false, not {value!r}", path=where)
    if operator is Operator.STARTS_WITH and not isinstance(value, str):
        raise FilterError(f"{where} takes a text, not {type(value).__name__}", path=where)
    if operator in _ORDERED and not _is_ordered(value):
        raise FilterError(
            f"{where} compares numbers, texts or datetimes, not {type(value).__name__}", path=where
        )
    return _frozen(value)


def _members(values: Any, where: str) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise FilterError(f"{where} takes a list, not {type(values).__name__}", path=where)
    members = tuple(_frozen(value) for value in values)
    if len(members) > MAX_MEMBERS:
        raise FilterError(
            f"{where} has {len(members):,} values; the most is {MAX_MEMBERS:,}", path=where
        )
    for place, member in enumerate(members):
        _check_operand(member, f"{where}[{place}]")
    return members


def _check_operand(value: Any, where: str) -> None:
    path = where.partition("[")[0]
    try:
        check_value(value, where)
    except InvalidInputError as error:
        raise FilterError(str(error), path=path) from None
    if isinstance(value, str) and len(value.encode("utf-8")) > MAX_TEXT_BYTES:
        raise FilterError(
            f"{where} is a text of more than {MAX_TEXT_BYTES:,} bytes; compare with a shorter one",
            path=path,
        )


def _frozen(value: Any) -> Any:
    """Return a copy that later changes of the caller's lists and dicts do not reach."""
    if isinstance(value, Mapping):
        return {key: _frozen(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_frozen(inner) for inner in value]
    return value


def _is_ordered(value: Any) -> bool:
    return isinstance(value, (int, float, str, datetime)) and not isinstance(value, bool)
