"""Which words of a question a candidate holds, itself or with what stands before it."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from itertools import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem._held_terms import held_terms
from agentmem._terms import analyze, query_terms
from agentmem.backends.base import ChunkRow
from agentmem.pipeline._words import shared_words

WORDS = (
    "walk walked walking Walker skies sky happy happily dying die lies hope hoping hopping art "
    "artist relational relate ability able news ugly don't Ann's well-known 2024 7 a be 東京 café "
    "東京タワー 上海 Straße ёлки ЁЛКИ हिन्दी हिन Αθήνα กรุงเทพ 한국어 walk東京"
).split()


def held(texts: Sequence[str], terms: Sequence[str]) -> list[set[str]]:
    found = held_terms(texts, terms)
    assert found.shape == (len(texts), len(terms))
    return [set(compress(terms, row)) for row in found.tolist()]


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=5),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
    st.sampled_from(
        [" ", ". ", "\n", "/", "_", '" ', " \u201c", "\u2026", "\u2014", "\U0001f600 ", " \u00e9 "]
    ),
)
def test_held_terms_are_those_of_the_index(
    words: list[list[str]], asked: list[str], between: str
) -> None:
    texts = [between.join(some) for some in words]
    terms = query_terms(" ".join(asked))
    assert held(texts, terms) == [set(terms).intersection(analyze(text)) for text in texts]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("C++ compiler", "Made with c++ 20"),
        ("version 3.11.7", "Python 3.11.7 came"),
        ("ERR-4711", "it says ERR-4711"),
        ("ERR 4711", "err-4711"),
        ("naïve", "a naïve plan"),
    ],
)
def test_codes_and_names_are_found(query: str, text: str) -> None:
    assert held([text], query_terms(query))[0]


def test_signs_and_letters_beyond_ascii_change_no_word() -> None:
    terms = ["walk", "cafe", "happili", "well", "known"]
    for sign in map(chr, (*range(0x80, 0x2E80), *range(0xFE00, 0x10000), *range(0x1F000, 0x1FB00))):
        text = f"walked{sign}cafe happily. well{sign}known {sign}"
        meant = unicodedata.normalize("NFKC", sign)
        if any(part.isnumeric() for part in meant):
            continue  # it makes a code of a word
        asked, rest = terms, ""
        if not any(part.isalpha() for part in meant):
            asked, rest = [*terms, "7", "2024"], f"7{sign}2024"
        found = held([text + rest], asked)[0]
        assert found == {*asked} & {*analyze(text + rest)}, hex(ord(sign))


def test_a_word_in_the_middle_of_another_is_none() -> None:
    assert held(["smart cart", "art"], ["art"]) == [set(), {"art"}]


def row(text: str, *before: str) -> ChunkRow:
    return ChunkRow(
        document_id="d", version=1, chunk_index=0, start=0, end=len(text), text=text, tokens=5,
        key=None, title=None, source_uri=None, user_id=None, collection="c", metadata={},
        created_at=0, valid_from=None, valid_until=None,
        texts_before=tuple(before),
    )  # fmt: skip


def test_words_of_what_stands_before_count_once() -> None:
    rows = [row("the ferry"), row("at ten", "the ferry"), row("a ferry", "the ferry"), row("no")]
    scores = shared_words(rows, ["ferri", "torsbi"])
    assert scores.tolist() == pytest.approx([math.log(5 / 4)] * 3 + [0.0])


def test_a_rare_word_counts_for_more_and_a_title_counts() -> None:
    rows = [row("ferry"), row("ferry"), row("pier")]
    rows[2].title = "To Torsby"
    first, _, third = shared_words(rows, ["ferri", "torsbi"])
    assert third == pytest.approx(math.log(4 / 2))
    assert third > first > 0


def test_a_word_that_all_hold_tells_nothing() -> None:
    assert shared_words([row("ferry"), row("ferry")], ["ferri"]).tolist() == [0.0, 0.0]
    assert shared_words([], ["ferri"]).tolist() == []
    assert shared_words([row("ferry")], []).tolist() == [0.0]
