"""Finds time expressions in a query and resolves them against the clock.

The rules, in the order in which they are tried; the first that finds something wins, and within a
rule the leftmost match. All periods are in UTC and half-open; weeks start on Monday.

    between X and Y, from X to Y    from the start of X to the end of Y
    since X                         from the start of X, open
    after X / before X, until X     after the end of X, open / up to the start of X
    2023-05-04, 2023-05             that day, that month
    May 5, May 5th 2023, 5 May      that day; without a year the newest one that has begun
    in May, in early May 2023       that month (or a third of it); likewise
    in the summer of 2023, Q2 2024  seasons in whole months, quarters
    in 2023, the 1990s              that year, that decade
    today, yesterday, ...           that day
    last Tuesday, on Tuesday        the newest Tuesday before today ("next": the first after today,
                                    "this": the one of this week)
    last week, this month, ...      the week, month, quarter, year or weekend before, of, after now
    three weeks ago                 the unit that lies so far back: that week, that day, that month
    in the last 10 days             from so long ago up to now

Words that only look like a time ("may I", "march on", "fall asleep", "second") are left alone: a
bare month or season counts after a preposition or with a year only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from agentmem._types import TimeWindow
from agentmem.pipeline.understand import _calendar as calendar
from agentmem.pipeline.understand._calendar import DAY, Period

Rule: TypeAlias = Callable[[re.Match[str], datetime], Period | None]

MAX_LENGTH = 2_000
"""Characters of a query that are looked at."""

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun",
            "july jul", "august aug", "september sept sep", "october oct", "november nov",
            "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_DAYS = {
    name: number
    for number, names in enumerate(
        ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    )
    for name in [names]
}
_NUMBERS = {
    word: number
    for number, words in enumerate(
        (
            "", "a an one", "two couple", "three few", "four", "five", "six", "seven", "eight",
            "nine", "ten", "eleven", "twelve",
        )
    )
    for word in words.split()
}  # fmt: skip
_NUMBERS["fourteen"] = 14

_MONTH = "(?P<month>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?\b"
_COUNT = (
    r"(?:the\s+)?(?P<count>\d{1,4}|(?:a\s+)?(?:couple|few)(?:\s+of)?|"
    + ("|".join(sorted((w for w in _NUMBERS if w not in ("couple", "few")), key=len, reverse=True)))
    + ")"
)
_UNIT = r"(?P<unit>day|week|month|quarter|year)s?"
_SEASON = r"(?P<season>spring|summer|autumn|fall|winter)"
_PART = r"(?:(?P<part>early|mid|late|the\s+(?:beginning|middle|end)\s+of)[\s-]+)?"
_IN = (
    r"\b(?:in|during|throughout|for|of|since|from|by|until|till|before|after|between|and|to|last|this"
    r"|next)\s+"
)
_ON = r"(?:\b(?:in|on)\s+)?"
_WEEKDAY = f"(?P<weekday>{'|'.join(_DAYS)})"
_NO_SEASON = r"(?!\s+(?:asleep|apart|in|out|for))"
_DAY_WORD = (
    r"(?P<word>day\s+before\s+yesterday|day\s+after\s+tomorrow|yesterday|today|tonight|tomorrow)"
)
_LONG_UNIT = r"(?P<unit>day|week|month|quarter|year|weekend)"
_LAST = r"\b(?:in|over|during|within|for)?\s*(?:the\s+)?(?:last|past|previous)\s+"
_WHICH = r"(?P<which>last|this|next|past|previous|current)"


def find_window(text: str, now: datetime) -> TimeWindow | None:
    """Return the period that `text` speaks of, or None.

    Parameters
    ----------
    text
        A query; only its first `MAX_LENGTH` characters are looked at.
    now
        Aware datetime in UTC.
    """
    text = text[:MAX_LENGTH]
    if _hint().search(text) is None:
        return None
    return _range(text, now) or _open(text, now) or _single(text, now)


def _range(text: str, now: datetime) -> TimeWindow | None:
    match = re.search(
        r"\b(?:between|from)\s+(?P<a>.{2,40}?)\s+(?:and|to|until|till|through)\s+(?P<b>.{2,40})",
        text,
        re.IGNORECASE,
    )
    if match is None:
        return None
    first, last = _anchored(match["a"], now), _anchored(match["b"], now)
    if first is None or last is None or first[1][0] >= last[1][1]:
        return None
    end = match.start("b") + last[0]
    return TimeWindow(start=first[1][0], end=last[1][1], text=text[match.start() : end])


def _open(text: str, now: datetime) -> TimeWindow | None:
    match = re.search(
        r"\b(?<!day )(?P<word>since|after|before|until|till|prior\s+to)\s+(?P<x>.{2,40})",
        text,
        re.IGNORECASE,
    )
    found = None if match is None else _anchored(match["x"], now)
    if match is None or found is None:
        return None
    length, (start, end) = found
    words = text[match.start() : match.start("x") + length]
    word = match["word"].lower()
    if word == "since":
        return TimeWindow(start=start, end=None, text=words)
    if word == "after":
        return TimeWindow(start=end, end=None, text=words)
    return TimeWindow(start=None, end=start, text=words)


def _anchored(text: str, now: datetime) -> tuple[int, Period] | None:
    """Return length and period of an expression that `text` starts with."""
    # A preposition makes bare months and years count.
    lead = "in "
    for pattern, rule in _rules():
        match = pattern.match(lead + text) or pattern.match(text)
        if match is not None:
            period = rule(match, now)
            if period is not None:
                shift = len(lead) if match.string.startswith(lead) else 0
                return match.end() - shift, period
    return None


def _single(text: str, now: datetime) -> TimeWindow | None:
    for pattern, rule in _rules():
        for match in pattern.finditer(text):
            period = rule(match, now)
            if period is not None:
                return TimeWindow(start=period[0], end=period[1], text=match.group().strip())
    return None


@lru_cache(maxsize=1)
def _hint() -> re.Pattern[str]:
    """Return a pattern of which every rule needs a match: a look at it spares most queries all."""
    words = (
        *_MONTHS, *_DAYS, "spring", "summer", "autumn", "fall", "winter", "yesterday", "today",
        "tonight", "tomorrow", "day", "week", "month", "quarter", "year",
    )  # fmt: skip
    return re.compile(rf"\d|\b(?:{'|'.join(words)})", re.IGNORECASE)


@lru_cache(maxsize=1)
def _rules() -> tuple[tuple[re.Pattern[str], Rule], ...]:
    sources: tuple[tuple[str, Rule], ...] = (
        (rf"{_ON}\b(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)\b", _iso_day),
        (r"(?:\bin\s+)?\b(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])\b(?!-)", _iso_month),
        (rf"{_ON}(?:the\s+)?\b{_MONTH}\s+{_DAY}(?:,?\s+{_YEAR})?(?!\w)", _month_day),
        (rf"{_ON}(?:the\s+)?\b{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?", _month_day),
        (rf"(?:{_IN})?{_PART}\b{_MONTH},?\s+(?:of\s+)?{_YEAR}", _month),
        (rf"{_IN}{_PART}\b{_MONTH}(?=\W|$)", _bare_month),
        (rf"(?:{_IN})?(?:the\s+)?\b{_SEASON}\s+(?:of\s+)?{_YEAR}", _season),
        (rf"\b(?P<which>last|this|next)\s+{_SEASON}\b", _relative_season),
        (rf"\b(?:in|during|over|of|since)\s+(?:the\s+)?{_SEASON}\b{_NO_SEASON}", _season),
        (rf"(?:\bin\s+)?\bq(?P<quarter>[1-4])(?:\s+(?:of\s+)?{_YEAR})?\b", _quarter),
        (r"\b(?:the\s+)?(?P<decade>(?:19|20)\d0)s\b", _decade),
        (rf"{_IN}(?:the\s+year\s+)?\b{_YEAR}(?!\s*-)", _year),
        (rf"(?:\bin\s+)?\b(?:the\s+)?{_DAY_WORD}\b", _word),
        (rf"(?:\bon\s+)?\b(?P<which>last|this|next|past)\s+{_WEEKDAY}\b", _weekday),
        (rf"\bon\s+{_WEEKDAY}\b", _weekday),
        (rf"{_COUNT}\s+{_LONG_UNIT}s?\s+(?:ago|back|earlier)\b", _ago),
        (rf"{_LAST}{_COUNT}\s+{_UNIT}\b", _last_units),
        (rf"\b{_WHICH}\s+(?P<unit>week|month|quarter|year|weekend)\b(?!\s+(?:ago))", _relative),
    )
    return tuple((re.compile(source, re.IGNORECASE), rule) for source, rule in sources)


def _iso_day(match: re.Match[str], now: datetime) -> Period | None:
    year = int(match["year"])
    if not calendar.FIRST_YEAR <= year <= calendar.LAST_YEAR:
        return None
    return calendar.day(year, int(match["month"]), int(match["day"]))


def _iso_month(match: re.Match[str], now: datetime) -> Period:
    return calendar.months(int(match["year"]), int(match["month"]), 1)


def _month_number(match: re.Match[str]) -> int:
    return _MONTHS[match["month"].lower()]


def _month_day(match: re.Match[str], now: datetime) -> Period | None:
    month, number = _month_number(match), int(match["day"])
    if match["year"]:
        return calendar.day(int(match["year"]), month, number)
    return calendar.latest(lambda year: calendar.day(year, month, number), now)


def _month(match: re.Match[str], now: datetime) -> Period:
    return _part(match, calendar.months(int(match["year"]), _month_number(match), 1))


def _bare_month(match: re.Match[str], now: datetime) -> Period | None:
    month = _month_number(match)
    words = match.group().lower().split()
    if words[0] == "next":
        year = now.year if month > now.month else now.year + 1
        return calendar.months(year, month, 1)
    if words[0] == "this":
        return _part(match, calendar.months(now.year, month, 1))
    if words[0] == "last" and month == now.month:
        return calendar.months(now.year - 1, month, 1)
    found = calendar.latest(lambda year: calendar.months(year, month, 1), now)
    return None if found is None else _part(match, found)


def _part(match: re.Match[str], month: Period) -> Period:
    """Cut a month to its first ten days, the next ten, or the rest."""
    word = (match["part"] or "").lower()
    start, end = month
    tenth, twentieth = start + 10 * DAY, start + 20 * DAY
    if "early" in word or "beginning" in word:
        return start, tenth
    if "mid" in word:
        return tenth, twentieth
    if "late" in word or "end" in word:
        return twentieth, end
    return start, end


def _season(match: re.Match[str], now: datetime) -> Period | None:
    name = match["season"].lower()
    groups = match.groupdict()
    if groups.get("year"):
        return calendar.season(int(groups["year"]), name)
    return calendar.latest(lambda year: calendar.season(year, name), now)


def _relative_season(match: re.Match[str], now: datetime) -> Period | None:
    name, which = match["season"].lower(), match["which"].lower()
    around = [calendar.season(year, name) for year in range(now.year - 1, now.year + 3)]
    if which == "next":
        return next((p for p in around if p[0] > now), None)
    if which == "last":
        return next((p for p in reversed(around) if p[1] <= now), None)
    return calendar.season(now.year, name)


def _quarter(match: re.Match[str], now: datetime) -> Period | None:
    first = int(match["quarter"]) * 3 - 2
    if match["year"]:
        return calendar.months(int(match["year"]), first, 3)
    return calendar.latest(lambda year: calendar.months(year, first, 3), now)


def _decade(match: re.Match[str], now: datetime) -> Period:
    return calendar.months(int(match["decade"]), 1, 120)


def _year(match: re.Match[str], now: datetime) -> Period:
    return calendar.months(int(match["year"]), 1, 12)


def _word(match: re.Match[str], now: datetime) -> Period:
    word = " ".join(match["word"].lower().split())
    distance = {
        "day before yesterday": -2,
        "yesterday": -1,
        "today": 0,
        "tonight": 0,
        "tomorrow": 1,
        "day after tomorrow": 2,
    }[word]
    return calendar.shifted(now, "day", distance)


def _weekday(match: re.Match[str], now: datetime) -> Period:
    today, _ = calendar.containing(now, "day")
    wanted = _DAYS[match["weekday"].lower()]
    which = (match.groupdict().get("which") or "last").lower()
    if which == "next":
        start = today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)
    elif which == "this":
        start = today + timedelta(days=wanted - today.weekday())
    else:
        start = today - timedelta(days=(today.weekday() - wanted - 1) % 7 + 1)
    return start, start + DAY


def _count(match: re.Match[str]) -> int:
    word = match["count"].lower()
    if word.isdecimal():
        return int(word)
    words = [part for part in word.split() if part != "of"]
    return _NUMBERS[words[-1]]


def _ago(match: re.Match[str], now: datetime) -> Period | None:
    count, unit = _count(match), match["unit"].lower()
    if _too_far(count, unit, now):
        return None
    if unit == "weekend":
        return _weekend(now - count * calendar.WEEK)
    return calendar.shifted(now, unit, -count)


def _last_units(match: re.Match[str], now: datetime) -> Period | None:
    count, unit = _count(match), match["unit"].lower()
    if _too_far(count, unit, now):
        return None
    return calendar.back(now, unit, count), now


def _too_far(count: int, unit: str, now: datetime) -> bool:
    days = {"day": 1, "week": 7, "weekend": 7, "month": 31, "quarter": 92, "year": 366}[unit]
    return now - datetime(2, 1, 1, tzinfo=UTC) < timedelta(days=days * count)


def _relative(match: re.Match[str], now: datetime) -> Period:
    distance = {"last": -1, "past": -1, "previous": -1, "next": 1}.get(match["which"].lower(), 0)
    unit = match["unit"].lower()
    if unit == "weekend":
        return _weekend(now + distance * calendar.WEEK)
    return calendar.shifted(now, unit, distance)


def _weekend(moment: datetime) -> Period:
    """Return Saturday and Sunday of the week that `moment` lies in."""
    monday, end = calendar.containing(moment, "week")
    return monday + 5 * DAY, end
