"""Lexical terms: the index and the query meet."""

from __future__ import annotations

import re
import string
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem._terms import (
    MAX_QUERY_TERMS,
    MAX_TERM_LENGTH,
    _pattern,
    analyze,
    fold,
    has_terms,
    query_terms,
)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Walking, walked; WALKS!", ["walk", "walk", "walk"]),
        ("ERR-4711", ["err", "4711", "err4711"]),
        ("ERR4711", ["err4711", "err", "4711"]),
        ("3.11.7", ["3", "11", "7", "3.11.7"]),
        ("it's don't L’amour", ["it", "don", "l", "amour"]),
        ("C++ and C#", ["c++", "and", "c#"]),
        ("#682", ["682"]),
        ("café CAFE\u0301", ["cafe", "cafe"]),
        ("Straße Ωμέγα", ["strass", "ωμεγα"]),
        ("乌龙", ["乌", "龙", "乌龙"]),
        ("कि ड़", ["कि", "ड\u093c"]),
        ("🦉 owl", ["🦉", "owl"]),
        ("a\0b \ud800 c", ["a", "b", "c"]),
        ("", []),
    ],
)
def test_the_terms_of_a_text(text: str, terms: list[str]) -> None:
    assert analyze(text) == terms


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("error ERR-4711 again", "ERR 4711"), ("error ERR-4711 again", "err4711"),
        ("error ERR4711 again", "ERR-4711"), ("python 3.11.7", "3.11"), ("B=128", "b=128"),
        ("mail ada@example.org", "ada@example.org"), ("1,299.50 euros", "1,299.50"),
        ("call +49 30 1234567", "1234567"), ("foo_bar", "foo_bar"), ("状态良好", "态良"),
        ("ｆｕｌｌ ｗｉｄｔｈ", "full width"), ("don’t", "don't"), ("the café", "the CAFE"),
    ],
)  # fmt: skip
def test_a_query_meets_the_index(stored: str, asked: str) -> None:
    assert set(query_terms(asked)) & set(analyze(stored))


def test_codes_that_differ_do_not_share_the_whole() -> None:
    assert "err4711" not in analyze("ERR-4712")
    assert "2024-05-01" not in analyze("2024-05-10")


def test_function_words_are_dropped_unless_nothing_is_left() -> None:
    assert query_terms("What is the name of the cat?") == ("name", "cat")
    assert query_terms("to be or not to be") == ("not",)
    assert query_terms("who are you") == ("who", "are", "you")


def test_a_long_query_is_bounded() -> None:
    assert len(query_terms(" ".join(f"w{n}" for n in range(10_000)))) == MAX_QUERY_TERMS
    assert len(analyze("x" * 1000)[0]) == MAX_TERM_LENGTH


@pytest.mark.parametrize(
    ("text", "expected"), [("?!", False), (" ", False), ("é", True), ("🦉", True)]
)
def test_whether_there_is_anything_to_search(text: str, expected: bool) -> None:
    assert has_terms(text) is expected


@given(st.text(max_size=300))
def test_any_text_gives_terms_without_white_space(text: str) -> None:
    for term in analyze(text):
        assert term
        assert len(term.split()) == 1
    assert set(query_terms(text)) <= set(analyze(text))


@given(st.text(alphabet="东京塔的夜景很美", min_size=2, max_size=12), st.data())
def test_a_part_of_a_run_of_chinese_is_found(run: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(run) - 2))
    end = data.draw(st.integers(start + 2, len(run)))
    assert set(query_terms(run[start:end])) <= set(analyze(f"x {run}"))


@given(st.text(st.sampled_from(string.printable + "++##''--..,,__aa11")))
def test_the_pattern_for_ascii_finds_what_the_whole_one_finds(text: str) -> None:
    folded = fold(text)
    assert folded.isascii()
    found = [
        [(match.lastgroup, match.group()) for match in pattern.finditer(folded)]
        for pattern in (_pattern(ascii_only=True), _pattern(ascii_only=False))
    ]
    assert found[0] == found[1]


def test_many_threads_find_what_one_finds() -> None:
    stems = ("run", "happ", "nation", "relat", "condit", "walk", "comput", "gener")
    ends = ("ning", "iness", "ally", "ional", "ed", "s", "er", "ization", "ful", "ly")
    text = " ".join(a + b + c for a, b, c in product(stems, ("", "ab", "cd"), ends))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(analyze, [text] * 40))
    finally:
        sys.setswitchinterval(before)
    assert found == [analyze(text)] * 40


@given(
    st.text() | st.text(st.sampled_from("eé\u0301\u0308иёй\u0915\u094dἀ\u05d0\u05b4ßﬁİ½ \u200d가"))
)
def test_accents_fall_from_three_scripts_and_no_other(text: str) -> None:
    kept, dropping = [], False
    whole = unicodedata.normalize(
        "NFKC", re.sub("[\u2019\u2018\u02bc\uff07]", "'", text)
    ).casefold()
    for sign in unicodedata.normalize("NFD", whole):
        if not unicodedata.combining(sign):
            name = unicodedata.name(sign, "")
            dropping = name.startswith(("LATIN", "GREEK", "CYRILLIC"))
        elif dropping:
            continue
        kept.append(sign)
    assert fold(text) == unicodedata.normalize("NFC", "".join(kept))
