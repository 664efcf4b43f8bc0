"""The public API as a type checker sees it. Checked by mypy, never run.

Each `assert_type` states what a caller's editor shows; each `type: ignore` is a call that must be
refused, and the checker complains when it no longer is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, assert_type

from agentmem import (
    AgentMemError,
    Chunk,
    Citation,
    Document,
    F,
    Filter,
    FilterError,
    ForgetResult,
    Hit,
    InvalidDocumentError,
    Memory,
    Page,
    Plan,
    Progress,
    Receipt,
    RestoreResult,
    Scan,
    SearchResult,
    Settings,
    StageTrace,
    Stats,
    StoredDocument,
    VerifyResult,
    WriteResult,
)
from agentmem.models.base import Embedder, Encoding, RerankCandidate, Reranker

NOW = datetime(2025, 6, 15, 12, tzinfo=UTC)


class MyEmbedder:
    """Everything that an embedder needs; plain attributes will do for the properties."""

    id = "mine"
    dimensions = 8
    token_dimensions: int | None = None
    max_tokens = 512

    async def embed_passages(self, texts: Sequence[str]) -> Encoding:
        raise NotImplementedError

    async def embed_query(self, text: str) -> Encoding:
        raise NotImplementedError

    def count_tokens(self, text: str) -> int:
        return len(text)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]

    async def close(self) -> None: ...


class MyReranker:
    id = "mine"
    needs = frozenset({"text"})

    async def rerank(
        self, query: str, encoding: Encoding | None, candidates: Sequence[RerankCandidate]
    ) -> list[float]:
        return [0.0 for _ in candidates]

    async def close(self) -> None: ...


class MyChunker:
    def split(self, text: str) -> list[Chunk]:
        return [Chunk(0, 0, len(text), 1)]


async def my_understanding(plan: Plan, request: object) -> Mapping[str, Any] | None:
    return {"terms": (*plan.terms, "heron")}


def my_clock() -> datetime:
    return NOW


async def making() -> None:
    Memory()
    Memory("./memory")
    Memory(Path("memory"), tenant="acme")
    Memory(Settings(url="local://:memory:", reranker="none"))
    embedder: Embedder = MyEmbedder()
    reranker: Reranker = MyReranker()
    Memory("m", embedder=embedder, reranker=reranker, chunker=MyChunker(), clock=my_clock)
    Memory("m", embedder="default", reranker="none", understand=my_understanding)
    Memory("m", count_tokens=len)
    async with Memory("./memory") as memory:
        assert_type(memory, Memory)

    Memory(42)  # type: ignore[arg-type]
    Memory("m", "acme")  # type: ignore[call-arg]
    Memory("m", embedder=MyReranker())  # type: ignore[arg-type]
    Memory("m", clock="12:00")  # type: ignore[arg-type]
    with Memory("m"):  # type: ignore[attr-defined]
        pass


async def writing(memory: Memory, stream: AsyncIterator[Document]) -> None:
    def show(progress: Progress) -> None:
        assert_type(progress.done, int)
        assert_type(progress.total, int | None)

    document = Document("text", key="k", metadata={"year": 2025}, valid_from=NOW)
    result = await memory.write("text", user_id="ada", collection="notes", key="k")
    assert_type(result, WriteResult)
    assert_type(result.ids, tuple[str, ...])
    assert_type(result.created, int)
    assert_type(result.documents[0].version, int)
    await memory.write(document, expires_at=NOW)
    await memory.write(["one", document], on_progress=show)
    await memory.write(("one" for _ in range(3)), metadata={"kind": "note"})
    await memory.write(stream)

    Document("text", "key")  # type: ignore[call-arg]
    document.content = "other"  # type: ignore[misc]
    await memory.write(42)  # type: ignore[arg-type]
    await memory.write("text", "ada")  # type: ignore[call-arg]
    await memory.write("text", valid_from="2025-01-01")  # type: ignore[arg-type]


async def searching(memory: Memory) -> None:
    result = await memory.search("question")
    assert_type(result, SearchResult)
    assert_type(result.hits, tuple[Hit, ...])
    assert_type(result.context, str)
    assert_type(result.citations, tuple[Citation, ...])
    assert_type(result.plan, Plan)
    assert_type(result.degraded, tuple[str, ...])
    assert_type(result.trace["fuse"], StageTrace)
    assert_type(result.trace.milliseconds, float)
    for hit in result.hits:
        assert_type(hit.key, str | None)
        assert_type(hit.span, tuple[int, int])
        assert_type(hit.created_at, datetime)
        assert_type(hit.valid_until, datetime | None)
        assert_type(hit.scores.vector_rank, int | None)
        assert_type(hit.score, float)
        assert_type(hit.citation, Citation)
    await memory.search(
        "question",
        user_id="ada",
        collections=["notes"],
        where=(F("kind") == "note") & ~F("draft").exists() | (F("year") >= 2024),
        as_of=NOW,
        k=10,
        token_budget=500,
        diversify_by="document",
        explain=True,
        deadline=0.5,
    )
    await memory.search("question", where={"kind": {"in": ["note"]}}, as_of=date(2025, 1, 1))

    await memory.search("question", "ada")  # type: ignore[call-arg]
    await memory.search("question", k="10")  # type: ignore[arg-type]
    await memory.search("question", where="kind = 'note'")  # type: ignore[arg-type]
    await memory.search(b"question")  # type: ignore[arg-type]


def filtering() -> None:
    assert_type(F("kind") == "note", Filter)
    assert_type(F("kind") != "note", Filter)
    assert_type(F("year") >= 2024, Filter)
    assert_type((F("a") == 1) & (F("b") == 2), Filter)
    assert_type((F("a") == 1) | (F("b") == 2), Filter)
    assert_type(~(F("a") == 1), Filter)
    assert_type(F("tags").contains("x"), Filter)
    assert_type(F("kind").in_(["note", "mail"]), Filter)
    assert_type(F("kind").starts_with("n"), Filter)
    assert_type(F("kind").exists(), Filter)


async def forgetting(memory: Memory) -> None:
    receipt = await memory.forget("id")
    assert_type(receipt, ForgetResult)
    assert_type(receipt.count, int)
    assert_type(receipt.missing, tuple[str, ...])
    assert_type(receipt.at, datetime)
    assert_type(receipt.scan, Scan | None)
    assert_type(await memory.receipts(), tuple[Receipt, ...])
    assert_type((await memory.receipts())[0].ids, tuple[str, ...])
    await memory.forget(["a", "b"], user_id="ada", purge=True)
    await memory.forget(key="k", collection="notes", dry_run=True)
    await memory.forget(where=F("kind") == "note")
    await memory.forget(everything=True)
    assert_type(await memory.restore(["a"]), RestoreResult)

    await memory.forget("id", "key")  # type: ignore[call-arg]
    await memory.forget(key=1)  # type: ignore[arg-type]


async def reading(memory: Memory) -> None:
    assert_type(await memory.get("id"), StoredDocument | None)
    page = await memory.list(user_id="ada", limit=10)
    assert_type(page, Page)
    assert_type(page.documents, tuple[StoredDocument, ...])
    assert_type(page.cursor, str | None)
    assert_type(await memory.history("key"), tuple[StoredDocument, ...])
    assert_type(await memory.count(where={"year": 2025}), int)
    assert_type(await memory.stats(), Stats)
    assert_type(await memory.verify(repair=True), VerifyResult)
    assert_type(await memory.compact(), None)


def failing(error: AgentMemError) -> None:
    if isinstance(error, InvalidDocumentError):
        assert_type(error.position, int)
    if isinstance(error, FilterError):
        assert_type(error.path, str)
