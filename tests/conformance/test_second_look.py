"""A reranker with a second look at the first candidates, within a time that the settings give."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentmem import ModelError, SearchResult
from agentmem.models.base import Encoding, RefiningReranker, RerankCandidate
from agentmem.models.late_interaction import LateInteractionReranker
from tests.support import MakeMemory, texts

ROWS = [f"The harbour of {name} lies in the north" for name in ("Oban", "Wick", "Mallaig", "Ayr")]
QUESTION = "the harbour of Oban"


class Scripted(LateInteractionReranker):
    """Adds what it is told to add, and remembers what it was asked."""

    id = "scripted"
    needs = frozenset({"codes", "text"})

    def __init__(self, gains: Sequence[float] = (), error: ModelError | None = None) -> None:
        self.gains = gains
        self.error = error
        self.asked: list[tuple[str, list[str], float]] = []
        self.first: list[float] = []

    async def rerank(
        self, query: str, encoding: Encoding | None, candidates: Sequence[RerankCandidate]
    ) -> list[float]:
        self.first = await super().rerank(query, encoding, candidates)
        return self.first

    async def refine(
        self, query: str, candidates: Sequence[RerankCandidate], seconds: float
    ) -> list[float]:
        self.asked.append((query, [candidate.text for candidate in candidates], seconds))
        if self.error is not None:
            raise self.error
        return list(self.gains)


class Waiting(Scripted):
    """Does not come to an end with its first second look."""

    def __init__(self) -> None:
        super().__init__()
        self.began = asyncio.Event()

    async def refine(
        self, query: str, candidates: Sequence[RerankCandidate], seconds: float
    ) -> list[float]:
        if not self.began.is_set():
            self.began.set()
            await asyncio.Event().wait()
        return await super().refine(query, candidates, seconds)


async def search(make_memory: MakeMemory, reranker: Any, **settings: Any) -> SearchResult:
    """Search all rows; the first call on a store writes them."""
    async with make_memory(reranker=reranker, settings=settings) as memory:
        await memory.write(ROWS)
        return await memory.search(QUESTION, explain=True)


def rerank_details(result: SearchResult) -> Any:
    return next(stage.details for stage in result.trace.stages if stage.name == "rerank")


async def test_it_sees_the_first_order_and_adds_to_it(make_memory: MakeMemory) -> None:
    first = await search(make_memory, "late")
    before = texts(first)
    assert "refined" not in rerank_details(first)
    scripted = Scripted([0.0, 0.0, 5.0])
    assert isinstance(scripted, RefiningReranker)
    result = await search(make_memory, scripted, rerank_budget=0.25)
    assert scripted.asked == [(QUESTION, before, 0.25)]
    assert texts(result) == [before[2], before[0], before[1], before[3]]
    assert rerank_details(result) == {**rerank_details(first), "refined": 3}
    scores = [hit.score for hit in result.hits]
    assert scores[0] == pytest.approx(first.hits[2].score + 5.0)
    assert scores[1:] == pytest.approx([first.hits[place].score for place in (0, 1, 3)])
    # What the first look said is still there.
    assert sorted(hit.scores.rerank or 0.0 for hit in result.hits) == sorted(scripted.first)


async def test_without_time_the_first_order_stands(make_memory: MakeMemory) -> None:
    before = texts(await search(make_memory, "late"))
    scripted = Scripted([])
    result = await search(make_memory, scripted, rerank_budget=0.0)
    assert texts(result) == before
    assert rerank_details(result)["refined"] == 0
    assert not result.degraded


async def test_one_that_fails_is_said(make_memory: MakeMemory) -> None:
    before = texts(await search(make_memory, "late"))
    result = await search(make_memory, Scripted(error=ModelError("out of order")))
    assert texts(result) == before
    assert result.degraded == ("the reranker 'scripted' took no second look: out of order",)
    assert "refined" not in rerank_details(result)


async def test_a_search_can_be_given_up_during_it(make_memory: MakeMemory) -> None:
    waiting = Waiting()
    async with make_memory(reranker=waiting) as memory:
        await memory.write(ROWS)
        task = asyncio.create_task(memory.search(QUESTION))
        await waiting.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len((await memory.search(QUESTION)).hits) == len(ROWS)
        assert len(waiting.asked) == 1
