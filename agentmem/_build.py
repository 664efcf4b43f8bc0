"""Puts an open memory together from its settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentmem._chunking import Chunker, SentenceChunker, WholeChunker
from agentmem._clock import Clock
from agentmem._in_database import DatabaseEmbedder, in_database
from agentmem._ingest import Ingest
from agentmem._search_log import SearchLog
from agentmem._telemetry import Telemetry, find_telemetry
from agentmem._types import Progress, ProgressCallback
from agentmem.backends import make_backend
from agentmem.backends.base import Backend, ModelIdentity
from agentmem.config import Settings
from agentmem.errors import ConfigurationError
from agentmem.models.base import Embedder, Reranker
from agentmem.models.registry import DEFAULT, load_embedder, load_reranker
from agentmem.pipeline import (
    Budget,
    CandidatesStage,
    FuseStage,
    Pipeline,
    RerankStage,
    ScopeStage,
    Stage,
    Understand,
)
from agentmem.pipeline.understand import Understanding


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a caller gave to the constructor instead of a setting."""

    tenant: str
    clock: Clock
    embedder: Embedder | str | None
    reranker: Reranker | str | None
    chunker: Chunker | None
    understand: Understanding | None
    count_tokens: Callable[[str], int] | None
    stages: Mapping[str, Stage] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of an open memory."""

    backend: Backend
    embedder: Embedder
    reranker: Reranker | None
    ingest: Ingest
    pipeline: Pipeline
    telemetry: Telemetry
    search_log: SearchLog | None
    owned: tuple[Embedder | Reranker, ...]

    async def close(self) -> None:
        """Close the store, then those models that were not the caller's."""
        try:
            await self.backend.close()
        finally:
            for model in self.owned:
                await model.close()


async def build(
    settings: Settings, choices: Choices, *, reembed: ProgressCallback | None = None
) -> Parts:
    """Open the store and return the parts; nothing stays open when that fails.

    With `reembed`, which is told how far it is, a store of another model is embedded again first.
    """
    chosen = _chosen(settings, choices)
    backend = make_backend(
        settings,
        choices.tenant,
        embed_model=in_database(chosen.embedder),
        rerank_model=in_database(chosen.reranker),
    )
    embedder, reranker = await asyncio.to_thread(_load_models, settings, chosen, backend)
    telemetry = await asyncio.to_thread(
        find_telemetry,
        backend.name,
        wanted=settings.telemetry,
        content=settings.telemetry_content,
    )
    pipeline = _pipeline(settings, choices, chosen, backend, embedder, reranker, telemetry)
    ingest = Ingest(
        backend,
        embedder,
        choices.chunker or _chunker(settings, embedder),
        tenant=choices.tenant,
        batch=settings.write_batch,
        clock=choices.clock,
    )
    identity = ModelIdentity(
        embedder=embedder.id,
        dimensions=embedder.dimensions,
        token_dimensions=embedder.token_dimensions,
    )
    if reembed is not None:
        await backend.reembed(
            identity,
            ingest.chunks_of,
            lambda done, total: reembed(Progress(done=done, total=total)),
        )
    await backend.open(identity)
    given = (choices.embedder, choices.reranker)
    return Parts(
        backend=backend,
        embedder=embedder,
        reranker=reranker,
        ingest=ingest,
        pipeline=pipeline,
        telemetry=telemetry,
        search_log=None if settings.search_log is None else SearchLog(settings.search_log),
        owned=tuple(m for m in (embedder, reranker) if m is not None and m not in given),
    )


@dataclass(frozen=True, slots=True)
class _Models:
    """Embedder and reranker as chosen by arguments or settings."""

    embedder: Embedder | str
    reranker: Reranker | str


def _chosen(settings: Settings, choices: Choices) -> _Models:
    return _Models(
        settings.embedder if choices.embedder is None else choices.embedder,
        settings.reranker if choices.reranker is None else choices.reranker,
    )


def _load_models(
    settings: Settings, chosen: _Models, backend: Backend
) -> tuple[Embedder, Reranker | None]:
    embedder, reranker = chosen.embedder, chosen.reranker
    if isinstance(embedder, str):
        model = in_database(embedder)
        local = load_embedder(embedder if model is None else DEFAULT, threads=settings.threads)
        embedder = local if model is None else DatabaseEmbedder(backend, model, local)
    if in_database(reranker) is not None:
        return embedder, None
    if isinstance(reranker, str):
        return embedder, load_reranker(reranker, threads=settings.threads)
    return embedder, reranker


def _chunker(settings: Settings, embedder: Embedder) -> Chunker:
    if settings.chunker == "whole":
        return WholeChunker(embedder.token_offsets)
    room, overlap = settings.chunk_tokens, settings.chunk_overlap
    if embedder.max_tokens < room:  # the settings fit each other; the model decides for both
        room = embedder.max_tokens
        overlap = min(overlap, room // 4)
    return SentenceChunker(embedder.token_offsets, max_tokens=room, overlap_tokens=overlap)


def _pipeline(
    settings: Settings,
    choices: Choices,
    chosen: _Models,
    backend: Backend,
    embedder: Embedder,
    reranker: Reranker | None,
    telemetry: Telemetry,
) -> Pipeline:
    needs = frozenset() if reranker is None else reranker.needs
    late = not needs.isdisjoint({"codes", "late"})
    if late and embedder.token_dimensions is None:
        raise ConfigurationError(
            f"the embedder {embedder.id!r} gives no token vectors, which late interaction needs; "
            "set reranker to 'none' or to a cross-encoder"
        )
    replaced = choices.stages or {}
    in_engine = in_database(chosen.reranker)
    plain = late or (reranker is None and in_engine is None)
    fused = settings.fused if plain else settings.fused_cross_encoder
    default: list[Stage] = [
        Understand(
            choices.understand,
            timeout=settings.understand_timeout,
            synonyms=settings.synonyms,
        ),
        ScopeStage(),
        CandidatesStage(
            backend,
            embedder,
            pool=settings.pool,
            fusion_k=settings.fusion_k,
            fused=None if "fuse" in replaced else fused,
            want_codes="codes" in needs,
            want_late="late" in needs,
            embedded_by_engine=in_database(chosen.embedder) is not None,
        ),
        FuseStage(k=settings.fusion_k, limit=fused),
        RerankStage(
            reranker,
            limit=fused,
            blended=late,
            in_engine=in_engine,
            refine_seconds=settings.rerank_budget,
        ),
        Budget(
            choices.count_tokens or embedder.count_tokens,
            default_budget=settings.token_budget,
            own_counter=choices.count_tokens is None and choices.chunker is None,
        ),
    ]
    return Pipeline(default, watch=telemetry.stage).replaced(**replaced)
