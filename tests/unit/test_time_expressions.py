"""Every rule of the time expressions, at a fixed moment: Thursday 12 June 2025, 15:30 UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.pipeline.understand._times import find_window

NOW = datetime(2025, 6, 12, 15, 30, tzinfo=UTC)


def window(text: str, now: datetime = NOW) -> str | None:
    found = find_window(text, now)
    if found is None:
        return None
    sides = (found.start, found.end)
    return " ".join(
        "-" if s is None else s.strftime("%Y-%m-%dT%H:%M").removesuffix("T00:00") for s in sides
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what did I do today", "2025-06-12 2025-06-13"),
        ("yesterday's call", "2025-06-11 2025-06-12"),
        ("the day before yesterday", "2025-06-10 2025-06-11"),
        ("what is on tomorrow?", "2025-06-13 2025-06-14"),
        ("the day after tomorrow", "2025-06-14 2025-06-15"),
        ("last Tuesday", "2025-06-10 2025-06-11"),
        ("last Thursday", "2025-06-05 2025-06-06"),
        ("on Friday", "2025-06-06 2025-06-07"),
        ("this Friday", "2025-06-13 2025-06-14"),
        ("next Thursday", "2025-06-19 2025-06-20"),
        ("next Monday", "2025-06-16 2025-06-17"),
        ("last week", "2025-06-02 2025-06-09"),
        ("this week", "2025-06-09 2025-06-16"),
        ("next week", "2025-06-16 2025-06-23"),
        ("last weekend", "2025-06-07 2025-06-09"),
        ("this weekend", "2025-06-14 2025-06-16"),
        ("last month", "2025-05-01 2025-06-01"),
        ("this quarter", "2025-04-01 2025-07-01"),
        ("last year", "2024-01-01 2025-01-01"),
        ("next year", "2026-01-01 2027-01-01"),
        ("three weeks ago", "2025-05-19 2025-05-26"),
        ("2 days ago", "2025-06-10 2025-06-11"),
        ("a month ago", "2025-05-01 2025-06-01"),
        ("a couple of months ago", "2025-04-01 2025-05-01"),
        ("a few years ago", "2022-01-01 2023-01-01"),
        ("five years ago", "2020-01-01 2021-01-01"),
        ("in the last 10 days", "2025-06-02T15:30 2025-06-12T15:30"),
        ("the past two weeks", "2025-05-29T15:30 2025-06-12T15:30"),
        ("over the last three months", "2025-03-12T15:30 2025-06-12T15:30"),
        ("in May", "2025-05-01 2025-06-01"),
        ("in June", "2025-06-01 2025-07-01"),
        ("in July", "2024-07-01 2024-08-01"),
        ("last May", "2025-05-01 2025-06-01"),
        ("next May", "2026-05-01 2026-06-01"),
        ("in May 2023", "2023-05-01 2023-06-01"),
        ("May 2023", "2023-05-01 2023-06-01"),
        ("in early May", "2025-05-01 2025-05-11"),
        ("mid May 2023", "2023-05-11 2023-05-21"),
        ("late February 2024", "2024-02-21 2024-03-01"),
        ("at the end of May 2023", "2023-05-21 2023-06-01"),
        ("on May 5", "2025-05-05 2025-05-06"),
        ("May 5th, 2023", "2023-05-05 2023-05-06"),
        ("on the 5th of May 2023", "2023-05-05 2023-05-06"),
        ("5 May 2023", "2023-05-05 2023-05-06"),
        ("on 31 February 2024", "2024-02-01 2024-03-01"),
        ("on December 24", "2024-12-24 2024-12-25"),
        ("2023-05-04", "2023-05-04 2023-05-05"),
        ("in 2023-05", "2023-05-01 2023-06-01"),
        ("in 2023", "2023-01-01 2024-01-01"),
        ("during the year 2022", "2022-01-01 2023-01-01"),
        ("the 1990s", "1990-01-01 2000-01-01"),
        ("in the summer of 2023", "2023-06-01 2023-09-01"),
        ("winter 2024", "2023-12-01 2024-03-01"),
        ("last summer", "2024-06-01 2024-09-01"),
        ("next winter", "2025-12-01 2026-03-01"),
        ("in spring", "2025-03-01 2025-06-01"),
        ("in the autumn", "2024-09-01 2024-12-01"),
        ("Q2 2024", "2024-04-01 2024-07-01"),
        ("in Q1", "2025-01-01 2025-04-01"),
        ("since March", "2025-03-01 -"),
        ("since 2020", "2020-01-01 -"),
        ("after May 5, 2023", "2023-05-06 -"),
        ("before last week", "- 2025-06-02"),
        ("before 2024-02-01", "- 2024-02-01"),
        ("until May 2023", "- 2023-05-01"),
        ("between March and May 2025", "2025-03-01 2025-06-01"),
        ("from 2021 to 2023", "2021-01-01 2024-01-01"),
        ("between 5 May 2023 and 8 May 2023", "2023-05-05 2023-05-09"),
        ("What did Ana say last Tuesday about the house?", "2025-06-10 2025-06-11"),
    ],
)
def test_a_time_expression(text: str, expected: str) -> None:
    assert window(text) == expected
    assert window(text.upper()) == expected


@pytest.mark.parametrize(
    "text",
    [
        "may I come in", "it may rain", "march on", "the march of time", "fall asleep",
        "in the fall out shelter", "a second chance", "the second one", "sun and rain",
        "room 2023", "ERR-2023", "call me on 5551234", "version 2.0", "april is a nice name",
        "the weekly report", "before breakfast", "after the move", "from A to B", "in 30 minutes",
        "2023-13-45", "99999999 years ago", "9999 years ago",
    ],
)  # fmt: skip
def test_no_time_expression(text: str) -> None:
    assert window(text) is None


def test_leap_days_and_the_turn_of_the_year() -> None:
    leap = datetime(2024, 2, 29, 8, tzinfo=UTC)
    assert window("last year", leap) == "2023-01-01 2024-01-01"
    assert window("in the last year", leap) == "2023-01-01 2024-01-01"
    assert window("in the last 12 months", leap) == "2023-02-28T08:00 2024-02-29T08:00"
    assert window("on February 29", datetime(2023, 5, 1, tzinfo=UTC)) == "2020-02-29 2020-03-01"
    new_year = datetime(2025, 1, 1, tzinfo=UTC)
    assert window("yesterday", new_year) == "2024-12-31 2025-01-01"
    assert window("last month", new_year) == "2024-12-01 2025-01-01"


def test_the_words_are_kept() -> None:
    found = find_window("What did we do in May 2023, roughly?", NOW)
    assert found is not None
    assert found.text == "in May 2023"


@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    find_window(text, NOW)


WORDS = (
    "last next this in on since before after between and from to ago week month year days 3 14 "
    "2023 may march friday summer q2 early the of couple 31 2024-02-30 1990s weekend"
).split()


@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_any_mixture_of_time_words_gives_an_ordered_window(words: list[str]) -> None:
    found = find_window(" ".join(words), NOW)
    if found is not None and found.start is not None and found.end is not None:
        assert found.start < found.end
