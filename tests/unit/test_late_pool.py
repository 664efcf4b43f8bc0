"""Late interaction in the embedded engine: the third pool, and the scores of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from agentmem import Document, F, Memory, SearchResult, Settings
from agentmem.backends.embedded import _late
from agentmem.models.base import Encoding, RerankCandidate
from agentmem.models.late_interaction import LateInteractionReranker
from tests.support import SetClock, WordEmbedder, texts

QUESTION = "pier tide moor"


class CodesReranker(LateInteractionReranker):
    """The same scores, computed from token codes."""

    id = "from-codes"
    needs = frozenset({"codes"})

    async def rerank(
        self, query: str, encoding: Encoding | None, candidates: Sequence[RerankCandidate]
    ) -> list[float]:
        assert all(candidate.late is None for candidate in candidates)
        return await super().rerank(query, encoding, candidates)


def open_at(folder: Path, **arguments: Any) -> Memory:
    own = {name: arguments.pop(name) for name in ("reranker",) if name in arguments}
    settings = Settings(url=str(folder), **arguments)
    return Memory(settings, embedder=WordEmbedder(), clock=SetClock(), **own)


def ranks(result: SearchResult) -> dict[str, int | None]:
    return {e.text: e.scores.late_rank for e in result.trace.explanations or ()}


def details(result: SearchResult) -> Any:
    return next(stage.details for stage in result.trace.stages if stage.name == "candidates")


async def test_a_small_scope_is_searched_by_late_interaction_as_a_whole(tmp_path: Path) -> None:
    """Long texts with all words of the question: near in no token vector's company but its own."""
    filler = " ".join(f"w{n}" for n in range(60))
    rows = [f"pier w{n}" for n in range(6)] + [f"{filler} tide moor pier"]
    async with open_at(tmp_path, pool=5) as memory:
        # Each in a collection of its own, so that none stands around another.
        await memory.write([Document(text, collection=f"c{n}") for n, text in enumerate(rows)])
        result = await memory.search("tide moor pier", explain=True, k=5)
        assert ranks(result)[rows[-1]] == 1
        assert details(result)["late_pool"] == 5
        assert sorted(rank for rank in ranks(result).values() if rank) == [1, 2, 3, 4, 5]


async def test_what_no_other_pool_holds_is_found(tmp_path: Path) -> None:
    """The answer shares no word and no direction with the question; it stands behind it."""
    async with open_at(tmp_path, pool=3) as memory:
        await memory.write([Document(f"tide n{n}", collection=f"c{n}") for n in range(8)])
        await memory.write(["pier tide moor?", "At ten past eight."], collection="talk")
        result = await memory.search(QUESTION, explain=True, k=3)
        answer = next(e for e in result.trace.explanations or () if e.text == "At ten past eight.")
        assert answer.scores.vector_rank is None
        assert answer.scores.lexical_rank is None
        assert answer.scores.late_rank == 2
        assert answer.scores.similarity is not None


@pytest.mark.parametrize("limit", [60, 59])
async def test_a_large_scope_has_two_pools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(_late, "MOST_TOKENS", limit)
    async with open_at(tmp_path, pool=10) as memory:
        await memory.write([Document(f"tide x{n} pier", metadata={"n": n}) for n in range(20)])
        result = await memory.search(QUESTION, explain=True)
        assert details(result)["late_pool"] == (10 if limit == 60 else 0)
        assert all(e.scores.rerank is not None for e in result.trace.explanations or ())
        assert not result.degraded
        # All of a scope that the pools hold anyway is not scored twice.
        few = await memory.search(QUESTION, where=F("n") < 10)
        assert details(few)["late_pool"] == 0


@pytest.mark.parametrize("vector_memory_mb", [0, 1024])
@pytest.mark.parametrize("whole", [True, False])
async def test_the_engine_scores_as_from_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vector_memory_mb: int, whole: bool
) -> None:
    if not whole:
        monkeypatch.setattr(_late, "MOST_TOKENS", 0)
    rows = [f"{'tide' if n % 3 else 'pier'} x{n} {'moor' if n % 5 else 'y'}" for n in range(30)]
    arguments: dict[str, Any] = {"pool": 30 if not whole else 12, "fused": 30}
    async with open_at(tmp_path, vector_memory_mb=vector_memory_mb, **arguments) as memory:
        await memory.write(rows, user_id="ann")
        await memory.write(rows[:7])
        found = await memory.search(QUESTION, user_id="ann", explain=True, k=12)
    async with open_at(tmp_path, reranker=CodesReranker(), **arguments) as memory:
        expected = await memory.search(QUESTION, user_id="ann", explain=True, k=12)
    other = {e.id: e.scores.rerank for e in expected.trace.explanations or ()}
    for entry in found.trace.explanations or ():
        if entry.id in other:
            assert entry.scores.rerank == pytest.approx(other[entry.id], abs=2e-6)
    if not whole:
        assert texts(found) == texts(expected)


async def test_the_best_of_a_large_scope_are_scored_in_company(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both answers say nothing themselves; one of them is not near enough for a second look."""
    monkeypatch.setattr(_late, "MOST_TOKENS", 0)
    async with open_at(tmp_path) as memory:
        await memory.write(["pier tide moor?", "tide at eight"], collection="a")
        await memory.write(["pier tide moor!", "nothing at all"], collection="b")

        async def scores() -> dict[str, float]:
            found = await memory.search(QUESTION, explain=True, k=4)
            return {e.text: e.scores.rerank or 0.0 for e in found.trace.explanations or ()}

        every = await scores()
        monkeypatch.setattr(_late, "CLOSER", 3)
        three = await scores()
        assert three.pop("nothing at all") < every.pop("nothing at all")
        assert three == every


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM codes", "UPDATE codes SET code = x'0140ff'", "UPDATE codes SET code = x'0210ff'"],
)
@pytest.mark.parametrize("pool", [4, 100])
async def test_lost_and_damaged_codes_are_said(tmp_path: Path, change: str, pool: int) -> None:
    async with open_at(tmp_path) as memory:
        await memory.write([f"tide x{n}" for n in range(9)])
    connection = apsw.Connection(str(tmp_path / "memory.db"))
    connection.execute(f"{change} WHERE chunk_row = 6")
    connection.close()
    async with open_at(tmp_path, pool=pool) as memory:
        result = await memory.search("tide x5", k=3)
        assert result.hits[0].text == "tide x5"
        assert any("token codes" in sentence for sentence in result.degraded)
        assert [f.kind for f in (await memory.verify()).findings] == ["token codes"]
        assert (await memory.verify(repair=True)).ok
        result = await memory.search("tide x5", k=3)
        assert not result.degraded
        assert result.hits[0].scores.rerank is not None


async def test_purged_codes_are_in_no_pool(tmp_path: Path) -> None:
    async with open_at(tmp_path, pool=3) as memory:
        await memory.write([f"tide x{n}" for n in range(9)])
        await memory.write("pier tide moor", key="gone")
        assert (await memory.search(QUESTION, k=3)).hits[0].text == "pier tide moor"
        await memory.forget(key="gone", purge=True)
        result = await memory.search(QUESTION, explain=True, k=3)
        assert "pier tide moor" not in ranks(result)
        assert details(result)["late_pool"] == 3
