"""Half-open periods of the calendar in UTC: days, weeks, months, quarters, seasons, years."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Period: TypeAlias = tuple[datetime, datetime]

DAY = timedelta(days=1)
WEEK = timedelta(days=7)
UNITS = ("day", "week", "month", "quarter", "year")
_MONTHS_OF = {"month": 1, "quarter": 3, "year": 12}
FIRST_YEAR, LAST_YEAR = 1, 9998


def day(year: int, month: int, number: int) -> Period | None:
    """Return one day, or None when there is no such day."""
    try:
        start = datetime(year, month, number, tzinfo=UTC)
    except ValueError:
        return None
    return start, start + DAY


def months(year: int, month: int, count: int) -> Period:
    """Return `count` months from `month` (1 to 12) of `year` on."""
    return datetime(year, month, 1, tzinfo=UTC), datetime(
        *_add_months(year, month, count), 1, tzinfo=UTC
    )


def _add_months(year: int, month: int, count: int) -> tuple[int, int]:
    index = year * 12 + (month - 1) + count
    return min(max(index // 12, FIRST_YEAR), LAST_YEAR + 1), index % 12 + 1


def containing(moment: datetime, unit: str) -> Period:
    """Return the day, week (from Monday), month, quarter or year that `moment` lies in."""
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "day":
        return midnight, midnight + DAY
    if unit == "week":
        monday = midnight - timedelta(days=midnight.weekday())
        return monday, monday + WEEK
    length = _MONTHS_OF[unit]
    first = (midnight.month - 1) // length * length + 1
    return months(midnight.year, first, length)


def shifted(moment: datetime, unit: str, count: int) -> Period:
    """Return the unit that lies `count` units after that of `moment`; before, if negative."""
    start, _ = containing(moment, unit)
    if unit in ("day", "week"):
        start += (DAY if unit == "day" else WEEK) * count
        return start, start + (DAY if unit == "day" else WEEK)
    length = _MONTHS_OF[unit]
    year, month = _add_months(start.year, start.month, length * count)
    return months(year, month, length)


def back(moment: datetime, unit: str, count: int) -> datetime:
    """Return the moment `count` units before, with the day cut to the month's length."""
    if unit in ("day", "week"):
        return moment - (DAY if unit == "day" else WEEK) * count
    year, month = _add_months(moment.year, moment.month, -_MONTHS_OF[unit] * count)
    last = (months(year, month, 1)[1] - DAY).day
    return moment.replace(year=year, month=month, day=min(moment.day, last))


def season(year: int, name: str) -> Period:
    """Return a season of the northern half of the earth, in whole months.

    Winter of a year begins in December of the year before.
    """
    first = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}[name]
    return months(year - 1 if name == "winter" else year, first, 3)


def latest(build: Callable[[int], Period | None], now: datetime) -> Period | None:
    """Return the newest yearly period that has begun by `now`."""
    # Leap days may lie up to eight years back.
    for year in range(now.year + 1, max(now.year - 9, FIRST_YEAR), -1):
        period = build(year)
        if period is not None and period[0] <= now:
            return period
    return None
