"""Changing the embedding model of a memory: complete, resumable, and noticed by other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from agentmem import Document, Memory, Progress
from agentmem.errors import CapabilityError, ConflictError, ModelError, ModelMismatchError
from agentmem.models.base import Encoding
from tests.support import WordEmbedder, texts

NUMBER = 150  # more than two batches


class Longer(WordEmbedder):
    """Another model, with vectors of another length."""

    dimensions = 128
    token_dimensions = 128


class Failing(Longer):
    """The same model, which fails after some texts."""

    def __init__(self, name: str, calls: int) -> None:
        super().__init__(name)
        self.calls = calls

    async def embed_passages(self, texts: Sequence[str]) -> Encoding:
        self.calls -= 1
        if self.calls < 0:
            raise ModelError("the model broke")
        return await super().embed_passages(texts)


def opened(folder: Path, embedder: Any) -> Memory:
    return Memory(folder, embedder=embedder)


async def fill(folder: Path) -> None:
    async with opened(folder, WordEmbedder("old")) as memory:
        await memory.write([Document(f"tide number{n}", key=f"k{n}") for n in range(NUMBER)])
        await memory.write("heron rewritten", key="k0")
        await memory.write("gone", key="gone")
        await memory.forget(key="gone")


async def change(folder: Path, embedder: Any, **given: Any) -> None:
    memory = opened(folder, embedder)
    await memory.open(reembed=True, **given)
    await memory.close()


def staged(folder: Path) -> int:
    with apsw.Connection(str(folder / "memory.db")) as connection:
        number: int = connection.execute("SELECT COUNT(*) FROM staged_chunks").get
    connection.close()
    return number


async def test_everything_is_embedded_again(tmp_path: Path) -> None:
    await fill(tmp_path)
    told: list[Progress] = []
    await change(tmp_path, Longer("new"), on_progress=told.append)
    versions = NUMBER + 2
    assert (told[-1].done, told[-1].total) == (versions, versions)
    assert [step.done for step in told] == sorted(step.done for step in told)
    async with opened(tmp_path, Longer("new")) as memory:
        assert (await memory.verify()).findings == ()
        assert texts(await memory.search("number77", k=1)) == ["tide number77"]
        assert [d.content for d in await memory.history("k0")] == [
            "tide number0",
            "heron rewritten",
        ]
        assert "gone" not in texts(await memory.search("gone", k=100))
        stats = await memory.stats()
        assert (stats.embedder, stats.documents) == (Longer("new").id, NUMBER)
    assert staged(tmp_path) == 0
    with pytest.raises(ModelMismatchError, match=r"'new'.*'old'.*agentmem reembed"):
        await opened(tmp_path, WordEmbedder("old")).open()


async def test_chunks_are_cut_anew_for_a_model_with_less_room(tmp_path: Path) -> None:
    class Short(WordEmbedder):
        max_tokens = 32

    long = " ".join(f"Sentence {n} about the harbour." for n in range(60))
    async with opened(tmp_path, WordEmbedder("old")) as memory:
        before = (await memory.write(long, key="long")).documents[0].chunks
    await change(tmp_path, Short("short"))
    async with opened(tmp_path, Short("short")) as memory:
        assert (await memory.stats()).chunks > before
        assert (await memory.verify()).findings == ()


async def test_an_attempt_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    await fill(tmp_path)
    with pytest.raises(ModelError, match="broke"):
        await change(tmp_path, Failing("new", 2))
    done = staged(tmp_path)
    assert 0 < done < NUMBER
    # Nothing has changed for those who use the former model; they may even write.
    async with opened(tmp_path, WordEmbedder("old")) as memory:
        assert (await memory.verify()).findings == ()
        await memory.write("late osprey", key="late")
        await memory.write("tide rewritten", key="k1")
        assert texts(await memory.search("number77", k=1)) == ["tide number77"]
    counting = Failing("new", 1000)
    await change(tmp_path, counting)
    assert 1000 - counting.calls < NUMBER / 64 + 1  # not from the start
    async with opened(tmp_path, Longer("new")) as memory:
        assert (await memory.verify()).findings == ()
        for key, text in (("late", "late osprey"), ("k1", "tide rewritten")):
            assert texts(await memory.search(text, k=1)) == [text], key


async def test_a_document_purged_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    await fill(tmp_path)
    with pytest.raises(ModelError, match="broke"):
        await change(tmp_path, Failing("new", 2))
    before = staged(tmp_path)
    async with opened(tmp_path, WordEmbedder("old")) as memory:
        result = await memory.forget(key="k5", purge=True)
        assert result.scan is not None
        assert result.scan.found == ()
    assert staged(tmp_path) == before - 1
    await change(tmp_path, Longer("new"))
    async with opened(tmp_path, Longer("new")) as memory:
        assert await memory.history("k5") == ()
        assert (await memory.verify()).findings == ()


async def test_what_is_written_or_purged_while_it_runs_is_right(tmp_path: Path) -> None:
    await fill(tmp_path)
    async with opened(tmp_path, WordEmbedder("old")) as old:

        class Slow(Longer):
            calls = 0

            async def embed_passages(self, texts: Sequence[str]) -> Encoding:
                self.calls += 1
                if self.calls == 2:
                    await old.write("late osprey", key="late")
                    await old.forget(key="k120", purge=True)
                return await super().embed_passages(texts)

        await change(tmp_path, Slow("new"))
        for call in (old.search("tide"), old.write("more"), old.verify(repair=True)):
            with pytest.raises(ModelMismatchError, match=r"'new'.*'old'"):
                await call
        assert len((await old.list()).documents) == 100  # what needs no vectors still works
    async with opened(tmp_path, Longer("new")) as memory:
        assert (await memory.verify()).findings == ()
        assert texts(await memory.search("osprey", k=1)) == ["late osprey"]
        assert await memory.history("k120") == ()


async def test_two_changes_to_different_models_do_not_mix(tmp_path: Path) -> None:
    await fill(tmp_path)

    class Interrupted(Longer):
        calls = 0

        async def embed_passages(self, texts: Sequence[str]) -> Encoding:
            self.calls += 1
            if self.calls == 2:
                await change(tmp_path, WordEmbedder("third"))
            return await super().embed_passages(texts)

    with pytest.raises(ConflictError, match="another process"):
        await change(tmp_path, Interrupted("new"))
    async with opened(tmp_path, WordEmbedder("third")) as memory:
        assert (await memory.verify()).findings == ()


async def test_two_changes_to_the_same_model_help_each_other(tmp_path: Path) -> None:
    await fill(tmp_path)
    await asyncio.gather(change(tmp_path, Longer("new")), change(tmp_path, Longer("new")))
    async with opened(tmp_path, Longer("new")) as memory:
        assert (await memory.verify()).findings == ()


async def test_a_change_that_another_process_finished_meanwhile_is_done(tmp_path: Path) -> None:
    await fill(tmp_path)

    class Waiting(Longer):
        """Embeds when the other change is complete."""

        async def embed_passages(self, texts: Sequence[str]) -> Encoding:
            begun.set()
            await asyncio.wait([other])
            return await super().embed_passages(texts)

    begun = asyncio.Event()

    async def later() -> None:
        await begun.wait()
        await change(tmp_path, Longer("new"))

    other = asyncio.create_task(later())
    await change(tmp_path, Waiting("new"))
    await other
    async with opened(tmp_path, Longer("new")) as memory:
        assert (await memory.verify()).findings == ()


async def test_a_cancelled_change_leaves_the_memory_usable(tmp_path: Path) -> None:
    await fill(tmp_path)

    class Hanging(Longer):
        async def embed_passages(self, texts: Sequence[str]) -> Encoding:
            await asyncio.Event().wait()
            raise AssertionError

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await change(tmp_path, Hanging("new"))
    async with opened(tmp_path, WordEmbedder("old")) as memory:
        assert texts(await memory.search("number77", k=1)) == ["tide number77"]
        await memory.compact()  # gives up what was begun
    assert staged(tmp_path) == 0


async def test_the_same_model_and_a_new_folder_need_nothing(tmp_path: Path) -> None:
    await fill(tmp_path / "full")
    told: list[Progress] = []
    await change(tmp_path / "full", WordEmbedder("old"), on_progress=told.append)
    await change(tmp_path / "new", WordEmbedder("old"), on_progress=told.append)
    assert told == []
    memory = Memory("local://:memory:", embedder=WordEmbedder("old"))
    await memory.open(reembed=True)
    await memory.close()


async def test_read_only_refuses(tmp_path: Path) -> None:
    from agentmem import Settings

    await fill(tmp_path)
    memory = Memory(Settings(url=str(tmp_path), read_only=True), embedder=Longer("new"))
    with pytest.raises(CapabilityError, match="read-only"):
        await memory.open(reembed=True)
