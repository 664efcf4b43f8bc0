"""Fixtures of the tests of the store for LangGraph."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentmem import Memory
from agentmem.integrations.home import MemoryHome
from agentmem.integrations.langgraph_store import AgentMemStore
from tests.support import SetClock, WordEmbedder


@pytest.fixture
def store(memory: Memory) -> AgentMemStore:
    """Return a store in a memory of each engine, for asynchronous use."""
    return AgentMemStore(memory)


@pytest.fixture
def plain(clock: SetClock) -> Iterator[AgentMemStore]:
    """Yield a store with a loop of its own, for synchronous use."""
    with MemoryHome(url="local://:memory:", embedder=WordEmbedder(), clock=clock) as home:
        yield AgentMemStore(home)
