"""Stage 4: reciprocal rank fusion of the two pools.

    score(chunk) = sum over the pools that hold it of 1 / (k + rank)

with k = 60 as in Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and
individual Rank Learning Methods", SIGIR 2009. An engine may have fused in its own statement; the
stage then computes the same numbers again and so confirms the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentmem.backends.base import Backend, Candidate
from agentmem.pipeline._stage import Runs, SearchState, need


def fusion_score(ranks: Sequence[int | None], k: int) -> float:
    """Return the fusion score for the ranks (from 1 on) of one chunk in each pool."""
    return sum(1.0 / (k + rank) for rank in ranks if rank is not None)


def fuse(candidates: Sequence[Candidate], *, k: int, limit: int) -> list[Candidate]:
    """Set the fusion score of each candidate and return the best, ties in order of id."""
    for candidate in candidates:
        candidate.fusion = fusion_score((candidate.vector_rank, candidate.lexical_rank), k)
        candidate.score = candidate.fusion
    return sorted(candidates, key=lambda c: (-c.fusion, c.id))[:limit]


class FuseStage:
    """Fuses the pools and reads the rows of the candidates that are left.

    Parameters
    ----------
    backend
        The engine, for the rows.
    k
        Constant of the fusion.
    limit
        Candidates to keep.
    want_codes
        Whether a later stage reads token codes.
    """

    name = "fuse"
    runs: Runs = "engine"
    needs = frozenset({"request", "scope", "candidates"})
    adds = frozenset({"fused"})

    def __init__(self, backend: Backend, *, k: int, limit: int, want_codes: bool) -> None:
        self._backend = backend
        self._k = k
        self._limit = limit
        self._want_codes = want_codes

    async def run(self, state: SearchState) -> None:
        """Set `state.fused`."""
        scope, candidates = need(state.scope, "scope"), need(state.candidates, "candidates")
        fused = fuse(candidates, k=self._k, limit=max(self._limit, state.request.k))
        if any(candidate.row is None for candidate in fused):
            await self._backend.hydrate(scope, fused, self._want_codes)
        # A row that was purged since stage 3 is gone and stays away.
        state.fused = [candidate for candidate in fused if candidate.row is not None]

    def describe(self) -> Mapping[str, Any]:
        """Return the settings of the fusion."""
        return {"k": self._k, "limit": self._limit}
