"""Fixtures for a real server, and a summary of what was found on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import oracledb
import pytest

from agentmem import Memory
from agentmem.backends.oracle._pools import prepare_session
from agentmem.backends.oracle._target import read_target
from tests.databases import PASSWORD, OracleStore, oracle_settings
from tests.support import SetClock, WordEmbedder

_FINDINGS: list[str] = []


@pytest.fixture
def finding() -> Callable[[str], None]:
    """Return a function that notes a sentence for the summary."""
    return _FINDINGS.append


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what the tests found out about the server."""
    if _FINDINGS:
        terminalreporter.section("what this server does")
        for sentence in _FINDINGS:
            terminalreporter.write_line(f"* {sentence}")


@pytest.fixture
def store() -> OracleStore:
    """Return the store on the named server."""
    return OracleStore()


@pytest.fixture
async def memory(store: OracleStore, clock: SetClock) -> AsyncIterator[Memory]:
    """Yield an empty memory on the server."""
    async with store.memory(WordEmbedder(), {"clock": clock, "tenant": "acme"}) as opened:
        yield opened


@pytest.fixture
async def connection(memory: Memory, store: OracleStore) -> AsyncIterator[Any]:
    """Yield a connection of the application user for the tenant of `memory`."""
    assert store.place
    dsn, plan = store.place
    async with oracledb.connect_async(user=plan.app, password=PASSWORD, dsn=dsn) as made:
        await prepare_session(made, read_target(oracle_settings(dsn, plan)))
        await made.callproc(f"{plan.owner}.mem_session.set_tenant", ["acme"])
        yield made
