"""Forgetting, restoring, purging."""

from __future__ import annotations

from typing import Any

import pytest

from agentmem import ConfirmationError, ConflictError, F, InvalidInputError, Memory
from tests.support import MakeMemory, SetClock, texts


async def test_case_12_what_is_forgotten_is_gone_everywhere(make_memory: MakeMemory) -> None:
    async with make_memory() as memory:
        written = await memory.write(["the heron code is 4711", "the owl code is 4712"])
        receipt = await memory.forget(written.ids[0])
        assert (receipt.count, receipt.purged, receipt.documents[0].id) == (
            1,
            False,
            written.ids[0],
        )
        assert texts(await memory.search("heron")) == ["the owl code is 4712"]
        assert texts(await memory.search("4711 heron code")) == ["the owl code is 4712"]
        assert await memory.get(written.ids[0]) is None
        assert [d.id for d in (await memory.list()).documents] == [written.ids[1]]
        assert await memory.count() == 1


async def test_case_13_the_other_user_keeps_everything(memory: Memory) -> None:
    for user in ("ada", "bob"):
        await memory.write(["Lisbon is nice", "Porto too"], user_id=user)
    await memory.write("shared")
    assert (await memory.forget(user_id="ada")).count == 2
    assert await memory.count(user_id="ada") == 1
    assert await memory.count(user_id="bob") == 3


async def test_case_14_the_same_text_again_is_a_new_document(
    memory: Memory, clock: SetClock
) -> None:
    first = await memory.write("the heron", key="k")
    await memory.forget(first.ids[0])
    second = await memory.write("the heron", key="k")
    assert second.created == 1
    assert second.ids != first.ids
    assert texts(await memory.search("heron")) == ["the heron"]
    with pytest.raises(ConflictError, match="written again"):
        await memory.restore(first.ids[0])
    await memory.forget(second.ids[0])
    assert (await memory.restore(first.ids[0])).restored == first.ids


async def test_case_16_an_id_that_a_tokenizer_would_split(memory: Memory) -> None:
    await memory.write("alpha test-1", key="test-1")
    await memory.write("alpha test-2", key="test-2")
    assert (await memory.forget(key="test-1")).count == 1
    assert texts(await memory.search("test-1 alpha")) == ["alpha test-2"]


async def test_restore_brings_all_versions_back(memory: Memory, clock: SetClock) -> None:
    await memory.write("one", key="k")
    clock.forward(days=1)
    name = (await memory.write("two", key="k")).ids[0]
    await memory.forget(key="k")
    assert await memory.history("k") == ()
    assert (await memory.restore([name, "nothing"])).missing == ("nothing",)
    assert [d.content for d in await memory.history("k")] == ["one", "two"]
    assert texts(await memory.search("two")) == ["two"]


async def test_a_purge_cannot_be_undone(memory: Memory) -> None:
    name = (await memory.write("the heron")).ids[0]
    await memory.write("the owl")
    assert (await memory.forget(name, purge=True)).purged
    assert (await memory.restore(name)).missing == (name,)
    assert texts(await memory.search("heron")) == ["the owl"]
    assert (await memory.verify()).ok
    assert (await memory.stats()).forgotten == 0


async def test_a_purge_covers_what_was_forgotten_before(memory: Memory) -> None:
    name = (await memory.write("the heron")).ids[0]
    await memory.forget(name)
    assert (await memory.forget(name, purge=True)).count == 1
    assert (await memory.stats()).forgotten == 0


async def test_dry_run_says_what_would_go(memory: Memory, clock: SetClock) -> None:
    await memory.write("one", key="k")
    clock.forward(days=1)
    await memory.write("two", key="k")
    receipt = await memory.forget(key="k", dry_run=True, purge=True)
    assert (receipt.count, receipt.dry_run, receipt.purged) == (1, True, False)
    assert (receipt.documents[0].versions, receipt.documents[0].chunks) == (2, 2)
    assert await memory.count() == 1


async def test_forget_by_filter_collection_and_everything(memory: Memory) -> None:
    for n in range(6):
        await memory.write(f"row {n}", metadata={"n": n}, collection="a" if n < 3 else "b")
    assert (await memory.forget(where=F("n") >= 5)).count == 1
    assert (await memory.forget(collection="a", where=F("n") == 0)).count == 1
    assert (await memory.forget(collection="b")).count == 2
    assert (await memory.forget(everything=True)).count == 2
    assert await memory.count() == 0


@pytest.mark.parametrize(
    "arguments",
    [{}, {"everything": True, "user_id": "a"}, {"ids": 7}, {"ids": [7]}, {"key": ""}, {"where": 7}],
    ids=repr,
)
async def test_unclear_wishes_are_refused(memory: Memory, arguments: Any) -> None:
    await memory.write("x")
    with pytest.raises(InvalidInputError):
        await memory.forget(**arguments)
    assert await memory.count() == 1


@pytest.mark.parametrize("purge", [False, True])
async def test_many_documents_are_forgotten_only_when_confirmed(
    make_memory: MakeMemory, purge: bool
) -> None:
    async with make_memory(settings={"forget_limit": 3}) as memory:
        await memory.write([f"note {n}" for n in range(4)])
        with pytest.raises(ConfirmationError, match=r"would forget 4 documents.*confirm=True") as e:
            await memory.forget(everything=True, purge=purge)
        assert e.value.documents == 4
        assert await memory.count() == 4
        assert await memory.receipts() == ()
        assert (await memory.forget(everything=True, dry_run=True)).count == 4
        assert (await memory.forget(everything=True, purge=purge, confirm=True)).count == 4
        await memory.write(["a", "b", "c"])
        assert (await memory.forget(everything=True)).count == 3
