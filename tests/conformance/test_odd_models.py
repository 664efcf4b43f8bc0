"""Models that do not keep their word: a named error or a search without them, nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from agentmem import ModelError
from agentmem.models.base import Encoding, RerankCandidate, TokenVectors
from agentmem.models.late_interaction import LateInteractionReranker
from tests.support import MakeMemory, WordEmbedder, texts

Fault = Callable[[Encoding], Encoding]


class Odd(WordEmbedder):
    """Keeps its word until `fault` is set."""

    fault: Fault | None = None

    async def embed_passages(self, texts: Sequence[str]) -> Encoding:
        encoding = await super().embed_passages(texts)
        return encoding if self.fault is None else self.fault(encoding)


def _tokens(encoding: Encoding) -> tuple[TokenVectors, ...]:
    assert encoding.tokens is not None
    return encoding.tokens


def _one_token(encoding: Encoding, value: float) -> Encoding:
    first, *rest = _tokens(encoding)
    vectors = first.vectors.copy()
    vectors[0, 0] = value
    return replace(encoding, tokens=(replace(first, vectors=vectors), *rest))


FAULTS: dict[str, tuple[Fault, str]] = {
    "a text too few": (lambda e: replace(e, vectors=e.vectors[:-1]), "shape"),
    "shorter vectors": (lambda e: replace(e, vectors=e.vectors[:, :-4]), "shape"),
    "no number": (lambda e: replace(e, vectors=e.vectors * np.nan), "not finite"),
    "infinite": (lambda e: replace(e, vectors=e.vectors + np.inf), "not finite"),
    "token vectors of too few": (lambda e: replace(e, tokens=_tokens(e)[:-1]), "token vectors"),
    "shorter token vectors": (
        lambda e: replace(
            e, tokens=tuple(replace(t, vectors=t.vectors[:, :-4]) for t in _tokens(e))
        ),
        "shape",
    ),
    "a token without a number": (lambda e: _one_token(e, np.nan), "not finite"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_an_embedder_gives_is_checked(make_memory: MakeMemory, fault: str) -> None:
    embedder = Odd()
    async with make_memory(embedder=embedder) as memory:
        await memory.write("the heron sleeps", key="kept")
        embedder.fault, named = FAULTS[fault]
        with pytest.raises(ModelError, match=named) as raised:
            await memory.write(["an otter swims", "a badger digs"])
        assert "'words'" in str(raised.value)
        assert await memory.count() == 1
        found = await memory.search("heron")
        assert texts(found) == ["the heron sleeps"]
        assert named in " ".join(found.degraded)
        embedder.fault = None
        assert (await memory.write("an otter swims")).created == 1


class OddScores(LateInteractionReranker):
    """Gives the scores that it is told to, at first sight or at the second."""

    id = "odd"

    def __init__(self, first: Sequence[float] | None, gains: Sequence[float]) -> None:
        self.first = first
        self.gains = gains

    async def rerank(
        self, query: str, encoding: Encoding | None, candidates: Sequence[RerankCandidate]
    ) -> list[float]:
        if self.first is None:
            return await super().rerank(query, encoding, candidates)
        return list(self.first)

    async def refine(
        self, query: str, candidates: Sequence[RerankCandidate], seconds: float
    ) -> list[float]:
        return list(self.gains)


@pytest.mark.parametrize(
    ("first", "gains", "named"),
    [
        ([0.5], [], "'odd' failed: it gave 1 scores for 2 candidates"),
        ([0.5, 0.4, 0.3], [], "'odd' failed: it gave 3 scores for 2 candidates"),
        ([0.5, math.nan], [], "'odd' failed: it gave scores that are not finite"),
        (None, [0.1, 0.1, 0.1], "'odd' took no second look: it gave 3 scores for 2 candidates"),
        (None, [math.inf], "'odd' took no second look: it gave scores that are not finite"),
    ],
)
async def test_what_a_reranker_gives_is_checked(
    make_memory: MakeMemory, first: list[float] | None, gains: list[float], named: str
) -> None:
    rows = ["the heron sleeps", "the heron wakes"]
    async with make_memory(reranker=OddScores(first, gains)) as memory:
        await memory.write(rows)
        found = await memory.search("heron")
        assert sorted(texts(found)) == rows
        assert found.degraded == (f"the reranker {named}",)
