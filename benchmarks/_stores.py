"""Opens the store that a measurement runs on: a folder, the tests' stand-in, or a real Oracle."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from agentmem.models.onnx_embedder import OnnxEmbedder
from benchmarks._datasets import DataError


class Store(StrEnum):
    """Where the measured memory lives."""

    EMBEDDED = "embedded"
    STANDIN = "standin"
    ORACLE = "oracle"


@asynccontextmanager
async def opened_store(store: Store) -> AsyncIterator[dict[str, Any]]:
    """Yield the settings of an empty store.

    The stand-in executes the Oracle engine's statements on DuckDB: it tells whether the statements
    find the same, and nothing about Oracle's speed or its ranking of words. For a real server the
    environment says where it is (``AGENTMEM_URL``, ``AGENTMEM_ORACLE_*``); it must be set up, and a
    tenant of its own is filled and purged.

    Raises
    ------
    DataError
        No server is named.
    """
    if store is Store.EMBEDDED:
        with tempfile.TemporaryDirectory(prefix="agentmem-") as folder:
            yield {"url": str(Path(folder) / "memory")}
    elif store is Store.STANDIN:
        async with _standin() as settings:
            yield settings
    else:
        url = os.environ.get("AGENTMEM_URL", "")
        if not url.startswith("oracle://"):
            raise DataError("set AGENTMEM_URL to oracle://USER@HOST:PORT/SERVICE")
        yield {"url": url, "tenant": f"benchmark-{os.getpid()}"}


@asynccontextmanager
async def _standin() -> AsyncIterator[dict[str, Any]]:
    import oracledb

    from agentmem.backends.oracle._schema import steps
    from tests.databases import oracle_settings, plan_for
    from tests.standin import StandIn

    server, driver = StandIn(), oracledb.create_pool_async
    embedder = OnnxEmbedder()
    plan = plan_for(embedder)
    await embedder.close()
    server.set_up(statement for step in steps(plan) for statement in step.statements)
    oracledb.create_pool_async = server.create_pool_async
    try:
        settings = oracle_settings("stand-in:1521/none", plan, oracle_call_timeout=600)
        yield settings.model_dump(include={"url", "oracle_owner", "oracle_call_timeout"}) | {
            "oracle_password": settings.oracle_password
        }
    finally:
        oracledb.create_pool_async = driver
        server.close()
