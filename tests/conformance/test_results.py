"""Scores, pages, traces, explanations, budgets."""

from __future__ import annotations

import re

import pytest

from agentmem import Document, InvalidInputError, Memory
from tests.support import MakeMemory, SetClock, texts


async def test_case_31_the_same_text_has_similarity_1(real_memory: Memory) -> None:
    rows = ["The heron stands in the reeds.", "A short one", "Wir wohnen jetzt am Hafen."]
    await real_memory.write([*rows, *(f"filler number {n} {'x ' * n}" for n in range(40))])
    for row in rows:
        best = (await real_memory.search(row, k=1)).hits[0]
        assert best.text == row
        assert best.scores.similarity == pytest.approx(1.0, abs=1e-5)


async def test_case_31_higher_is_better(real_memory: Memory) -> None:
    await real_memory.write([f"The heron eats {n} fish" for n in range(30)] + ["Taxes are due"])
    hits = (await real_memory.search("what does the heron eat", k=31)).hits
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    assert hits[-1].text == "Taxes are due"
    by_rank = sorted(hits, key=lambda h: h.scores.vector_rank or 0)
    similarities = [h.scores.similarity or 0.0 for h in by_rank]
    assert similarities == sorted(similarities, reverse=True)


async def test_case_33_pages_add_up_while_rows_are_written(memory: Memory, clock: SetClock) -> None:
    for n in range(25):
        await memory.write(f"row {n}", key=f"k{n}")
        clock.forward(seconds=n % 2)
    everything = [d.id for d in (await memory.list(limit=1000)).documents]
    seen: list[str] = []
    cursor = None
    while True:
        page = await memory.list(limit=7, cursor=cursor)
        seen += [d.id for d in page.documents]
        clock.forward(seconds=1)
        await memory.write(f"new {len(seen)}")
        await memory.write(f"row again {len(seen)}", key="k3")
        cursor = page.cursor
        if cursor is None or len(seen) > 200:
            break
        if len(seen) >= 25:
            break
    assert seen[:25] == everything
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("cursor", ["", "x", "bm90IGpzb24=", "WzEsMl0=", "é"])
async def test_a_cursor_that_list_did_not_make(memory: Memory, cursor: str) -> None:
    with pytest.raises(InvalidInputError, match="cursor"):
        await memory.list(cursor=cursor)


async def test_the_trace_covers_all_stages(memory: Memory) -> None:
    await memory.write([f"tide {n}" for n in range(20)])
    trace = (await memory.search("tide 3", k=5)).trace
    assert [stage.name for stage in trace.stages] == [
        "understand", "scope", "candidates", "fuse", "rerank", "budget",
    ]  # fmt: skip
    assert trace["candidates"].count_out == 20
    assert trace["budget"].count_out == 5
    assert trace["candidates"].details["vector_pool"] == 20
    assert all(stage.milliseconds >= 0 for stage in trace.stages)


async def test_explain_tells_the_fate_of_each_candidate(memory: Memory) -> None:
    await memory.write([f"tide {n}" for n in range(12)])
    result = await memory.search("tide 3", k=4, explain=True)
    fates = result.trace.explanations or ()
    assert len(fates) == 12
    assert [f.reason for f in fates if f.kept] == [f"kept as [{n}]" for n in range(1, 5)]
    assert all("k is 4" in f.reason for f in fates if not f.kept)
    assert (await memory.search("tide")).trace.explanations is None


async def test_the_context_is_cited_and_within_the_budget(real_memory: Memory) -> None:
    rows = [
        Document(f"The heron number {n} lives by the mill. " * 3, title=f"Heron {n}", key=f"h{n}")
        for n in range(30)
    ]
    await real_memory.write(rows)
    for budget in (1, 40, 100, 333, 1000):
        result = await real_memory.search("Where does heron 7 live?", k=20, token_budget=budget)
        assert result.tokens <= budget
        assert len(result.hits) == len(result.citations)
        numbers = re.findall(r"^\[(\d+)\] Heron", result.context, re.MULTILINE)
        assert numbers == [str(c.number) for c in result.citations]
        for hit in result.hits:
            document = await real_memory.get(hit.document_id)
            assert document is not None
            assert document.content[slice(*hit.citation.span)] == hit.text
    assert any(entry.reason == "budget" for entry in result.left_out) or result.tokens <= 1000


async def test_duplicates_are_dropped(memory: Memory) -> None:
    await memory.write("The tide is high", key="a")
    await memory.write("the  TIDE is high", key="b")
    await memory.write("the tide is low", key="c")
    result = await memory.search("tide high")
    assert len(result.hits) == 2
    assert [entry.reason for entry in result.left_out] == ["duplicate"]


async def test_diversify_by_a_field(memory: Memory) -> None:
    await memory.write(
        [Document(f"tide tide {n}", metadata={"place": "mill"}) for n in range(5)]
        + [Document("one tide at the pier", metadata={"place": "pier"})]
    )
    plain = await memory.search("tide", k=2)
    spread = await memory.search("tide", k=2, diversify_by="place")
    assert {hit.metadata["place"] for hit in plain.hits} == {"mill"}
    assert {hit.metadata["place"] for hit in spread.hits} == {"mill", "pier"}


async def test_k_larger_than_the_pools(memory: Memory) -> None:
    await memory.write([f"tide w{n}" for n in range(300)])
    result = await memory.search("tide", k=300, token_budget=10**6)
    assert len(set(texts(result))) == 300


async def test_ties_at_the_end_of_a_pool_are_cut_in_the_order_of_ids(
    make_memory: MakeMemory,
) -> None:
    async with make_memory(reranker="none") as memory:
        written = await memory.write([Document("tide", key=f"k{n}") for n in range(150)])
        result = await memory.search("tide", k=1, explain=True)
        candidates = {e.document_id for e in result.trace.explanations or ()}
        assert candidates == set(sorted(written.ids)[:100])


async def test_what_fusion_keeps_is_the_best_by_fusion(make_memory: MakeMemory) -> None:
    """Also where the engine cuts by itself."""
    words = ["tea", "milk", "sugar", "kettle", "water", "leaf"]
    written = [" ".join(words[n % 6 :: 1 + n % 3]) + f" {n} " + "x " * (n % 7) for n in range(60)]
    found = []
    for fused in (500, 5):
        async with make_memory(reranker="none", settings={"fused": fused}) as memory:
            await memory.write(written)
            result = await memory.search("tea water leaf", k=1, explain=True)
            found.append(result.trace.explanations)
    uncut, kept = found
    best = sorted(uncut or (), key=lambda e: (-e.scores.fusion, e.id))[:5]
    assert {e.id for e in kept or ()} == {e.id for e in best}
