"""The part of `Memory` that tells what it holds and keeps it in order."""

from __future__ import annotations

from agentmem._clock import from_micros, to_micros
from agentmem._memory_base import MemoryBase
from agentmem._telemetry import watched
from agentmem._types import Finding, Receipt, Stats, VerifyResult

_REPAIRED_BY_MODEL = frozenset({"vector", "token codes"})


class UpkeepMemory(MemoryBase):
    """What `Memory` inherits; see there for the rest."""

    @watched
    async def receipts(self) -> tuple[Receipt, ...]:
        """Return the log of what was forgotten in this tenant, oldest first."""
        async with self._using() as parts:
            stored = await parts.backend.receipts(self._tenant)
        return tuple(
            Receipt(
                number=entry.number,
                at=from_micros(entry.at),
                action=entry.action,
                ids=entry.ids,
                details=entry.details,
                hash=entry.hash,
            )
            for entry in stored
        )

    @watched
    async def stats(self) -> Stats:
        """Return what the tenant holds and how the memory is set up."""
        async with self._using() as parts:
            totals = await parts.backend.totals(self._tenant, to_micros(self._clock()))
            return Stats(
                documents=totals.documents,
                versions=totals.versions,
                chunks=totals.chunks,
                forgotten=totals.forgotten,
                users=totals.users,
                collections=totals.collections,
                bytes=totals.bytes,
                engine=parts.backend.name,
                embedder=parts.embedder.id,
                reranker=None if parts.reranker is None else parts.reranker.id,
                degraded=tuple(totals.details.get("degraded", ())),
            )

    @watched
    async def verify(self, *, repair: bool = False) -> VerifyResult:
        """Check the database, and vectors, token codes and text index against it.

        With `repair`, what is derived is made anew: the text index from the texts, vectors and
        token codes by the model. Documents themselves are never changed. A repair that was cut
        short can be run again.

        Returns
        -------
        VerifyResult
            Every fault by id, and whether it was repaired.
        """
        if repair:
            self._check_writable("repair")
        async with self._using() as parts:
            problems = await parts.backend.verify(repair=repair)
            if repair and any(p.kind in _REPAIRED_BY_MODEL for p in problems):
                await parts.ingest.repair_vectors()
        return VerifyResult(
            findings=tuple(
                Finding(
                    kind=p.kind,
                    subject=p.subject,
                    message=p.message,
                    repaired=p.repaired or (repair and p.kind in _REPAIRED_BY_MODEL),
                )
                for p in problems
            )
        )

    @watched
    async def compact(self) -> None:
        """Give back space that forgotten and superseded data no longer need."""
        self._check_writable("compact")
        async with self._using() as parts:
            await parts.backend.compact()
