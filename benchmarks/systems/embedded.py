"""agentmem in a folder, or on the store that its settings name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from agentmem import Document, Memory, SearchResult, Settings
from agentmem._clock import Clock
from agentmem.evaluation._run import rankings_of
from benchmarks.systems.base import Answer, Question, System

# The union of two pools of 100: a fusion that keeps so many cuts nothing.
_UNCUT = 200


def still() -> datetime:
    """Tell one time, so that the same documents get the same ids, which break ties, everywhere."""
    return datetime(2026, 1, 1, tzinfo=UTC)


class Embedded(System):
    """All six stages, with settings and ablations from the suite."""

    clock: Clock = staticmethod(still)

    @property
    def memory(self) -> Memory:
        """The open memory."""
        return self._memory

    async def open(self) -> None:
        """Open the memory as configured."""
        self._stack = AsyncExitStack()
        self._place = await self._stack.enter_async_context(self.place())
        self._memory = await self._opened(Settings(**self._place, **self.settings))
        self._uncut: Memory | None = None
        self._keys: dict[str, str] = {}

    async def _opened(self, settings: Settings) -> Memory:
        memory = Memory(settings, embedder=self.embedder, clock=self.clock)
        return await self._stack.enter_async_context(memory)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the settings that say where the memory is."""
        yield {"url": str(self.folder / "memory")}

    async def write(self, documents: Sequence[Document]) -> None:
        """Write into the memory."""
        await self._memory.write(documents)

    async def settle(self) -> None:
        """Search once, which brings the text index up to date and loads the vectors."""
        await self._memory.search("warm up", k=10)

    async def search(self, question: Question, k: int) -> Answer:
        """Search with all stages."""
        result = await self._ask(self._memory, question, k)
        times = {stage.name: stage.milliseconds for stage in result.trace.stages}
        times["total"] = result.trace.milliseconds
        return Answer([hit.key or "" for hit in result.hits], times)

    async def explain(self, question: Question, depth: int) -> Answer:
        """Return the order of documents in each pool, after fusion and after reranking.

        What fusion cuts is not explained; a second view on the store, which cuts nothing, gives
        each pool its whole ranking.
        """
        if self._uncut is None:
            whole = {**self.settings, "fused": _UNCUT, "reranker": "none"}
            self._uncut = await self._opened(Settings(**self._place, **whole))
        pools = await self._ask(self._uncut, question, depth, token_budget=10**9, explain=True)
        final = await self._ask(self._memory, question, depth, token_budget=10**9, explain=True)
        await self._learn_keys(pools, final)
        before = rankings_of(pools.trace.explanations or ())
        after = rankings_of(final.trace.explanations or ())
        rankings = {name: self._as_keys(before[name]) for name in ("vector", "lexical", "fused")}
        return Answer(self._as_keys(after["full"]), {}, rankings)

    def _as_keys(self, ids: Sequence[str]) -> list[str]:
        return [self._keys[name] for name in ids]

    async def _ask(self, memory: Memory, question: Question, k: int, **more: Any) -> SearchResult:
        return await memory.search(
            question.text,
            user_id=question.user_id,
            collections=[question.collection],
            where=dict(question.where) or None,
            k=k,
            **more,
        )

    async def _learn_keys(self, *results: SearchResult) -> None:
        for result in results:
            self._keys.update((hit.document_id, hit.key or "") for hit in result.hits)
            for candidate in result.trace.explanations or ():
                if candidate.document_id not in self._keys:
                    found = await self._memory.get(candidate.document_id)
                    self._keys[candidate.document_id] = (found.key or "") if found else ""

    async def close(self) -> None:
        """Close both views."""
        await self._stack.aclose()


SYSTEM = Embedded
