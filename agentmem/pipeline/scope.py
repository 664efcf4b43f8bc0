"""Stage 2: who may see what, and when.

The stage turns the request into a `Scope`; the engine applies it inside stage 3, before it takes
candidates, so that a filter never starves the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentmem._clock import to_micros
from agentmem.backends.base import Scope
from agentmem.pipeline._stage import Runs, SearchState


class ScopeStage:
    """Builds the scope of a search."""

    name = "scope"
    runs: Runs = "engine"
    needs = frozenset({"request"})
    adds = frozenset({"scope"})

    async def run(self, state: SearchState) -> None:
        """Set `state.scope`."""
        request = state.request
        state.scope = Scope(
            tenant=request.tenant,
            user_id=request.user_id,
            collections=request.collections,
            where=request.where,
            now=to_micros(request.now),
            as_of=None if request.as_of is None else to_micros(request.as_of),
        )

    def describe(self) -> Mapping[str, Any]:
        """Return the settings: none."""
        return {}
