"""agentmem's Oracle engine on the tests' stand-in: what it finds, not how fast Oracle is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import oracledb

from agentmem.backends.oracle._schema import steps
from benchmarks.systems.embedded import Embedded
from tests.databases import oracle_settings, plan_for
from tests.standin import StandIn


class OnStandIn(Embedded):
    """The statements of the Oracle engine, executed on DuckDB."""

    @asynccontextmanager
    async def place(self) -> AsyncIterator[dict[str, Any]]:
        """Put the stand-in in the place of the driver."""
        server, driver = StandIn(), oracledb.create_pool_async
        plan = plan_for(self.embedder)
        server.set_up(statement for step in steps(plan) for statement in step.statements)
        oracledb.create_pool_async = server.create_pool_async
        try:
            settings = oracle_settings("stand-in:1521/none", plan, oracle_call_timeout=600)
            names = {"url", "oracle_owner", "oracle_call_timeout", "oracle_password"}
            yield settings.model_dump(include=names)
        finally:
            oracledb.create_pool_async = driver
            server.close()


SYSTEM = OnStandIn
