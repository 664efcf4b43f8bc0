"""Stage 5: a closer look at the candidates that are left.

The reranker scores query and chunk together. A late-interaction score is blended with the words
that a candidate shares with the question and with what the pools found (`agentmem.models.blend`);
the score of a cross-encoder orders the candidates alone. A `RefiningReranker`
then takes a closer look at the first ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentmem.backends._rules import searchable_text
from agentmem.backends.base import Candidate
from agentmem.errors import ModelError
from agentmem.models.base import RefiningReranker, RerankCandidate, Reranker
from agentmem.models.blend import FULL_LENGTH, blend
from agentmem.models.checks import check_scores
from agentmem.pipeline._stage import Runs, SearchState, need
from agentmem.pipeline._timing import by_time
from agentmem.pipeline._words import shared_words


class RerankStage:
    """Reranks the fused candidates.

    Parameters
    ----------
    reranker
        The model, or None to keep the order of stage 4.
    limit
        Candidates that the reranker looks at; those behind keep their order after them.
    blended
        Whether shared words, similarity and lexical score take part.
    in_engine
        Name of the model with which the engine has reranked already; the stage puts the candidates
        in the order of its scores.
    refine_seconds
        What a `RefiningReranker` may take for its second look.
    """

    name = "rerank"
    needs = frozenset({"request", "plan", "fused"})
    adds = frozenset({"ranked"})

    def __init__(
        self,
        reranker: Reranker | None,
        *,
        limit: int,
        blended: bool = False,
        in_engine: str | None = None,
        refine_seconds: float = 0.0,
    ) -> None:
        self.runs: Runs = "client" if in_engine is None else "engine"
        self._in_engine = in_engine
        self._reranker = reranker
        self._blended = blended
        self._limit = limit
        self._refine_seconds = refine_seconds

    async def run(self, state: SearchState) -> None:
        """Set `state.ranked`. When the reranker fails, the order of stage 4 stands.

        The plan's time counts last, whatever gave the scores (`agentmem.pipeline._timing`).
        """
        plan = need(state.plan, "plan")
        scored, rest = await self._scored(state)
        state.ranked = by_time(scored, plan) + rest
        moved = sum(candidate.timing != 0.0 for candidate in scored)
        if moved:
            state.details["timed"] = moved

    async def _scored(self, state: SearchState) -> tuple[list[Candidate], list[Candidate]]:
        """Return the candidates with scores of one kind, best first, and those behind them."""
        fused = need(state.fused, "fused")
        if self._in_engine is not None:
            scored, rest = _by_engine(fused)
            state.details["reranked"] = len(scored)
            return scored, rest
        if self._reranker is None or not fused:
            return fused, []
        head, tail = fused[: self._limit], fused[self._limit :]
        try:
            scores = await self._reranker.rerank(
                need(state.plan, "plan").text,
                state.encoding,
                _to_rerank(head, self._reranker.needs),
            )
            check_scores(scores, len(head), least=len(head))
        except ModelError as error:
            state.degraded.append(f"the reranker {self._reranker.id!r} failed: {error}")
            return fused, []
        finals = _blended(head, scores, state) if self._blended else scores
        for candidate, score, final in zip(head, scores, finals, strict=True):
            candidate.rerank, candidate.score = float(score), float(final)
        state.details["reranked"] = len(head)
        head.sort(key=_best_first)
        if isinstance(self._reranker, RefiningReranker):
            await self._refine(self._reranker, head, state)
        return head, tail

    async def _refine(
        self, reranker: RefiningReranker, head: list[Candidate], state: SearchState
    ) -> None:
        """Add what a second look gives to the scores of the first candidates, and sort again."""
        query = need(state.plan, "plan").text
        try:
            gains = await reranker.refine(
                query, _to_rerank(head, reranker.needs), self._refine_seconds
            )
            check_scores(gains, len(head), least=0)
        except ModelError as error:
            state.degraded.append(f"the reranker {reranker.id!r} took no second look: {error}")
            return
        for candidate, gain in zip(head, gains, strict=False):
            candidate.score += gain
        head.sort(key=_best_first)
        state.details["refined"] = len(gains)

    def describe(self) -> Mapping[str, Any]:
        """Return the model and its limit."""
        return {
            "reranker": self._in_engine if self._reranker is None else self._reranker.id,
            "limit": self._limit,
        }


def _best_first(candidate: Candidate) -> tuple[float, str]:
    return -candidate.score, candidate.id


def _by_engine(fused: Sequence[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """Return the candidates in the order of the engine's scores, and those without one."""
    scored = [candidate for candidate in fused if candidate.rerank is not None]
    for candidate in scored:
        candidate.score = need(candidate.rerank, "rerank")
    rest = [candidate for candidate in fused if candidate.rerank is None]
    return sorted(scored, key=_best_first), rest


def _to_rerank(candidates: Sequence[Candidate], needs: frozenset[str]) -> list[RerankCandidate]:
    rows = [need(candidate.row, "row") for candidate in candidates]
    with_text = "text" in needs
    return [
        RerankCandidate(
            id=candidate.id,
            text=searchable_text(row.title, row.text) if with_text else "",
            codes=row.codes,
            before=row.codes_before,
            text_before=row.texts_before[0] if with_text and row.texts_before else "",
            after=row.codes_after,
            late=candidate.late,
        )
        for candidate, row in zip(candidates, rows, strict=True)
    ]


def _blended(
    candidates: Sequence[Candidate], scores: Sequence[float], state: SearchState
) -> Sequence[float]:
    query, plan = state.encoding, need(state.plan, "plan")
    tokens = None if query is None or query.tokens is None else query.tokens[0]
    rows = [need(candidate.row, "row") for candidate in candidates]
    lengths = np.array([row.tokens for row in rows], dtype=np.float64)
    words = np.zeros(len(rows))
    if lengths.mean() < FULL_LENGTH:  # they do not count for longer ones
        words = shared_words(rows, dict.fromkeys((*plan.terms, *plan.expansions)))
    final: list[float] = blend(
        np.array(scores, dtype=np.float64),
        similarity=np.array([candidate.similarity or 0.0 for candidate in candidates]),
        words=words,
        lexical=np.array([candidate.lexical_score or 0.0 for candidate in candidates]),
        lengths=lengths,
        unknown=0.0 if tokens is None else tokens.unknown,
    ).tolist()
    return final
