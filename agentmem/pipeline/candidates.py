"""Stage 3: the nearest chunks by meaning and the best by words, each from its own pool.

A small scope gives a third pool, the best by late interaction, where the engine computes that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentmem._types import TimeWindow
from agentmem.backends.base import Backend, CandidateRequest, Candidates, Scope
from agentmem.errors import ModelError
from agentmem.models.base import Embedder, Encoding, TokenVectors
from agentmem.models.checks import checked
from agentmem.models.vector_codes import rounded
from agentmem.pipeline._stage import Runs, SearchState, need
from agentmem.pipeline._timing import begins_of


class CandidatesStage:
    """Embeds the query and asks the engine for the pools.

    Parameters
    ----------
    backend, embedder
        The engine and the model.
    pool
        Size of each pool; a search for more hits takes a larger one.
    fusion_k, fused
        What stage 4 will use; an engine that fuses by itself needs to know. `fused` None asks the
        engine for everything, for a stage 4 of the caller's own.
    want_codes, want_late
        Whether a later stage reads token codes, or late-interaction scores.
    embedded_by_engine
        Whether the engine embeds the query itself.
    """

    name = "candidates"
    runs: Runs = "engine"
    needs = frozenset({"request", "plan", "scope"})
    adds = frozenset({"candidates"})

    def __init__(
        self,
        backend: Backend,
        embedder: Embedder,
        *,
        pool: int,
        fusion_k: int,
        fused: int | None,
        want_codes: bool = False,
        want_late: bool = False,
        embedded_by_engine: bool = False,
    ) -> None:
        self._embedded_by_engine = embedded_by_engine
        self._backend = backend
        self._embedder = embedder
        self._pool = pool
        self._fusion_k = fusion_k
        self._fused = fused
        self._want_codes = want_codes
        self._want_late = want_late

    async def run(self, state: SearchState) -> None:
        """Set `state.encoding` and `state.candidates`."""
        plan, scope = need(state.plan, "plan"), need(state.scope, "scope")
        if not self._embedded_by_engine:
            try:
                encoding = await self._embedder.embed_query(plan.text)
                state.encoding = checked(encoding, self._embedder, 1)
            except ModelError as error:
                state.degraded.append(f"the query could not be embedded, words only: {error}")
        request = CandidateRequest(
            text=plan.text,
            vector=None if state.encoding is None else rounded(state.encoding.vectors[0]),
            terms=tuple(dict.fromkeys((*plan.terms, *plan.expansions))),
            pool=max(self._pool, state.request.k),
            fusion_k=self._fusion_k,
            limit=None if self._fused is None else max(self._fused, state.request.k),
            want_codes=self._want_codes,
            tokens=self._query_tokens(state.encoding),
        )
        found = await self._backend.candidates(scope, request)
        if plan.time_window is not None and _may_lack(found, request):
            found = await self._with_window(found, plan.time_window, scope, request)
        state.candidates = found.items
        state.degraded.extend(found.degraded)
        state.details.update(found.details)
        state.details.update(
            vector_pool=found.vector_pool,
            lexical_pool=found.lexical_pool,
            late_pool=found.late_pool,
        )

    def _query_tokens(self, encoding: Encoding | None) -> TokenVectors | None:
        if not self._want_late or encoding is None or encoding.tokens is None:
            return None
        return encoding.tokens[0]

    async def _with_window(
        self, found: Candidates, window: TimeWindow, scope: Scope, request: CandidateRequest
    ) -> Candidates:
        """Return the candidates, and beside them those of the plan's time window.

        They come from pools of the window's own, in which a few rows compete and not all; their
        ranks are places in these. What both searches found keeps its place among all.
        """
        within = await self._backend.candidates(replace(scope, begins=begins_of(window)), request)
        known = {item.id for item in found.items}
        more = [item for item in within.items if item.id not in known]
        return replace(
            found, items=[*found.items, *more], details={**found.details, "in_window": len(more)}
        )

    def describe(self) -> Mapping[str, Any]:
        """Return the settings of the pools."""
        return {
            "engine": self._backend.name,
            "embedder": self._embedder.id,
            "pool": self._pool,
        }


def _may_lack(found: Candidates, request: CandidateRequest) -> bool:
    """Return whether rows in scope may be left that are no candidates."""
    return len(found.items) >= min(request.pool, request.limit or request.pool)
