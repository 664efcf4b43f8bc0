"""The chain of stages: checked when made, printable, replaceable singly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agentmem import Memory, PipelineError
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
    assert "candidates, request, scope -> fused  (k=60, limit=100)" in lines[3]


async def test_an_unknown_stage_cannot_be_replaced(make_memory: MakeMemory) -> None:
    with pytest.raises(PipelineError, match="no stage 'fusion'"):
        async with make_memory(stages={"fusion": Plain("fusion", set(), set())}):
            pass


class Backwards:
    """A stage 4 of a caller: the worst first."""

    name = "fuse"
    runs = "client"
    needs = frozenset({"candidates", "scope"})
    adds = frozenset({"fused"})

    def __init__(self, memory: list[Memory]) -> None:
        self._memory = memory

    async def run(self, state: SearchState) -> None:
        assert state.candidates is not None
        assert state.scope is not None
        await self._memory[0]._open_parts().backend.hydrate(state.scope, state.candidates, False)
        state.fused = sorted(state.candidates, key=lambda c: c.vector_rank or 0, reverse=True)

    def describe(self) -> Mapping[str, Any]:
        return {}


async def test_one_stage_can_be_replaced(make_memory: MakeMemory) -> None:
    box: list[Memory] = []
    async with make_memory(stages={"fuse": Backwards(box)}, reranker="none") as memory:
        box.append(memory)
        await memory.write(["tide tide", "tide owl", "owl owl"])
        assert texts(await memory.search("tide")) == ["owl owl", "tide owl", "tide tide"]


def test_reciprocal_rank_fusion() -> None:
    assert fusion_score((1, 2), 60) == 1 / 61 + 1 / 62
    rows = [
        Candidate(id="b", vector_rank=1, lexical_rank=None),
        Candidate(id="a", vector_rank=None, lexical_rank=1),
        Candidate(id="c", vector_rank=2, lexical_rank=2),
    ]
    assert [c.id for c in fuse(rows, k=60, limit=2)] == ["c", "a"]
