"""Who sees what: filters, tenants, users, collections."""

from __future__ import annotations

from typing import Any

import pytest

from agentmem import Document, F, FilterError, InvalidScopeError, Memory
from tests.support import MakeMemory, texts

ODD_NAMES = ["acme", "acme-corp", "acme_corp", "a%", "a'b", 'a"b', "a/b", "🦉", "ACME", "a b"]


async def test_case_1_a_filter_never_starves_the_result(memory: Memory) -> None:
    near = [Document(f"tide table number {n}", metadata={"kind": "near"}) for n in range(40)]
    far = [Document(f"something else entirely {n}", metadata={"kind": "far"}) for n in range(10)]
    await memory.write([*near, *far])
    result = await memory.search("tide table number", where=F("kind") == "far", k=5)
    assert len(result.hits) == 5
    assert {hit.metadata["kind"] for hit in result.hits} == {"far"}


@pytest.mark.slow
async def test_case_2_the_4500th_nearest_is_found(memory: Memory) -> None:
    rows = [
        Document("tide " * 3 + f"w{n} " * (1 + n // 100), metadata={"n": n}) for n in range(5000)
    ]
    await memory.write(rows)
    result = await memory.search("tide", where=F("n") == 4500, k=5)
    assert [hit.metadata["n"] for hit in result.hits] == [4500]


async def test_case_2_with_a_smaller_memory(memory: Memory) -> None:
    await memory.write(
        [Document(f"tide {'x ' * (n // 10)}w{n}", metadata={"n": n}) for n in range(600)]
    )
    result = await memory.search("tide", where=F("n") == 599, k=5)
    assert [hit.metadata["n"] for hit in result.hits] == [599]


async def test_case_3_a_filter_holds_in_both_pools_and_with_negation(memory: Memory) -> None:
    for kind in ("note", "mail", "call"):
        await memory.write(
            [
                Document(f"{kind} about the harbour {n}", metadata={"kind": kind, "n": n})
                for n in range(5)
            ]
        )
    where = ~(F("kind") == "mail") & (F("n") >= 3)
    result = await memory.search("mail about the harbour", where=where, k=50)
    assert {(h.metadata["kind"], h.metadata["n"]) for h in result.hits} == {
        ("note", 3), ("note", 4), ("call", 3), ("call", 4),
    }  # fmt: skip


async def test_case_4_not_in_and_empty_in(memory: Memory) -> None:
    await memory.write(
        [Document(f"row {n}", metadata={"half": n % 2, "n": n}) for n in range(10)]
        + [Document("row without")]
    )
    rest = await memory.list(where=F("half").not_in([0]))
    assert sorted(d.content for d in rest.documents) == sorted(
        [*(f"row {n}" for n in range(1, 10, 2)), "row without"]
    )
    assert (await memory.search("row", where=F("half").in_([]))).hits == ()
    assert await memory.count(where=F("half").not_in([])) == 11


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_case_5_a_list_element_at_any_place(memory: Memory, place: int) -> None:
    tags = ["x", "y"]
    tags.insert(place, "wanted")
    await memory.write("tagged", metadata={"tags": tags})
    await memory.write("other", metadata={"tags": ["x", "y", "wanted too"]})
    result = await memory.search("tagged other", where=F("tags").contains("wanted"))
    assert texts(result) == ["tagged"]


async def test_case_6_equality_on_objects_and_lists(memory: Memory) -> None:
    await memory.write("one", metadata={"place": {"x": 1, "y": [1, 2]}})
    await memory.write("two", metadata={"place": {"x": 1, "y": [2, 1]}})
    found = await memory.list(where=F("place") == {"y": [1, 2], "x": 1.0})
    assert [d.content for d in found.documents] == ["one"]
    found = await memory.list(where={"place.y": {"eq": [2, 1]}})
    assert [d.content for d in found.documents] == ["two"]


VALUES: list[Any] = [True, 1, "1", None, 0, False, "", 2**53, 2**53 + 1, [], {}, [[]], "null"]


async def test_case_7_types_are_kept_apart(memory: Memory) -> None:
    for place, value in enumerate(VALUES):
        await memory.write(f"value {place}", metadata={"v": value})
    await memory.write("value none", metadata={})
    for place, value in enumerate(VALUES):
        found = await memory.list(where=F("v") == value)
        assert [d.content for d in found.documents] == [f"value {place}"], repr(value)
    same = await memory.list(where=F("v") == 1.0)
    assert [d.content for d in same.documents] == ["value 1"]
    assert await memory.count(where=F("v").exists(False)) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**63, {1}, b"x", object()])
async def test_case_7_what_cannot_be_compared_is_refused(memory: Memory, value: Any) -> None:
    with pytest.raises(Exception, match=r"metadata\.v") as caught:
        await memory.write("x", metadata={"v": value})
    assert type(caught.value).__name__ == "InvalidDocumentError"
    assert await memory.count() == 0


