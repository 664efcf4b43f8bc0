"""Query text of every kind."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from agentmem import InvalidInputError, InvalidQueryError, Memory
from tests.support import texts

ODD_QUERIES = [
    "it's", "note: hello", "#682", "B=128", "C++", "a/b", "https://x.y/z?q=1", "-foo",
    '"unbalanced', "NOT foo", "AND", "near the office", "about & {x}", "{0}", "%s",
    "'; drop table documents", "x" * 5000, "title:foo", "foo^2", "[a TO b]", "a~2", "\\", "a\\b",
]  # fmt: skip


@pytest.mark.parametrize("query", ODD_QUERIES, ids=lambda q: q[:20])
async def test_case_22_odd_text_is_searched_as_it_is(memory: Memory, query: str) -> None:
    await memory.write(
        ["it's a note: hello", "issue #682 with B=128", "C++ and a/b", "foo in the office"]
    )
    if query == "\\":
        with pytest.raises(InvalidQueryError):
            await memory.search(query)
        return
    result = await memory.search(query)
    assert len(result.hits) == 4


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("#682", "issue #682"), ("682", "issue #682"), ("C++", "we use C++"), ("C#", "we use C#"),
        ("B=128", "set B=128"), ("a/b", "an a/b test"), ("it's", "so it's done"),
        ("https://x.y/z?q=1", "see https://x.y/z?q=1"),
    ],
)  # fmt: skip
async def test_case_22_the_right_memory_is_found_by_its_words(
    memory: Memory, query: str, wanted: str
) -> None:
    rows = ["issue #682", "issue #683", "we use C++", "we use C#", "set B=128", "set B=129"]
    rows += ["an a/b test", "so it's done", "see https://x.y/z?q=1", "see https://x.y/z?q=2"]
    await memory.write(rows)
    result = await memory.search(query, explain=True)
    best = min(
        (e for e in result.trace.explanations or () if e.scores.lexical_rank is not None),
        key=lambda e: e.scores.lexical_rank or 0,
    )
    assert best.text == wanted


@pytest.mark.parametrize("query", ["(", "*", "...", "", "   ", "?!", "\n", "\0", "\ud800", "'"])
async def test_case_25_nothing_to_search_for_is_an_error(memory: Memory, query: str) -> None:
    await memory.write("x")
    with pytest.raises(InvalidQueryError, match="nothing to search for"):
        await memory.search(query)


@pytest.mark.parametrize("query", [None, 7, b"x", ["x"]])
async def test_a_query_that_is_no_text_is_an_error(memory: Memory, query: Any) -> None:
    with pytest.raises(InvalidQueryError, match="must be a str"):
        await memory.search(query)


@pytest.mark.parametrize(
    "arguments",
    [
        {"k": 0}, {"k": 4097}, {"k": True}, {"k": 2.0}, {"token_budget": 0}, {"deadline": 0},
        {"deadline": "1"}, {"deadline": float("nan")},
        {"diversify_by": "no field!"}, {"as_of": "2025-01-01"}, {"as_of": 7},
    ],
    ids=repr,
)  # fmt: skip
async def test_arguments_of_a_search_are_checked(memory: Memory, arguments: Any) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(arguments))):
        await memory.search("x", **arguments)


async def test_case_23_an_exact_code_among_200_nearer_ones(real_memory: Memory) -> None:
    near = [f"Error report {n}: the printer failed with a fault code again." for n in range(200)]
    await real_memory.write([*near, "Blue ink was ordered after ERR-4711."])
    for query in ("ERR-4711", "What was done about printer error ERR-4711?", "err 4711"):
        found = texts(await real_memory.search(query, k=8))
        assert "Blue ink was ordered after ERR-4711." in found, query


async def test_case_24_meaning_without_a_shared_word(real_memory: Memory) -> None:
    await real_memory.write(
        ["Jonas is allergic to peanuts.", "The car was washed on Monday.", "We like the sea."]
    )
    result = await real_memory.search("Which food makes him ill?", k=1)
    assert texts(result) == ["Jonas is allergic to peanuts."]


async def test_case_24_a_stray_word_does_not_win(real_memory: Memory) -> None:
    await real_memory.write(
        ["The doctor said she must not drink milk.", "Which bus goes to the harbour?"]
    )
    result = await real_memory.search("Which things is she not allowed to have?", k=1)
    assert texts(result) == ["The doctor said she must not drink milk."]


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        ("我喜欢喝乌龙茶和咖啡", "乌龙茶"),
        ("会议在星期五下午", "星期五"),
        ("the 乌龙茶 is in the cupboard", "乌龙茶 cupboard"),
        ("東京タワーの近く", "タワー"),
        ("한국어를 배웁니다", "한국어"),
        ("we met in the café", "cafe"),
        ("we met in the cafe", "CAFÉ"),
        (unicodedata.normalize("NFD", "Zoë Müller"), unicodedata.normalize("NFC", "zoë müller")),
        ("flight number \uff11\uff12\uff13\uff14", "1234"),
        ("Straße", "STRASSE"),
        ("ﬁle", "file"),
    ],
)
async def test_case_26_scripts_accents_and_forms(memory: Memory, stored: str, query: str) -> None:
    await memory.write([stored, "something else", "又一个"])
    result = await memory.search(query, explain=True)
    found = [e.text for e in result.trace.explanations or () if e.scores.lexical_rank == 1]
    assert found == [stored]


async def test_case_27_a_query_of_10_000_words(real_memory: Memory) -> None:
    await real_memory.write(["the heron stands still", "the owl flies"])
    result = await real_memory.search("heron " + "filler words here " * 3400)
    assert len(result.hits) == 2


async def test_no_rows_no_hits(memory: Memory) -> None:
    result = await memory.search("anything")
    assert (result.hits, result.context, result.citations, result.tokens) == ((), "", (), 0)


async def test_words_of_a_title_are_found_as_words(memory: Memory) -> None:
    await memory.write("It boils.", title="Kettle manual")
    await memory.write("It hums.")
    hit = (await memory.search("manual", k=1)).hits[0]
    assert (hit.title, hit.scores.lexical_rank) == ("Kettle manual", 1)
