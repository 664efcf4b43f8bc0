"""Stage 4: reciprocal rank fusion of the pools (`agentmem.backends._fusion`).

An engine may have fused already; the stage then computes the same numbers again and so confirms the
order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentmem.backends._fusion import fuse
from agentmem.pipeline._stage import Runs, SearchState, need


class FuseStage:
    """Fuses the pools.

    Parameters
    ----------
    k
        Constant of the fusion.
    limit
        Candidates to keep.
    """

    name = "fuse"
    runs: Runs = "engine"
    needs = frozenset({"request", "candidates"})
    adds = frozenset({"fused"})

    def __init__(self, *, k: int, limit: int) -> None:
        self._k = k
        self._limit = limit

    async def run(self, state: SearchState) -> None:
        """Set `state.fused`."""
        candidates = need(state.candidates, "candidates")
        state.fused = fuse(candidates, k=self._k, limit=max(self._limit, state.request.k))

    def describe(self) -> Mapping[str, Any]:
        """Return the settings of the fusion."""
        return {"k": self._k, "limit": self._limit}
