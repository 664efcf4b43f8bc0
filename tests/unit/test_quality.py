"""The `quality` reranker: what its cross-encoder adds, and how it keeps to its time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agentmem import Memory, ModelError, Settings
from agentmem.models._files import BUNDLED_CROSS_ENCODER
from agentmem.models.base import RefiningReranker, RerankCandidate
from agentmem.models.onnx_embedder import OnnxEmbedder
from agentmem.models.onnx_reranker import CrossEncoderReranker
from agentmem.models.quality import GAIN, READ, QualityReranker
from tests.support import texts

QUESTION = "when did we leave Oban"
PLACES = [f"The harbour of {name} lies in the north" for name in ("Oban", "Wick", "Mallaig")]
ANSWER = "We sailed from Oban at six in the morning because of the tide"
Pair = tuple[list[int], list[int]]


@pytest.fixture
async def reranker() -> AsyncIterator[QualityReranker]:
    made = QualityReranker(BUNDLED_CROSS_ENCODER)
    yield made
    await made.close()


@pytest.fixture
async def cross() -> AsyncIterator[CrossEncoderReranker]:
    made = CrossEncoderReranker(BUNDLED_CROSS_ENCODER, threads=2)
    yield made
    await made.close()


def rows(*contents: str) -> list[RerankCandidate]:
    return [RerankCandidate(id=str(n), text=text, codes=None) for n, text in enumerate(contents)]


async def test_quality_finds_and_tells_how_many_it_looked_at(
    tmp_path: Path, real_embedder: OnnxEmbedder
) -> None:
    settings = Settings(url=str(tmp_path / "memory"), reranker="quality", rerank_budget=60.0)
    async with Memory(settings, embedder=real_embedder) as memory:
        await memory.write([*PLACES, ANSWER])
        result = await memory.search(QUESTION)
        assert texts(result)[0] == ANSWER
        details = next(stage.details for stage in result.trace.stages if stage.name == "rerank")
        assert details["refined"] == 4
        name = (await memory.stats()).reranker or ""
        assert name.startswith("late-interaction+agentmem-cross")


async def test_gains_are_between_nothing_and_the_most(reranker: QualityReranker) -> None:
    assert isinstance(reranker, RefiningReranker)
    gains = await reranker.refine(QUESTION, rows(*PLACES, ANSWER), 60.0)
    assert min(gains) == 0.0
    assert max(gains) == gains[3] == pytest.approx(GAIN)
    assert len({*gains}) == 4
    assert await reranker.refine("Oban", rows(ANSWER), 60.0) == [0.0]
    assert await reranker.refine("Oban", [], 60.0) == []
    many = rows(*(f"{text} {n}" for n in range(30) for text in PLACES))
    assert len(await reranker.refine("Oban", many, 60.0)) == READ


async def test_the_end_of_what_stands_before_is_read_too(
    reranker: QualityReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    async def remember(
        self: CrossEncoderReranker,
        query: str,
        candidates: Sequence[RerankCandidate],
        seconds: float,
    ) -> list[float]:
        read.extend(candidate.text for candidate in candidates)
        return [0.0] * len(candidates)

    monkeypatch.setattr(CrossEncoderReranker, "rerank_within", remember)
    long = "x" * 300 + " When did you leave?"
    answered = RerankCandidate("1", "At six.", b"1", (b"0",), text_before=long)
    await reranker.refine("when", [answered, RerankCandidate("2", "At seven.", b"2")], 60.0)
    assert read == [f"{long[-300:]}\nAt six.", "At seven."]
    assert answered.text == "At six."


async def test_as_many_as_fit_into_the_time_from_the_first_on(
    cross: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = rows(*(f"{text} {n}" for n in range(30) for text in PLACES))
    whole = await cross.rerank("harbour", None, candidates)
    assert await cross.rerank_within("harbour", candidates, 60.0) == whole
    assert await cross.rerank_within("harbour", candidates, 0.0) == []
    score = CrossEncoderReranker._score

    def slow(self: CrossEncoderReranker, pair: Pair) -> float:
        time.sleep(0.05)
        return score(self, pair)

    monkeypatch.setattr(CrossEncoderReranker, "_score", slow)
    some = await cross.rerank_within("harbour", candidates, 0.2)
    # Two threads; what was begun in time is finished, and nothing after it is begun.
    assert 1 <= len(some) <= 2 * 4
    assert some == whole[: len(some)]


async def test_the_event_loop_goes_on_meanwhile(
    cross: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Event(), threading.Event()

    def held(self: CrossEncoderReranker, pair: Pair) -> float:
        began.set()
        assert go_on.wait(30)
        return 0.0

    monkeypatch.setattr(CrossEncoderReranker, "_score", held)
    task = asyncio.create_task(cross.rerank_within("harbour", rows(*PLACES), 60.0))
    assert await asyncio.to_thread(began.wait, 30)
    assert not task.done()
    go_on.set()
    assert await task == [0.0] * 3


async def test_one_that_is_cancelled_begins_nothing_more(
    cross: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    began, go_on = threading.Event(), threading.Event()

    def held(self: CrossEncoderReranker, pair: Pair) -> float:
        begun.append(len(pair[0]))
        began.set()
        assert go_on.wait(30)
        return 0.0

    monkeypatch.setattr(CrossEncoderReranker, "_score", held)
    candidates = rows(*(f"{text} {n}" for n in range(30) for text in PLACES))
    task = asyncio.create_task(cross.rerank_within("harbour", candidates, 60.0))
    assert await asyncio.to_thread(began.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await cross.close()  # waits for the threads
    assert 1 <= len(begun) <= 2


async def test_a_model_that_fails_within_the_time_is_said(
    cross: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: CrossEncoderReranker, pair: Pair) -> float:
        raise ModelError("out of order")

    monkeypatch.setattr(CrossEncoderReranker, "_score", failing)
    with pytest.raises(ModelError, match="out of order"):
        await cross.rerank_within("harbour", rows(*PLACES), 60.0)
