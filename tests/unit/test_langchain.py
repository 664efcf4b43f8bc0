"""The retriever for LangChain, with LangChain's own standard tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_tests.integration_tests import RetrieversIntegrationTests

import agentmem
from agentmem import F, Memory, WrongLoopError
from agentmem.integrations.home import THREAD_NAME, MemoryHome
from agentmem.integrations.langchain import AgentMemRetriever
from tests.support import WordEmbedder

TEXTS = ["tea with milk", "the kettle boils", "milk and sugar", "a cup of tea"]


async def _fill(folder: Path) -> None:
    async with Memory(folder) as memory:
        await memory.write(TEXTS, title="Kitchen", source_uri="file:///k", metadata={"n": 1})
        await memory.write("the owl code of ada", user_id="ada")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("langchain") / "memory"
    asyncio.run(_fill(folder))
    return str(folder)


class TestStandard(RetrieversIntegrationTests):
    """The tests that LangChain publishes."""

    _made: list[AgentMemRetriever]

    @pytest.fixture(autouse=True)
    def _place(self, filled: str) -> Iterator[None]:
        self.filled = filled
        self._made = []
        yield
        for retriever in self._made:
            retriever.close()

    @property
    def retriever_constructor(self) -> Any:
        def make(**arguments: Any) -> AgentMemRetriever:
            self._made.append(AgentMemRetriever(**arguments))
            return self._made[-1]

        return make

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"url": self.filled}

    @property
    def retriever_query_example(self) -> str:
        return "tea"


@pytest.fixture
def retriever(filled: str) -> Iterator[AgentMemRetriever]:
    made = AgentMemRetriever(url=filled, k=2)
    yield made
    made.close()


def test_documents_carry_what_a_citation_needs(retriever: AgentMemRetriever) -> None:
    found = retriever.invoke("kettle")
    assert found[0].page_content == "the kettle boils"
    metadata = found[0].metadata
    assert (metadata["title"], metadata["source"], metadata["version"]) == (
        "Kitchen", "file:///k", 1,
    )  # fmt: skip
    assert metadata["citation"].startswith(f"{metadata['document_id']}:1:0-")
    assert metadata["metadata"] == {"n": 1}
    assert metadata["score"] > 0


def test_scope_per_call(retriever: AgentMemRetriever) -> None:
    assert "the owl code of ada" not in [d.page_content for d in retriever.invoke("owl code")]
    assert retriever.invoke("owl code", user_id="ada")[0].page_content == "the owl code of ada"
    assert len(retriever.invoke("tea", k=1)) == 1
    assert retriever.invoke("tea", where=F("n") == 2) == []


async def test_sync_inside_a_running_loop(retriever: AgentMemRetriever) -> None:
    assert retriever.invoke("kettle")[0].page_content == "the kettle boils"
    assert (await retriever.ainvoke("kettle"))[0].page_content == "the kettle boils"


async def test_an_open_memory(tmp_path: Path) -> None:
    async with Memory(tmp_path / "m", embedder=WordEmbedder()) as memory:
        await memory.write(TEXTS)
        retriever = AgentMemRetriever(memory=memory, k=1)
        assert (await retriever.ainvoke("kettle"))[0].page_content == "the kettle boils"
        with pytest.raises(WrongLoopError, match="use the asynchronous method"):
            retriever.invoke("kettle")
        found: list[Document] = await asyncio.to_thread(retriever.invoke, "kettle")
        assert found[0].page_content == "the kettle boils"


def test_one_place_is_needed() -> None:
    cases: list[dict[str, Any]] = [{}, {"memory": Memory("x"), "url": "x"}]
    for arguments in cases:
        with pytest.raises(ValueError, match="either an open memory or a url"):
            AgentMemRetriever(**arguments)


def test_a_memory_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(agentmem.StoreAccessError):
        AgentMemRetriever(url=str(tmp_path / "file")).invoke("x")
    assert not [t for t in threading.enumerate() if t.name == THREAD_NAME]


def test_a_home_that_was_given_stays_open(tmp_path: Path) -> None:
    with MemoryHome(url=tmp_path / "memory", embedder=WordEmbedder()) as home:
        AgentMemRetriever(memory=home).close()
        assert AgentMemRetriever(memory=home).invoke("tide") == []
