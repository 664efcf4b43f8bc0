"""The part of `Memory` that runs a search stage by stage, for callers who look in between."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import TYPE_CHECKING

from agentmem._arguments import Where, search_request
from agentmem._memory_base import MemoryBase
from agentmem._telemetry import watched

if TYPE_CHECKING:
    from agentmem.pipeline import Search


class StepwiseMemory(MemoryBase):
    """What `Memory` inherits; see there for the rest."""

    def begin(
        self,
        query: str,
        *,
        user_id: str | None = None,
        collections: Iterable[str] | None = None,
        where: Where | None = None,
        as_of: datetime | date | None = None,
        k: int = 8,
        token_budget: int | None = None,
        diversify_by: str | None = None,
        explain: bool = False,
    ) -> Search:
        """Return a search that has not begun, to be taken through its stages with `advance`.

            search = memory.begin("Where is the key?")
            await memory.advance(search, "understand")
            print(search.state.plan)
            await memory.advance(search)
            result = search.result()  # what `search` returns

        Parameters and errors are those of `search`.
        """
        request = search_request(
            query,
            tenant=self._tenant,
            user_id=user_id,
            collections=collections,
            where=where,
            now=self._clock(),
            as_of=as_of,
            k=k,
            token_budget=token_budget,
            diversify_by=diversify_by,
            explain=explain,
        )
        return self.pipeline.begin(request)

    @watched
    async def advance(self, search: Search, through: str | None = None) -> None:
        """Take a search through its stages up to and with the one called `through`, or to the end.

        Stages that were passed already do not run again.

        Raises
        ------
        PipelineError
            There is no stage of that name.
        ModelError, StoreError
            As in `search`.
        """
        async with self._using():
            await search.advance(through)
