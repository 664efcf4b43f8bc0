"""Times in a question move hits up or down and hide none."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentmem import Memory, Plan
from agentmem.pipeline import SearchRequest
from tests.support import MakeMemory, SetClock, texts

FEB, MAR, JUN, JUL = (datetime(2025, month, 10, tzinfo=UTC) for month in (2, 3, 6, 7))


def kettle(name: str) -> str:
    """Return a statement that hardly differs from the others of its kind."""
    return f"the kettle in the kitchen of our old house was taken to the shop by {name}"


async def write_at(memory: Memory, clock: SetClock, **moments: datetime) -> None:
    """Write a statement on each name, each at its time."""
    for name, moment in moments.items():
        clock.now = moment
        await memory.write(kettle(name))
    clock.now = JUL


async def test_what_lies_in_the_window_comes_first_and_the_rest_stays(
    memory: Memory, clock: SetClock
) -> None:
    await write_at(memory, clock, Lena=FEB, Ida=MAR, Fiete=JUN)
    result = await memory.search("the kettle in March", explain=True)
    assert texts(result)[0] == kettle("Ida")
    assert len(result.hits) == 3
    scores = [hit.score for hit in result.hits]
    assert scores == sorted(scores, reverse=True)
    assert [hit.scores.timing > 0 for hit in result.hits] == [True, False, False]
    assert result.trace["rerank"].details["timed"] == 1


async def test_a_window_counts_by_when_a_statement_holds(memory: Memory, clock: SetClock) -> None:
    clock.now = JUL
    await memory.write(kettle("Lena"), valid_from=MAR)
    await memory.write(kettle("Ida"), valid_from=FEB)
    assert texts(await memory.search("the kettle in March"))[0] == kettle("Lena")
    assert texts(await memory.search("the kettle in February"))[0] == kettle("Ida")


@pytest.mark.parametrize("reranker", ["late", "none"])
async def test_the_windows_rows_are_candidates_however_many_others_there_are(
    make_memory: MakeMemory, clock: SetClock, reranker: str
) -> None:
    async with make_memory(reranker=reranker, settings={"pool": 5, "fused": 10}) as memory:
        clock.now = FEB
        await memory.write([f"{kettle('Lena')} {number}" for number in range(30)])
        clock.now = MAR
        await memory.write(f"{kettle('Ida')}, said the man at the counter who knows her well")
        clock.now = JUL
        result = await memory.search("the kettle of Lena in March", k=3)
        assert any("said the man" in text for text in texts(result))
        assert result.trace["candidates"].details["in_window"] == 1
        assert len(result.hits) == 3


async def test_a_window_without_anything_changes_nothing(memory: Memory, clock: SetClock) -> None:
    await write_at(memory, clock, Lena=FEB, Fiete=JUN)
    with_window = await memory.search("the kettle in May 2019")
    assert len(with_window.hits) == 2
    assert {hit.scores.timing for hit in with_window.hits} == {0.0}


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Who takes the kettle to the shop now?", "Fiete"),
        ("Who takes the kettle to the shop, and is it old?", "Fiete"),
        ("Who took the kettle to the shop before the move?", "Lena"),
        ("Who used to take the kettle to the shop?", "Lena"),
    ],
)
async def test_of_alike_statements_the_one_of_the_right_time_comes_first(
    memory: Memory, clock: SetClock, question: str, first: str
) -> None:
    await write_at(memory, clock, Lena=FEB, Fiete=JUN)
    result = await memory.search(question)
    assert texts(result)[0] == kettle(first)
    assert len(result.hits) == 2


async def test_the_order_of_writing_at_one_time_says_nothing(memory: Memory) -> None:
    await memory.write([kettle(name) for name in ("Lena", "Fiete", "Ida")])
    for question in ("Is the kettle here now?", "Is the kettle here?", "Was it here before?"):
        asked = await memory.search(question)
        assert len(asked.hits) == 3
        assert {hit.scores.timing for hit in asked.hits} == {0.0}


async def test_the_callers_understanding_may_say_which_time_is_preferred(
    make_memory: MakeMemory, clock: SetClock
) -> None:
    async def understand(plan: Plan, request: SearchRequest) -> dict[str, Any]:
        return {"time_preference": "earlier"}

    async with make_memory(understand=understand) as memory:
        await write_at(memory, clock, Lena=FEB, Fiete=JUN)
        result = await memory.search("the kettle in the shop")
        assert texts(result) == [kettle("Lena"), kettle("Fiete")]
        assert result.plan.time_preference == "earlier"
        assert result.degraded == ()


async def test_an_answer_as_of_a_time_is_the_version_of_that_time(
    memory: Memory, clock: SetClock
) -> None:
    clock.now = FEB
    await memory.write("The wifi password is moss", key="wifi")
    clock.now = JUN
    await memory.write("The wifi password is quilt", key="wifi")
    clock.now = JUL
    for question in ("What is the wifi password now?", "What was the first wifi password?"):
        assert texts(await memory.search(question, as_of=MAR)) == ["The wifi password is moss"]
        assert texts(await memory.search(question)) == ["The wifi password is quilt"]
