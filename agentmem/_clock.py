"""Times: the clock, checks on a caller's datetimes, and microseconds for the engines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import TypeAlias

from agentmem.errors import ConfigurationError, InvalidInputError

Clock: TypeAlias = Callable[[], datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def checked(clock: Clock) -> Clock:
    """Return a clock that gives UTC and refuses what is no aware datetime.

    Raises
    ------
    ConfigurationError
        By the returned clock: `clock` gave something else.
    """

    def now() -> datetime:
        moment = clock()
        if not isinstance(moment, datetime) or moment.utcoffset() is None:
            raise ConfigurationError(
                f"the clock returned {moment!r}; it must return datetimes with a time zone, "
                "such as datetime.now(timezone.utc)"
            )
        return moment.astimezone(UTC)

    return now


def to_micros(moment: datetime) -> int:
    """Return microseconds since 1970-01-01 UTC."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the aware UTC datetime for microseconds since 1970-01-01 UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def check_moment(value: object, name: str) -> datetime | None:
    """Return `value` in UTC.

    Raises
    ------
    InvalidInputError
        It is neither None nor an aware datetime. A naive datetime is refused, because it would
        mean another instant on another machine.
    """
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidInputError(
            f"{name} must be a datetime with a time zone, not {type(value).__name__}"
        )
    if value.utcoffset() is None:
        raise InvalidInputError(
            f"{name} is {value!r}, a datetime without a time zone; "
            "add one, for example value.replace(tzinfo=timezone.utc)"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidInputError(
            f"{name} is {value!r}, which lies outside the years 1 to 9999 in UTC"
        ) from None


def check_as_of(value: object) -> datetime | None:
    """Return the instant that `as_of` means; a date stands for the end of that day in UTC.

    Raises
    ------
    InvalidInputError
        It is neither None, a date nor an aware datetime.
    """
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time.max, tzinfo=UTC)
    return check_moment(value, "as_of")
