"""Cutting texts into chunks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem import ConfigurationError
from agentmem._chunking import SentenceChunker, WholeChunker


def words(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def cut(text: str, most: int = 20, overlap: int = 5) -> list[str]:
    chunker = SentenceChunker(words, max_tokens=most, overlap_tokens=overlap)
    return [text[chunk.start : chunk.end] for chunk in chunker.split(text)]


def test_a_short_text_is_one_chunk_without_its_margins() -> None:
    chunks = SentenceChunker(words).split("  One. Two.\n")
    assert [(c.index, c.start, c.end, c.tokens) for c in chunks] == [(0, 2, 11, 4)]


def test_chunks_end_with_sentences_and_share_some() -> None:
    sentences = [f"This is sentence number {n} of all." for n in range(6)]
    assert cut(" ".join(sentences), 20, 9) == [" ".join(sentences[n : n + 2]) for n in range(5)]
    assert cut(" ".join(sentences), 20, 0) == [" ".join(sentences[n : n + 2]) for n in (0, 2, 4)]


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Who met Mr. Smith at 3.14 p.m. near St. James, e.g. at No. 7.",
        "We pay approx. 5.5 % of it, i.e. nearly nothing, cf. U.S. law.",
    ],
)
def test_abbreviations_do_not_end_a_sentence(text: str) -> None:
    tail = " And this is another sentence that follows here."
    assert cut(text + tail, 30, 0)[0] == text


def test_a_paragraph_is_a_better_end() -> None:
    first, second = "One two three. Four five six. Seven eight.", "Nine ten. Eleven twelve. More."
    assert cut(f"{first}\n\n{second}", 16, 0) == [first, second]


def test_sentences_of_chinese_and_japanese() -> None:
    text = "今天天气很好。我们去公园吧！你要来吗？"

    def characters(text: str) -> list[tuple[int, int]]:
        return [(n, n + 1) for n in range(len(text))]

    chunks = SentenceChunker(characters, max_tokens=8, overlap_tokens=0).split(text)
    assert [text[c.start : c.end] for c in chunks] == [
        "今天天气很好。",
        "我们去公园吧！",
        "你要来吗？",
    ]


def test_a_sentence_that_is_too_long_is_cut_at_words() -> None:
    text = " ".join(f"word{n}" for n in range(50))
    chunks = cut(text, 20, 0)
    assert all(len(words(chunk)) <= 20 for chunk in chunks)
    assert " ".join(chunks) == text


def test_text_without_spaces_is_cut_by_characters() -> None:
    text = "x" * 1_000_000
    chunks = cut(text, 20, 0)
    assert "".join(chunks) == text
    assert max(map(len, chunks)) <= 20 * 16


def test_the_work_grows_with_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(text: str) -> list[tuple[int, int]]:
        nonlocal calls
        calls += 1
        return words(text)

    for text in ("a. " * 50_000, "a\n" * 50_000, "." * 50_000, "Dr. " * 50_000, "a " * 50_000):
        calls = 0
        chunks = SentenceChunker(counted, max_tokens=50, overlap_tokens=10).split(text)
        assert calls == 1
        assert len(chunks) <= len(text) // 50 * 2


def test_a_chunk_must_be_larger_than_its_overlap() -> None:
    with pytest.raises(ConfigurationError, match="chunk_overlap"):
        SentenceChunker(words, max_tokens=20, overlap_tokens=20)


def test_whole_texts() -> None:
    text = "One. " * 500
    assert [(c.start, c.end) for c in WholeChunker(words).split(text)] == [(0, len(text) - 1)]


PIECES = st.sampled_from(
    ["a", "word ", ". ", "! ", "? ", "\n", "\n\n", "。", "Dr. ", " ", "é", "x" * 40, '"', ") "]
)


@given(st.lists(PIECES, min_size=1, max_size=200).map("".join), st.integers(2, 30), st.data())
def test_nothing_is_lost_and_nothing_is_too_long(text: str, most: int, data: st.DataObject) -> None:
    if not text.strip():
        return
    overlap = data.draw(st.integers(0, most - 1))
    chunks = SentenceChunker(words, max_tokens=most, overlap_tokens=overlap).split(text)
    covered: set[int] = set()
    for place, chunk in enumerate(chunks):
        part = text[chunk.start : chunk.end]
        assert chunk.index == place
        assert part == part.strip() != ""
        assert len(words(part)) <= most
        covered.update(range(chunk.start, chunk.end))
    assert [c.start for c in chunks] == sorted(c.start for c in chunks)
    assert all(n in covered for n, character in enumerate(text) if not character.isspace())
