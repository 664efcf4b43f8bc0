"""The part of `Memory` that tells what it holds and keeps it in order."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from agentmem._arguments import check_ids, visible_selection
from agentmem._clock import check_moment, from_micros, to_micros
from agentmem._memory_base import MemoryBase
from agentmem._prepare import fingerprint_of
from agentmem._telemetry import watched
from agentmem._types import Finding, Receipt, Stats, VerifyResult
from agentmem.backends._expiry import NewExpiry
from agentmem.backends.base import Micros, StoredRow
from agentmem.errors import InvalidInputError

_REPAIRED_BY_MODEL = frozenset({"vector", "token codes"})


class UpkeepMemory(MemoryBase):
    """What `Memory` inherits; see there for the rest."""

    @watched
    async def set_expiry(
        self,
        ids: str | Iterable[str],
        expires_at: datetime | None,
        *,
        user_id: str | None = None,
    ) -> tuple[str, ...]:
        """Let documents expire at another time, without a new version and without embedding again.

        Parameters
        ----------
        ids
            Document ids; their newest versions are changed.
        expires_at
            From this instant on they are invisible everywhere; None for never.
        user_id
            The caller, as in `Memory.get`.

        Returns
        -------
        tuple[str, ...]
            The ids of the documents that have this expiry now, in the order asked for. One that
            is missing for this caller, expired already or being rewritten just now is not among
            them.

        Raises
        ------
        InvalidInputError
            The instant is no aware datetime or not in the future.
        """
        now = self._clock()
        wanted = check_ids(ids)
        moment = check_moment(expires_at, "expires_at")
        if moment is not None and moment <= now:
            raise InvalidInputError(
                f"expires_at ({moment.isoformat()}) is not in the future; use forget instead"
            )
        until = None if moment is None else to_micros(moment)
        selection = visible_selection(self._tenant, now, user_id=user_id, ids=wanted)
        self._check_writable("change the expiry")
        async with self._using() as parts:
            rows = await parts.backend.read(selection)
            changes = [_new_expiry(row, until) for row in rows if row.expires_at != until]
            done = await parts.backend.set_expiry(self._tenant, changes) if changes else []
        lost = {c.document_id for c, changed in zip(changes, done, strict=True) if not changed}
        found = {row.document_id for row in rows} - lost
        return tuple(name for name in wanted if name in found)

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


def _new_expiry(row: StoredRow, expires_at: Micros | None) -> NewExpiry:
    def fingerprint(until: Micros | None) -> str:
        times = row.valid_from, row.valid_until, until
        return fingerprint_of(row.content, row.title, row.source_uri, row.metadata, times)

    return NewExpiry(
        document_id=row.document_id,
        version=row.version,
        before=fingerprint(row.expires_at),
        fingerprint=fingerprint(expires_at),
        expires_at=expires_at,
    )
