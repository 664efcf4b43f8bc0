"""agentmem on a real Oracle server, which the environment names.

``AGENTMEM_URL`` and ``AGENTMEM_ORACLE_*`` say where; the schema must be set up for the embedder. A
tenant of the run's own is filled, and purged in the end.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks._datasets import DataError
from benchmarks.systems.embedded import Embedded


class OnOracle(Embedded):
    """The same pipeline, with stages 2 to 5 in one statement of the server."""

    @asynccontextmanager
    async def place(self) -> AsyncIterator[dict[str, Any]]:
        """Read the environment."""
        url = os.environ.get("AGENTMEM_URL", "")
        if not url.startswith("oracle://"):
            raise DataError("set AGENTMEM_URL to oracle://USER@HOST:PORT/SERVICE")
        yield {"url": url, "tenant": f"benchmark-{os.getpid()}"}

    async def close(self) -> None:
        """Purge the tenant, then close."""
        await self._memory.forget(everything=True, purge=True, confirm=True)
        await super().close()


SYSTEM = OnOracle
