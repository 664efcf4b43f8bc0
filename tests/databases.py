"""Makes the stores that the shared tests run on: a folder, RAM, the stand-in, a real Oracle."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import oracledb
import pytest

from agentmem import Memory
from agentmem.backends.oracle._meta import Meta
from agentmem.backends.oracle._schema import Plan, steps
from agentmem.backends.oracle._setup import LogOn, connected, run_step
from agentmem.config import Settings
from agentmem.models.base import Embedder
from tests.standin import StandIn

ORACLE = os.environ.get("AGENTMEM_TEST_ORACLE_DSN")
"""``user/password@host:port/service`` of an administrator, to run the shared tests on Oracle."""

KINDS = ("folder", "ram", "standin", *(["oracle"] if ORACLE else []))
PASSWORD = "Test_password_1"


def plan_for(embedder: Embedder, owner: str = "mem_owner", app: str = "mem_app") -> Plan:
    """Return the set-up for an embedder."""
    return Plan(
        owner=owner,
        app=app,
        meta=Meta(
            embedder=embedder.id,
            dimensions=embedder.dimensions,
            token_dimensions=embedder.token_dimensions,
        ),
    )


def oracle_settings(dsn: str, plan: Plan, **more: Any) -> Settings:
    """Return settings for the application user of a plan."""
    return Settings(
        url=f"oracle://{plan.app}@{dsn}",
        oracle_owner=plan.owner,
        oracle_password=PASSWORD,
        **more,
    )


@dataclass(slots=True)
class StandInStore:
    """A stand-in that is set up for the first embedder that it meets."""

    server: StandIn = field(default_factory=StandIn)
    plan: Plan | None = None

    def memory(self, embedder: Embedder, arguments: dict[str, Any], **settings: Any) -> Memory:
        if self.plan is None:
            self.plan = plan_for(embedder)
            self.server.set_up(s for step in steps(self.plan) for s in step.statements)
        where = oracle_settings("stand-in:1521/none", self.plan, **settings)
        return Memory(where, embedder=embedder, **arguments)


def use_standin(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInStore]:
    """Put a stand-in in the place of the driver."""
    store = StandInStore()
    monkeypatch.setattr(oracledb, "create_pool_async", store.server.create_pool_async)
    monkeypatch.setattr(oracledb, "connect_async", store.server.connect_async)
    yield store
    left = store.server.checked_out
    store.server.close()
    assert left == 0, f"{left} connections were not given back"


@dataclass(slots=True)
class OracleStore:
    """A real server, set up and emptied for the first embedder that it meets."""

    place: tuple[str, Plan] | None = None

    def memory(self, embedder: Embedder, arguments: dict[str, Any], **settings: Any) -> Memory:
        if self.place is None:
            with ThreadPoolExecutor(1) as thread:  # the test's own loop is running here
                self.place = thread.submit(asyncio.run, _prepared(embedder)).result()
        return Memory(oracle_settings(*self.place, **settings), embedder=embedder, **arguments)


async def _prepared(embedder: Embedder) -> tuple[str, Plan]:
    """Set up a schema for an embedder on the real server, emptied, and return where it is."""
    assert ORACLE
    parts = urlsplit(f"//{ORACLE.replace('/', ':', 1)}")
    dsn = f"{parts.hostname}:{parts.port or 1521}{parts.path}"
    plan = plan_for(
        embedder,
        owner=f"mem_owner_{embedder.dimensions}",
        app=f"mem_app_{embedder.dimensions}",
    )
    passwords = {"owner_password": PASSWORD, "app_password": PASSWORD}
    administrator = LogOn(unquote(parts.username or ""), unquote(parts.password or ""), dsn, {})
    async with connected(administrator) as connection:
        for step in steps(plan):
            if step.run_as == "admin":
                await run_step(connection, step, passwords)
    async with connected(LogOn(plan.owner, PASSWORD, dsn, {})) as connection:
        for step in steps(plan):
            if step.run_as == "owner":
                await run_step(connection, step, passwords)
        await connection.execute("TRUNCATE TABLE mem_documents CASCADE")
        await connection.execute("TRUNCATE TABLE mem_receipts")
    return dsn, plan


def local_url(kind: str, folder: Path) -> str:
    """Return the URL of an embedded store."""
    return "local://:memory:" if kind == "ram" else str(folder)
