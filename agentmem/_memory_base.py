"""What every part of `Memory` stands on: the choices made, opening, closing, and one call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentmem._build import Choices, Parts, build
from agentmem._clock import Clock, checked, utc_now
from agentmem._lifecycle import Lifecycle
from agentmem._prepare import check_tenant
from agentmem._types import Progress, ProgressCallback
from agentmem.config import Settings
from agentmem.errors import CapabilityError, ClosedError

if TYPE_CHECKING:
    from agentmem._chunking import Chunker
    from agentmem._telemetry import Telemetry
    from agentmem.models.base import Embedder, Reranker
    from agentmem.pipeline import Pipeline, Stage
    from agentmem.pipeline.understand import Understanding


class MemoryBase:
    """The life of a memory. `Memory` describes the parameters."""

    def __init__(
        self,
        url_or_settings: str | Path | Settings | None = None,
        *,
        tenant: str | None = None,
        embedder: Embedder | str | None = None,
        reranker: Reranker | str | None = None,
        chunker: Chunker | None = None,
        understand: Understanding | None = None,
        clock: Clock = utc_now,
        count_tokens: Callable[[str], int] | None = None,
        stages: Mapping[str, Stage] | None = None,
    ) -> None:
        if isinstance(url_or_settings, Settings):
            self._settings = url_or_settings
        elif url_or_settings is None:
            self._settings = Settings()
        else:
            self._settings = Settings(url=str(url_or_settings))
        self._tenant = check_tenant(self._settings.tenant if tenant is None else tenant)
        self._clock = checked(clock)
        self._choices = Choices(
            tenant=self._tenant,
            clock=self._clock,
            embedder=embedder,
            reranker=reranker,
            chunker=chunker,
            understand=understand,
            count_tokens=count_tokens,
            stages=stages,
        )
        self._lifecycle = Lifecycle()
        self._parts: Parts | None = None

    async def open(
        self, *, reembed: bool = False, on_progress: ProgressCallback | None = None
    ) -> None:
        """Open the store, creating it when it does not exist.

        Opening an open memory does nothing. Models are loaded at first use.

        Parameters
        ----------
        reembed
            When the store was written with another embedding model, cut and embed everything in it
            again with the configured one, for all tenants. Until that is complete the store stays
            as it was; an attempt that was cut short goes on where it stopped. Other processes that
            have the memory open with the former model get a `ModelMismatchError` afterwards.
        on_progress
            Told how many versions of documents are embedded, of how many.

        Raises
        ------
        ClosedError
            The memory was closed; make a new one.
        ModelMismatchError
            The store was written with another embedding model, and `reembed` was not asked for.
        CapabilityError
            The engine cannot embed again in place; its message says what to do instead.
        ConflictError
            Another process changes the store to yet another model.
        StoreError, ConfigurationError
            The store or a setting cannot be used.
        """
        if reembed:
            self._check_writable("embed again")
        async with self._lifecycle.opening() as needed:
            if needed:
                tell = (on_progress or _not_told) if reembed else None
                self._parts = await build(self._settings, self._choices, reembed=tell)

    async def close(self) -> None:
        """Let running calls finish, then release everything. Closing twice is harmless."""
        if await self._lifecycle.closing() and self._parts is not None:
            await self._parts.close()

    async def __aenter__(self) -> Self:
        """Open the memory."""
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the memory."""
        await self.close()

    @property
    def pipeline(self) -> Pipeline:
        """The stages of a search, to be printed. The memory must be open."""
        self._lifecycle.check()
        return self._open_parts().pipeline

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that opened the memory and on which it must be used."""
        return self._lifecycle.loop

    def now(self) -> datetime:
        """Return the time by the memory's clock, in UTC."""
        return self._clock()

    @property
    def _telemetry(self) -> Telemetry | None:
        """What watches the calls; None while the memory is not open."""
        return None if self._parts is None else self._parts.telemetry

    def _check_writable(self, what: str) -> None:
        if self._settings.read_only:
            raise CapabilityError(
                f"could not {what}: this memory was opened read-only; open it without read_only"
            )

    @asynccontextmanager
    async def _using(self) -> AsyncIterator[Parts]:
        async with self._lifecycle.running():
            yield self._open_parts()

    def _open_parts(self) -> Parts:
        if self._parts is None:
            raise ClosedError("this memory is closed; make a new Memory to use it again")
        return self._parts


def _not_told(progress: Progress) -> None:
    """Stand in for a caller who does not want to know how far the work is."""
