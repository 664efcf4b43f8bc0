"""A LangChain retriever over a memory: native async, and a sync path that is safe everywhere.

A retriever that is given a URL opens a memory of its own on a loop in a thread of its own, so that
`invoke` works from any thread, also from one whose loop is running. With an open memory, `invoke`
works from every thread but the one of the memory's loop. `ainvoke` works from any loop.
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from agentmem import Hit, Memory, Settings
from agentmem.integrations.home import MemoryHome, Work, as_home, extra

with extra("langchain", "langchain_core"):
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever


class AgentMemRetriever(BaseRetriever):
    """Finds documents in a memory.

    Each document carries in its metadata: `title`, `source`, `document_id`, `version`, `chunk`,
    `score`, `similarity`, `created_at`, `citation` (document, version and character span), and the
    document's own metadata under `metadata`.

    Attributes
    ----------
    memory
        An open memory or a `MemoryHome`, which stays the caller's.
    url
        Where a memory is, instead of an open one; closed by `close`.
    tenant
        Tenant of a memory that the retriever opens.
    user_id, collections, where, as_of, k
        As in `Memory.search`; each can also be given per call:
        ``retriever.invoke("...", user_id="ada", k=3)``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: Memory | MemoryHome | None = None
    url: str | Settings | None = None
    tenant: str | None = None
    user_id: str | None = None
    collections: list[str] | None = None
    where: Any = None
    as_of: Any = None
    k: int = Field(default=8, ge=1)

    _home: MemoryHome = PrivateAttr()

    @model_validator(mode="after")
    def _one_place(self) -> AgentMemRetriever:
        if (self.memory is None) == (self.url is None):
            raise ValueError("give either an open memory or a url")
        self._home = as_home(self.memory, self.url, self.tenant)
        return self

    def close(self) -> None:
        """Close the memory that the retriever has opened, and end its thread."""
        if not isinstance(self.memory, MemoryHome):  # a home that was given stays the caller's
            self._home.close()

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **scope: Any
    ) -> list[Document]:
        return self._home.run(self._search(query, scope))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **scope: Any
    ) -> list[Document]:
        return await self._home.arun(self._search(query, scope))

    def _search(self, query: str, scope: dict[str, Any]) -> Work[list[Document]]:
        chosen: dict[str, Any] = {
            "user_id": self.user_id,
            "collections": self.collections,
            "where": self.where,
            "as_of": self.as_of,
            "k": self.k,
        }

        async def search(memory: Memory) -> list[Document]:
            result = await memory.search(query, **(chosen | scope))
            return [to_document(hit) for hit in result.hits]

        return search


def to_document(hit: Hit) -> Document:
    """Return a hit as LangChain knows documents."""
    start, end = hit.span
    return Document(
        id=hit.id,
        page_content=hit.text,
        metadata={
            "title": hit.title,
            "source": hit.source_uri,
            "document_id": hit.document_id,
            "version": hit.version,
            "chunk": hit.chunk_index,
            "score": hit.score,
            "similarity": hit.scores.similarity,
            "created_at": hit.created_at.isoformat(),
            "citation": f"{hit.document_id}:{hit.version}:{start}-{end}",
            "metadata": dict(hit.metadata),
        },
    )
