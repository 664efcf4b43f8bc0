"""A LangChain retriever over a memory: native async, and a sync path that is safe everywhere.

A memory belongs to the event loop that opened it. A retriever that is given an open memory uses it
on that loop. One that is given a URL opens a memory of its own on a loop in a thread of its own, so
that `invoke` works from any thread, also from one whose loop is running, and `ainvoke` from any
loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from agentmem import Hit, Memory, Settings
from agentmem.errors import WrongLoopError

T = TypeVar("T")


class AgentMemRetriever(BaseRetriever):
    """Finds documents in a memory.

    Each document carries in its metadata: `title`, `source`, `document_id`, `version`, `chunk`,
    `score`, `similarity`, `created_at`, `citation` (document, version and character span), and the
    document's own metadata under `metadata`.

    Parameters
    ----------
    memory
        An open memory, which stays the caller's.
    url
        Where a memory is, instead of an open one; closed by `close`.
    tenant
        Tenant of a memory that the retriever opens.
    user_id, collections, where, as_of, k
        As in `Memory.search`; each can also be given per call:
        ``retriever.invoke("...", user_id="ada", k=3)``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: Memory | None = None
    url: str | Settings | None = None
    tenant: str | None = None
    user_id: str | None = None
    collections: list[str] | None = None
    where: Any = None
    as_of: Any = None
    k: int = Field(default=8, ge=1)

    _own: _OwnMemory | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _one_place(self) -> AgentMemRetriever:
        if (self.memory is None) == (self.url is None):
            raise ValueError("give either an open memory or a url")
        return self

    def close(self) -> None:
        """Close the memory that the retriever has opened, and end its thread."""
        if self._own is not None:
            self._own.close()
            self._own = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **scope: Any
    ) -> list[Document]:
        if self.memory is None:
            return self._opened().run(self._search(self._opened().memory, query, scope))
        return _on_its_loop(self.memory, self._search(self.memory, query, scope))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **scope: Any
    ) -> list[Document]:
        if self.memory is not None:
            return await self._search(self.memory, query, scope)
        own = await asyncio.to_thread(self._opened)
        return await own.run_async(self._search(own.memory, query, scope))

    async def _search(self, memory: Memory, query: str, scope: dict[str, Any]) -> list[Document]:
        chosen: dict[str, Any] = {
            "user_id": self.user_id,
            "collections": self.collections,
            "where": self.where,
            "as_of": self.as_of,
            "k": self.k,
        }
        result = await memory.search(query, **(chosen | scope))
        return [to_document(hit) for hit in result.hits]

    def _opened(self) -> _OwnMemory:
        if self._own is None:
            self._own = _OwnMemory(self.url, self.tenant)
        return self._own


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


class _OwnMemory:
    """A memory on a loop in a thread of its own."""

    def __init__(self, url: str | Settings | None, tenant: str | None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="agentmem-langchain", daemon=True
        )
        self._thread.start()
        self.memory = Memory(url, tenant=tenant)
        try:
            self.run(self.memory.open())
        except BaseException:
            self._end()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        try:
            self.run(self.memory.close())
        finally:
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _on_its_loop(memory: Memory, work: Coroutine[Any, Any, T]) -> T:
    """Run work on the loop that the memory belongs to, from another thread."""
    loop = memory.loop
    try:
        running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop or not loop.is_running():
        work.close()
        raise WrongLoopError(
            "invoke() cannot wait for a memory that was opened on this loop; use ainvoke(), or "
            "give the retriever a url instead of an open memory"
        )
    return asyncio.run_coroutine_threadsafe(work, loop).result()
