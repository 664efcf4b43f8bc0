"""Writing: identity, versions, bad input, batches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentmem import Chunk, Document, InvalidDocumentError, Memory, Progress, Settings
from tests.support import START, MakeMemory, SetClock, WordEmbedder, texts


async def test_case_18_concurrent_identical_writes_give_one_document(memory: Memory) -> None:
    results = await asyncio.gather(*(memory.write("the same") for _ in range(10)))
    assert len({result.ids for result in results}) == 1
    assert sum(result.created for result in results) == 1
    assert await memory.count() == 1


async def test_case_18_a_retry_changes_nothing(memory: Memory) -> None:
    first = await memory.write("text", key="k", metadata={"a": 1})
    second = await memory.write("text", key="k", metadata={"a": 1.0})
    assert (second.unchanged, second.ids) == (1, first.ids)
    assert len(await memory.history("k")) == 1


async def test_the_same_document_twice_in_one_call(memory: Memory) -> None:
    result = await memory.write(["same", "same", "other"])
    assert result.ids[0] == result.ids[1]
    assert [d.status for d in result.documents] == ["created", "unchanged", "created"]


async def test_a_known_key_makes_a_new_version(memory: Memory, clock: SetClock) -> None:
    first = await memory.write("the code is 1111", key="code")
    clock.forward(days=1)
    second = await memory.write("the code is 2222", key="code")
    assert second.ids == first.ids
    assert second.documents[0].version == 2
    assert texts(await memory.search("code")) == ["the code is 2222"]
    assert [d.content for d in await memory.history("code")] == [
        "the code is 1111", "the code is 2222",
    ]  # fmt: skip
    current = await memory.get(first.ids[0])
    assert current is not None
    assert (current.content, current.version) == ("the code is 2222", 2)


async def test_one_key_in_two_collections_and_users_is_three_documents(memory: Memory) -> None:
    ids = {
        (await memory.write("x", key="k")).ids,
        (await memory.write("x", key="k", collection="other")).ids,
        (await memory.write("x", key="k", user_id="ada")).ids,
    }
    assert len(ids) == 3


async def test_changed_metadata_alone_makes_a_version(memory: Memory) -> None:
    await memory.write("text", metadata={"a": 1})
    result = await memory.write("text", metadata={"a": 2})
    assert (result.updated, result.documents[0].version) == (1, 2)


async def test_what_is_written_comes_back_whole(memory: Memory) -> None:
    moment = datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    metadata = {"n": 1, "f": 0.5, "t": "ä🦉", "l": [1, None, True], "o": {"x": moment}}
    written = await memory.write(
        "The owl hunts at night.",
        key="owl",
        title="Owls",
        source_uri="https://example.org/owl?q=1",
        user_id="ada",
        collection="birds",
        metadata=metadata,
        valid_from=moment,
        valid_until=moment + timedelta(days=9999),
        expires_at=START + timedelta(days=9999),
    )
    document = await memory.get(written.ids[0], user_id="ada")
    assert document is not None
    assert document.metadata == metadata
    assert (document.title, document.source_uri) == ("Owls", "https://example.org/owl?q=1")
    assert (document.valid_from, document.created_at) == (moment, START)
    assert document.expires_at == START + timedelta(days=9999)
    hit = (await memory.search("owl", user_id="ada")).hits[0]
    assert (hit.document_id, hit.key, hit.version, hit.collection) == (
        document.id, "owl", 1, "birds",
    )  # fmt: skip
    assert hit.metadata == metadata
    assert hit.citation.source_uri == "https://example.org/owl?q=1"
    assert document.content[slice(*hit.span)] == hit.text


async def test_the_arguments_of_a_call_are_defaults(memory: Memory) -> None:
    await memory.write(
        [Document("one", collection="own"), Document("two")], collection="given", user_id="ada"
    )
    found = (await memory.list(user_id="ada")).documents
    assert {d.content: d.collection for d in found} == {"one": "own", "two": "given"}


BAD_CONTENT: list[Any] = [
    "",
    "  \n\t",
    "a\0b",
    "\ud800",
    7,
    None,
    b"x",
    ["x", 7],
    {"text": "x"},
    "x" * (17 << 20),
]


@pytest.mark.parametrize("content", BAD_CONTENT, ids=lambda c: repr(c)[:20])
async def test_case_20_bad_content_is_refused_and_nothing_is_written(
    memory: Memory, content: Any
) -> None:
    with pytest.raises(InvalidDocumentError):
        await memory.write(content)
    assert await memory.count() == 0
    assert (await memory.stats()).chunks == 0


async def test_case_20_a_fact_in_the_last_sentence_of_a_long_note(real_memory: Memory) -> None:
    filler = "The meeting went on about the budget and the colour of the walls. " * 200
    await real_memory.write(
        [filler + "The vault opens with the word albatross.", "Bread is baked."]
    )
    result = await real_memory.search("Which word opens the vault?", k=1)
    assert result.hits[0].text.endswith("The vault opens with the word albatross.")


async def test_case_20_a_megabyte_is_cut_and_found(memory: Memory) -> None:
    words = " ".join(f"word{n % 700}" for n in range(140_000))
    result = await memory.write(words + " needle.")
    assert result.documents[0].chunks > 100
    hits = (await memory.search("needle", k=1)).hits
    assert "needle" in hits[0].text


async def test_case_21_a_bad_item_refuses_the_whole_call(memory: Memory) -> None:
    items = [Document(f"row {n}") for n in range(600)]
    items[555] = Document("bad", metadata={"x": {1, 2}})
    with pytest.raises(InvalidDocumentError, match="document 555") as caught:
        await memory.write(items)
    assert caught.value.position == 555
    assert await memory.count() == 0


async def test_case_21_a_stream_keeps_whole_batches(memory: Memory) -> None:
    async def stream() -> AsyncIterator[str]:
        for n in range(300):
            yield f"row {n}"
        yield ""

    with pytest.raises(InvalidDocumentError, match="the 256 documents before") as caught:
        await memory.write(stream())
    assert caught.value.position == 300
    assert await memory.count() == 256


async def test_progress_is_told(memory: Memory) -> None:
    told: list[Progress] = []
    await memory.write([f"row {n}" for n in range(600)], on_progress=told.append)
    assert [p.done for p in told] == [256, 512, 600]
    assert {p.total for p in told} == {600}


@pytest.mark.parametrize(
    "fault",
    [
        {"valid_from": START, "valid_until": START},
        {"expires_at": START},
        {"valid_from": START.replace(tzinfo=None)},
        {"valid_from": "2025-01-01"},
        {"key": ""},
        {"title": " "},
        {"collection": ""},
        {"metadata": {"$x": 1}},
        {"metadata": {"": 1}},
        {"metadata": {1: 1}},
        {"metadata": [1]},
        {"metadata": {"a": "\ud800"}},
    ],
    ids=lambda f: repr(f)[:40],
)
async def test_bad_fields_are_refused(memory: Memory, fault: Any) -> None:
    with pytest.raises(InvalidDocumentError, match="document 0"):
        await memory.write("text", **fault)
    assert await memory.count() == 0


class Lines:
    """A chunker of a caller: a chunk for each line."""

    def split(self, text: str) -> list[Chunk]:
        chunks, start = [], 0
        for index, line in enumerate(text.split("\n")):
            chunks.append(Chunk(index, start, start + len(line), len(line.split())))
            start += len(line) + 1
        return chunks


async def test_the_policy_of_chunking_can_be_changed(make_memory: MakeMemory) -> None:
    text = "the heron stands\nthe owl flies\nthe pike swims"
    async with make_memory(chunker=Lines()) as memory:
        written = await memory.write(text)
        assert written.documents[0].chunks == 3
        hit = (await memory.search("owl", k=1)).hits[0]
        assert (hit.text, hit.chunk_index, hit.span) == ("the owl flies", 1, (17, 30))
    settings = Settings(url="local://:memory:", chunker="whole")
    async with Memory(settings, embedder=WordEmbedder()) as memory:
        assert (await memory.write("word " * 1000)).documents[0].chunks == 1


async def test_numbers_of_metadata_are_plain_numbers(memory: Memory) -> None:
    await memory.write("x", metadata={"n": 1, "x": 0.5, "deep": [{"big": 2**62}]})
    for metadata in (
        (await memory.list()).documents[0].metadata,
        (await memory.search("x")).hits[0].metadata,
    ):
        assert json.loads(json.dumps(metadata)) == {"n": 1, "x": 0.5, "deep": [{"big": 2**62}]}
        assert type(metadata["n"]) is int
        assert type(metadata["x"]) is float


async def test_writers_of_one_key_make_one_chain_of_versions(memory: Memory) -> None:
    await asyncio.gather(*(memory.write(f"text {n}", key="k") for n in range(8)))
    versions = await memory.history("k")
    assert [v.version for v in versions] == list(range(1, 9))
    assert len({v.id for v in versions}) == 1
    assert len({v.content for v in versions}) == 8
