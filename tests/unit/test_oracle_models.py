"""Embedding and reranking inside the database, with models that the stand-in plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from agentmem import Memory
from agentmem.backends.oracle import admin, read_target
from agentmem.errors import (
    CapabilityError,
    ConfigurationError,
    ModelError,
    ModelMismatchError,
)
from agentmem.models.vector_codes import rounded
from tests.databases import StandInStore, oracle_settings
from tests.support import SetClock, WordEmbedder, texts

TEXTS = ["the kettle boils water", "tea leaves steep in water", "a bank raises its rates"]


def embed(text: str) -> list[float]:
    vector: list[float] = WordEmbedder()._vector(text).tolist()
    return vector


def rerank(query: str, text: str) -> float:
    """Score by length: an order that no other stage would give."""
    return float(len(text)) - 100.0


@pytest.fixture
def prepared(standin: StandInStore) -> StandInStore:
    plan = admin.make_plan(
        "mem_owner",
        "mem_app",
        meta=admin.make_meta("database:mem_embedder", 64, None),
        models=["mem_embedder"],
    )
    standin.server.set_up(s for step in admin.steps(plan) for s in step.statements)
    standin.plan = plan
    standin.server.models = {"mem_embedder": embed, "mem_reranker": rerank}
    return standin


def memory_on(prepared: StandInStore, **settings: Any) -> Memory:
    assert prepared.plan
    chosen: dict[str, Any] = {"embedder": "database:mem_embedder", "reranker": "none"} | settings
    return Memory(oracle_settings("d:1/s", prepared.plan, **chosen), clock=SetClock())


@pytest.fixture
async def memory(prepared: StandInStore) -> AsyncIterator[Memory]:
    async with memory_on(prepared) as opened:
        yield opened


async def test_texts_are_embedded_in_the_database(prepared: StandInStore, memory: Memory) -> None:
    await memory.write(TEXTS)
    embedded = [sql for _, sql in prepared.server.log if "JSON_TABLE(:texts" in sql]
    assert len(embedded) == 1  # one round trip for the batch
    result = await memory.search("boils water")
    assert texts(result)[0] == TEXTS[0]
    # The passage is rounded before it is stored; the query goes from model to comparison unseen.
    query, passage = WordEmbedder()._vector("boils water"), WordEmbedder()._vector(TEXTS[0])
    expected = float(query @ rounded(passage.astype(np.float32)))
    assert result.hits[0].scores.similarity == pytest.approx(expected, abs=1e-5)


async def test_the_query_is_embedded_in_the_statement(
    prepared: StandInStore, memory: Memory
) -> None:
    await memory.write(TEXTS)
    before = prepared.server.round_trips
    await memory.search("water")
    assert prepared.server.round_trips - before == 1


async def test_candidates_are_reranked_in_the_statement(prepared: StandInStore) -> None:
    async with memory_on(prepared, reranker="database:mem_reranker") as memory:
        await memory.write(TEXTS)
        before = prepared.server.round_trips
        result = await memory.search("water")
        assert prepared.server.round_trips - before == 1
        assert texts(result) == sorted(TEXTS, key=len, reverse=True)
        assert [hit.scores.rerank for hit in result.hits] == [len(t) - 100.0 for t in texts(result)]
        assert result.trace["rerank"].runs == "engine"
        assert "mem_reranker" in str(memory.pipeline)


async def test_a_model_that_is_not_there(prepared: StandInStore) -> None:
    prepared.server.models = {"mem_embedder": embed}
    async with memory_on(prepared, reranker="database:mem_reranker") as memory:
        await memory.write(TEXTS)
        with pytest.raises(ModelError, match="not in the database"):
            await memory.search("water")
    prepared.server.models = {}
    async with memory_on(prepared) as memory:
        with pytest.raises(ModelError, match="not in the database"):
            await memory.write("more")
        assert await memory.count() == len(TEXTS)


async def test_another_model_is_a_mismatch(prepared: StandInStore) -> None:
    with pytest.raises(ModelMismatchError, match="database:mem_embedder"):
        await memory_on(prepared, embedder="database:other").open()
    assert prepared.plan
    client = Memory(oracle_settings("d:1/s", prepared.plan), embedder=WordEmbedder())
    with pytest.raises(ModelMismatchError):
        await client.open()


async def test_a_model_cannot_be_changed_in_place(prepared: StandInStore) -> None:
    memory = memory_on(prepared, embedder="database:other")
    with pytest.raises(CapabilityError, match="agentmem copy"):
        await memory.open(reembed=True)
    async with memory_on(prepared) as old:
        await old.write(TEXTS)


async def test_late_interaction_needs_token_vectors(prepared: StandInStore) -> None:
    with pytest.raises(ConfigurationError, match="gives no token vectors"):
        await memory_on(prepared, reranker="late").open()


@pytest.mark.parametrize("name", ["x y", "m;n", "1m", "m'"])
async def test_names_of_models_are_checked(prepared: StandInStore, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name of a model"):
        await memory_on(prepared, embedder=f"database:{name}").open()


@pytest.mark.parametrize("setting", ["embedder", "reranker"])
async def test_the_embedded_engine_runs_no_models(setting: str) -> None:
    chosen: dict[str, Any] = {setting: "database:m"}
    with pytest.raises(ConfigurationError, match="the embedded engine runs no models"):
        await Memory("local://:memory:", **chosen).open()


async def test_a_long_text_is_cut_for_the_database(memory: Memory) -> None:
    await memory.write("日本" * 5000)
    assert await memory.count() == 1


async def test_a_senseless_model_is_found(prepared: StandInStore) -> None:
    assert prepared.plan
    target = read_target(oracle_settings("d:1/s", prepared.plan))

    async def models() -> admin.Check:
        checks = await admin.examine(target, "mem_reranker")
        return next(check for check in checks if check.name == "models")

    prepared.server.models["mem_reranker"] = lambda q, t: 1.0 if "tea" in t else 0.0
    assert (await models()).state == "ok"
    prepared.server.models["mem_reranker"] = lambda q, t: 0.0
    assert "mem_reranker gives senseless answers" in (await models()).message
    prepared.server.models["mem_embedder"] = lambda text: [1.0] * 64
    assert "mem_embedder gives senseless answers" in (await models()).message


async def test_cancelling_an_embedding_leaves_the_memory_usable(
    prepared: StandInStore, memory: Memory
) -> None:
    prepared.server.delay = 0.1
    task = asyncio.create_task(memory.write(TEXTS))
    await asyncio.sleep(0.15)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    prepared.server.delay = 0.0
    await memory.write(TEXTS)
    assert await memory.count() == len(TEXTS)
