"""The chain of stages: checked when made, printable, replaceable singly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from agentmem import (
    ClosedError,
    InvalidInputError,
    Memory,
    NotOpenError,
    PipelineError,
    StoreError,
)
from agentmem.backends._fusion import fuse, fusion_score
from agentmem.backends.base import Candidate
from agentmem.pipeline import Pipeline, SearchState
from tests.support import MakeMemory, texts


class Plain:
    """A stage that does what it is told."""

    runs = "client"

    def __init__(self, name: str, needs: set[str], adds: set[str]) -> None:
        self.name = name
        self.needs = frozenset(needs)
        self.adds = frozenset(adds)

    async def run(self, state: SearchState) -> None:
        pass

    def describe(self) -> Mapping[str, Any]:
        return {"x": 1}


ALL = {"plan", "hits", "citations", "context"}


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([Plain("a", {"plan"}, ALL)], "'a' needs plan"),
        ([Plain("a", set(), {"nonsense"})], "nonsense"),
        ([Plain("a", set(), ALL), Plain("a", set(), set())], "two stages"),
        ([Plain("a", set(), {"plan"})], "ends without citations, context, hits"),
        ([], "ends without"),
    ],
)
def test_a_chain_that_does_not_fit_is_refused(stages: list[Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Pipeline(stages)


async def test_a_stage_that_does_not_keep_its_word_is_named(memory: Memory) -> None:
    await memory.write("x")
    broken = memory.pipeline.replaced(budget=Plain("budget", {"ranked"}, ALL - {"plan"}))  # type: ignore[arg-type]
    from tests.unit.test_understand import request

    with pytest.raises(PipelineError, match="'budget' declares"):
        await broken.run(request("x"))


async def test_the_default_chain_prints_itself(memory: Memory) -> None:
    lines = str(memory.pipeline).splitlines()
    assert [line.split()[1] for line in lines] == [
        "understand", "scope", "candidates", "fuse", "rerank", "budget",
    ]  # fmt: skip
    assert "candidates, request -> fused  (k=60, limit=100)" in lines[3]


async def test_an_unknown_stage_cannot_be_replaced(make_memory: MakeMemory) -> None:
    with pytest.raises(PipelineError, match="no stage 'fusion'"):
        async with make_memory(stages={"fusion": Plain("fusion", set(), set())}):
            pass


class Backwards(Plain):
    """A stage 4 of a caller, with nothing but what the state holds: the worst first."""

    async def run(self, state: SearchState) -> None:
        assert state.candidates is not None
        state.fused = sorted(state.candidates, key=lambda c: c.vector_rank or 0, reverse=True)


@pytest.mark.parametrize("reranker", ["none", "late"])
async def test_one_stage_can_be_replaced(make_memory: MakeMemory, reranker: str) -> None:
    fuse = Backwards("fuse", {"candidates"}, {"fused"})
    async with make_memory(stages={"fuse": fuse}, reranker=reranker) as memory:
        await memory.write(["tide tide", "tide owl", "owl owl"])
        found = texts(await memory.search("tide"))
        assert set(found) == {"tide tide", "tide owl", "owl owl"}
        assert (found[0] == "owl owl") == (reranker == "none")


def test_reciprocal_rank_fusion() -> None:
    assert fusion_score((1, 2), 60) == 1 / 61 + 1 / 62
    rows = [
        Candidate(id="b", vector_rank=1, lexical_rank=None),
        Candidate(id="a", vector_rank=None, lexical_rank=1),
        Candidate(id="c", vector_rank=2, lexical_rank=2),
    ]
    assert [c.id for c in fuse(rows, k=60, limit=2)] == ["c", "a"]


async def test_a_search_stage_by_stage_is_a_search(memory: Memory) -> None:
    await memory.write(["tea with milk", "the kettle boils"])
    whole = await memory.search("tea", k=1, explain=True)
    search = memory.begin("tea", k=1, explain=True)
    assert search.state.plan is None
    await memory.advance(search, "understand")
    assert search.state.plan == whole.plan
    assert search.state.candidates is None
    with pytest.raises(PipelineError, match="did not set what it adds"):
        search.result()
    await memory.advance(search, "fuse")
    await memory.advance(search, "scope")
    assert search.state.ranked is None
    await memory.advance(search)
    await memory.advance(search)
    made = search.result()
    assert [s.name for s in made.trace.stages] == [s.name for s in whole.trace.stages]
    assert made.trace.explanations == whole.trace.explanations
    assert replace(made, trace=whole.trace) == whole
    with pytest.raises(PipelineError, match="no stage 'end' to go through"):
        await memory.advance(search, "end")


async def test_a_stage_that_failed_runs_again(make_memory: MakeMemory) -> None:
    class Failing(Plain):
        failed = False

        async def run(self, state: SearchState) -> None:
            if not self.failed:
                self.failed = True
                raise StoreError("not now")
            state.fused = []

    fuse = Failing("fuse", {"candidates"}, {"fused"})
    async with make_memory(stages={"fuse": fuse}) as memory:
        search = memory.begin("tea")
        with pytest.raises(StoreError):
            await memory.advance(search)
        await memory.advance(search)
        assert len(search.result().trace.stages) == 6


async def test_a_search_begins_with_the_checks_of_a_search(make_memory: MakeMemory) -> None:
    memory = make_memory()
    with pytest.raises(NotOpenError):
        memory.begin("tea")
    async with memory:
        with pytest.raises(InvalidInputError):
            memory.begin("tea", k=0)
        search = memory.begin("tea")
    with pytest.raises(ClosedError):
        await memory.advance(search)