async def test_case_8_names_that_resemble_each_other_do_not_cross(make_memory: MakeMemory) -> None:
    async with make_memory() as memory:
        for name in ODD_NAMES:
            await memory.write(f"secret of {name}", user_id=name, collection=name)
        for name in ODD_NAMES:
            mine = [f"secret of {name}"]
            assert texts(await memory.search("secret", user_id=name, k=50)) == mine
            assert texts(await memory.search("secret", user_id=name, collections=[name])) == mine
            assert [d.content for d in (await memory.list(user_id=name)).documents] == mine
            assert await memory.count(user_id=name) == 1
        await memory.forget(user_id="acme")
        assert await memory.count(user_id="acme") == 0
        assert all([await memory.count(user_id=name) == 1 for name in ODD_NAMES[1:]])


async def test_case_8_tenants_in_one_folder_do_not_cross(opened: Any) -> None:
    memories = [await opened(tenant=name) for name in ODD_NAMES]
    for name, memory in zip(ODD_NAMES, memories, strict=True):
        await memory.write(f"secret of {name}", key="k")
    for name, memory in zip(ODD_NAMES, memories, strict=True):
        assert texts(await memory.search("secret", k=50)) == [f"secret of {name}"]
        assert [d.content for d in (await memory.list()).documents] == [f"secret of {name}"]
        assert (await memory.stats()).documents == 1
    await memories[0].forget(everything=True)
    assert [await memory.count() for memory in memories] == [0] + [1] * (len(memories) - 1)


async def test_case_9_a_user_with_nothing_gets_nothing(memory: Memory) -> None:
    await memory.write("secret", user_id="ada")
    assert (await memory.search("secret", user_id="bob")).hits == ()
    assert (await memory.search("secret")).hits == ()
    assert await memory.count(user_id="bob") == 0


@pytest.mark.parametrize("user", ["", "  ", 7, "x\0y", "\ud800", "x" * 600])
async def test_case_9_a_user_id_that_is_none_is_refused(memory: Memory, user: Any) -> None:
    with pytest.raises(InvalidScopeError, match="user_id"):
        await memory.search("x", user_id=user)
    with pytest.raises(InvalidScopeError, match="user_id"):
        await memory.list(user_id=user)
    with pytest.raises(InvalidScopeError, match="user_id"):
        await memory.forget(user_id=user)
    with pytest.raises(Exception, match="user_id"):
        await memory.write("x", user_id=user)


async def test_case_10_another_users_id_is_as_good_as_none(memory: Memory) -> None:
    hers = (await memory.write("hers", user_id="ada", key="k")).ids[0]
    assert await memory.get(hers, user_id="bob") is None
    assert await memory.get("nothing", user_id="bob") is None
    assert (await memory.forget(hers, user_id="bob")).missing == (hers,)
    assert (await memory.forget("nothing", user_id="bob")).missing == ("nothing",)
    assert (await memory.restore(hers, user_id="bob")).missing == (hers,)
    assert await memory.history("k", user_id="bob") == ()
    assert await memory.get(hers, user_id="ada") is not None


async def test_case_11_other_users_rows_do_not_push_mine_out(memory: Memory) -> None:
    await memory.write([f"tide table {n}" for n in range(300)], user_id="ada")
    await memory.write(["a far away thing", "tide once"], user_id="bob")
    result = await memory.search("tide table", user_id="bob", k=5)
    assert sorted(texts(result)) == ["a far away thing", "tide once"]


async def test_shared_rows_are_seen_by_everybody(memory: Memory) -> None:
    await memory.write("shared tide")
    await memory.write("ada's tide", user_id="ada")
    assert sorted(texts(await memory.search("tide", user_id="ada"))) == [
        "ada's tide",
        "shared tide",
    ]
    assert texts(await memory.search("tide", user_id="bob")) == ["shared tide"]


async def test_collections_narrow_and_an_empty_list_is_none(memory: Memory) -> None:
    await memory.write("tide one", collection="a")
    await memory.write("tide two", collection="b")
    assert texts(await memory.search("tide", collections=["b"])) == ["tide two"]
    assert (await memory.search("tide", collections=[])).hits == ()
    with pytest.raises(InvalidScopeError, match="list"):
        await memory.search("tide", collections="a")


async def test_a_filter_is_checked_before_the_store_is_touched(memory: Memory) -> None:
    with pytest.raises(FilterError) as caught:
        await memory.search("x", where={"and": [{"a": 1}, {"b": {"like": "x"}}]})
    assert caught.value.path == "and[1].b.like"


async def test_filters_over_a_documents_own_fields(memory: Memory) -> None:
    await memory.write("a", key="k1", title="First", source_uri="file:a")
    await memory.write("b", key="k2", title="Second")
    found = await memory.list(where=F("title").starts_with("Fi") & F("source_uri").exists())
    assert [d.key for d in found.documents] == ["k1"]
    assert await memory.count(where=F("key").in_(["k1", "k2"])) == 2
    assert await memory.count(where=F("version") >= 1) == 2


async def test_a_long_chain_of_conditions(memory: Memory) -> None:
    await memory.write([Document(f"row {n}", metadata={"n": n}) for n in range(50)])
    where = F("n") == 0
    for n in range(1, 500):
        where = where | (F("n") == n * 7)
    assert await memory.count(where=where) == 8
    with pytest.raises(FilterError, match="1,000 comparisons"):
        await memory.count(where=where | where | where)
