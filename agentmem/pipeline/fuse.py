"""Stage 4: reciprocal rank fusion of the two pools (`agentmem.backends._fusion`).

An engine may have fused already; the stage then computes the same numbers again and so confirms the
order. Rows that the engine has not read yet are read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentmem.backends._fusion import fuse
from agentmem.backends.base import Backend
from agentmem.pipeline._stage import Runs, SearchState, need


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
