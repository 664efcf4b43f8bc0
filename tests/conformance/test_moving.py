"""Whole documents leave a memory and arrive in another one as they were."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from agentmem import (
    CapabilityError,
    ConflictError,
    Document,
    F,
    InvalidDocumentError,
    InvalidInputError,
    Memory,
    Settings,
)
from tests.support import MakeMemory, SetClock, WordEmbedder, texts


async def fill(memory: Memory, clock: SetClock) -> str:
    """Write a memory with everything in it that can be moved; return a forgotten id."""
    await memory.write("the wifi is heron-42", key="wifi", user_id="ada", title="Cabin")
    clock.forward(days=1, microseconds=123)
    await memory.write(
        "the wifi is otter-17",
        key="wifi",
        user_id="ada",
        metadata={"n": 1.5, "when": clock.now, "tags": ["a"]},
        valid_from=clock.now - timedelta(hours=1),
    )
    await memory.write("shared tea", collection="kitchen", source_uri="file:///tea")
    await memory.write("expires soon", expires_at=clock.now + timedelta(days=900))
    gone = await memory.write("forgotten words", user_id="ada")
    await memory.forget(gone.ids[0], user_id="ada")
    return gone.ids[0]


async def facts(memory: Memory) -> Any:
    """Return everything that a memory shows of what `fill` has written."""
    listed = [await memory.list(user_id=user) for user in (None, "ada")]
    return (
        [page.documents for page in listed],
        await memory.history("wifi", user_id="ada"),
        (await memory.stats()).forgotten,
    )


@pytest.fixture
async def empty(tmp_path: Path, clock: SetClock) -> AsyncIterator[Memory]:
    """Yield an empty memory in a folder of its own."""
    async with Memory(tmp_path / "other", embedder=WordEmbedder(), clock=clock) as memory:
        yield memory


@pytest.mark.parametrize("ending", [".parquet", ".jsonl"])
@pytest.mark.parametrize("vectors", [True, False])
async def test_out_and_in_again(
    make_memory: MakeMemory,
    empty: Memory,
    clock: SetClock,
    tmp_path: Path,
    ending: str,
    vectors: bool,
) -> None:
    path = tmp_path / f"memory{ending}"
    async with make_memory() as memory:
        gone = await fill(memory, clock)
        out = await memory.export(path, vectors=vectors)
        assert (out.documents, out.versions, out.chunks) == (4, 5, 5)
        into = await empty.import_(path)
        assert (into.documents, into.stored, into.present) == (4, 4, 0)
        assert into.embedded == (0 if vectors else 5)
        assert await facts(empty) == await facts(memory)
        for query in ("otter wifi", "tea"):
            mine = await memory.search(query, user_id="ada")
            theirs = await empty.search(query, user_id="ada")
            assert texts(theirs) == texts(mine)
        assert await empty.restore(gone, user_id="ada")
        assert (await empty.verify()).ok
    again = await empty.import_(path)
    assert (again.stored, again.present, again.embedded) == (0, 4, 0)
    assert not [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]


async def test_what_was_restored_meanwhile_stays(
    make_memory: MakeMemory, empty: Memory, clock: SetClock, tmp_path: Path
) -> None:
    async with make_memory() as memory:
        await fill(memory, clock)
        await memory.export(tmp_path / "m.parquet")
        await empty.import_(tmp_path / "m.parquet")
        assert (await memory.import_(tmp_path / "m.parquet")).present == 4


async def test_copies_agree(make_memory: MakeMemory, empty: Memory, clock: SetClock) -> None:
    async with make_memory() as memory:
        await fill(memory, clock)
        for source, destination in ((memory, empty), (empty, memory)):
            result = await source.copy_to(destination)
            assert result.documents == 4
            assert result.comparison
            assert result.comparison.ok
            assert result.comparison.agreeing == result.comparison.searches > 0
        assert await facts(empty) == await facts(memory)


async def test_the_turns_of_one_call_keep_their_order(
    make_memory: MakeMemory, empty: Memory, tmp_path: Path
) -> None:
    turns = [f"turn {number} of the talk" for number in (7, 3, 9, 1, 5, 2)]
    async with make_memory() as memory:
        await memory.write(turns)
        assert [row.content for row in (await memory.list()).documents] == turns
        await memory.export(tmp_path / "talk.jsonl")
        await empty.import_(tmp_path / "talk.jsonl")
        assert [row.content for row in (await empty.list()).documents] == turns
        for turn in turns:  # each stands behind the same two
            found = [await each.search(turn, explain=True) for each in (memory, empty)]
            scores = [
                {e.text: e.scores.rerank for e in one.trace.explanations or ()} for one in found
            ]
            assert scores[0] == pytest.approx(scores[1], abs=1e-6)


async def test_a_part_is_copied(make_memory: MakeMemory, empty: Memory, clock: SetClock) -> None:
    async with make_memory() as memory:
        await fill(memory, clock)
        kitchen = await memory.copy_to(empty, collections=["kitchen"])
        assert kitchen.stored == 1
        tagged = await memory.copy_to(empty, where=F("n") == 1.5)
        assert (tagged.stored, tagged.versions) == (1, 2)
        own = await memory.copy_to(empty, user_id="ada")
        assert (own.stored, own.present) == (1, 1)
        assert own.comparison
        assert own.comparison.ok


async def test_differences_are_told(
    make_memory: MakeMemory, empty: Memory, clock: SetClock
) -> None:
    async with make_memory() as memory:
        await fill(memory, clock)
        await memory.copy_to(empty)
        extra = await memory.write("only here")
        await memory.write("the wifi is kite-5", key="wifi", user_id="ada")
        comparison = (await memory.copy_to(empty)).comparison
        assert comparison
        assert not comparison.ok
        assert comparison.missing == ()
        assert len(comparison.different) == 1
        assert await empty.get(extra.ids[0])


async def test_another_model_embeds_again(
    make_memory: MakeMemory, tmp_path: Path, clock: SetClock
) -> None:
    async with (
        make_memory() as memory,
        Memory(tmp_path / "other", embedder=WordEmbedder("other"), clock=clock) as other,
    ):
        await fill(memory, clock)
        result = await memory.copy_to(other)
        assert result.embedded == result.versions == 5
        assert result.comparison
        assert result.comparison.ok
        assert result.comparison.agreeing is None
        assert texts(await other.search("tea", k=1)) == ["shared tea"]


async def test_a_taken_identity_is_a_conflict(
    make_memory: MakeMemory, empty: Memory, clock: SetClock
) -> None:
    async with make_memory() as memory:
        await memory.write("mine", key="k")
        clock.forward(seconds=1)
        theirs = await empty.write("theirs", key="k")
        with pytest.raises(ConflictError, match="cannot be brought in"):
            await empty.copy_to(memory)
        assert [d.content for d in (await memory.list()).documents] == ["mine"]
        await memory.forget(key="k", purge=True)
        assert (await empty.copy_to(memory)).stored == 1
        assert await memory.get(theirs.ids[0])


async def test_many_documents_in_batches(make_memory: MakeMemory, empty: Memory) -> None:
    async with make_memory() as memory:
        await memory.write([f"note {n} about tea" for n in range(150)])
        told: list[int] = []
        result = await memory.copy_to(empty, on_progress=lambda p: told.append(p.done))
        assert told == [64, 128, 150]
        assert result.comparison
        assert result.comparison.source == result.comparison.destination == 150
        # Cut short and done again: the rest is brought over.
        await empty.forget(collection="default", purge=True)
        await memory.copy_to(empty)
        assert await empty.count() == 150


@pytest.mark.parametrize("name", ["memory.txt", "memory", "memory.csv"])
async def test_other_endings_are_refused(memory: Memory, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"must end in one of \.parquet, \.jsonl"):
        await memory.export(tmp_path / name)


def other_table(path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1 AS a) TO '{path}' (FORMAT parquet)")


def not_parquet(path: Path) -> None:
    path.write_text("no parquet")


@pytest.mark.parametrize("make", [other_table, not_parquet, lambda path: None])
async def test_files_that_are_not_ours(
    memory: Memory, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "x.parquet"
    make(path)
    with pytest.raises(InvalidInputError, match=r"x\.parquet"):
        await memory.import_(path)
    assert await memory.count() == 0


async def test_tables_of_others(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,body,author,day\n1,tea,Ada,2025-01-02\n2,milk,,\n")
    columns = {
        "content": "body", "key": "id", "metadata.author": "author", "valid_from": "day",
    }  # fmt: skip
    result = await memory.import_table(tmp_path / "t.csv", columns, collection="csv")
    assert result.created == 2
    first, second = sorted((await memory.list()).documents, key=lambda d: d.key or "")
    assert (first.key, first.content, first.metadata, first.collection) == (
        "1", "tea", {"author": "Ada"}, "csv",
    )  # fmt: skip
    assert first.valid_from is not None
    assert second.metadata == {}
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": "salt", "n": 3}) + "\n")
    await memory.import_table(tmp_path / "t.jsonl", {"content": "text", "metadata.n": "n"})
    assert await memory.count(where=F("n") == 3) == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": "id"}, "which column holds the content"),
        ({"content": "nowhere"}, "cannot be read"),
        ({"content": "body", "author": "a"}, "'author' is no field of a document"),
    ],
)
async def test_columns_that_cannot_be_used(
    memory: Memory, tmp_path: Path, columns: dict[str, str], message: str
) -> None:
    (tmp_path / "t.csv").write_text("id,body\n1,tea\n")
    with pytest.raises(InvalidInputError, match=message):
        await memory.import_table(tmp_path / "t.csv", columns)


async def test_a_row_without_content(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,body\n1,tea\n2,\n")
    with pytest.raises(InvalidDocumentError) as caught:
        await memory.import_table(tmp_path / "t.csv", {"content": "body"})
    assert caught.value.position == 1


async def test_read_only_memories_export_and_take_nothing_in(tmp_path: Path, empty: Memory) -> None:
    await empty.write(Document("tea"))
    settings = Settings(url=str(tmp_path / "other"), read_only=True)
    async with Memory(settings, embedder=WordEmbedder()) as reader:
        assert (await reader.export(tmp_path / "m.parquet")).documents == 1
        for call in (
            reader.import_(tmp_path / "m.parquet"),
            reader.import_table(tmp_path / "m.parquet", {"content": "content"}),
            empty.copy_to(reader),
        ):
            with pytest.raises(CapabilityError, match="read-only"):
                await call
