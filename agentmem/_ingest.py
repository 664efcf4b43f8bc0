"""Writes documents: checks, chunks and embeds them, and hands them to the engine in batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice

from agentmem._chunking import Chunk, Chunker
from agentmem._clock import Clock, to_micros
from agentmem._prepare import Prepared, prepare
from agentmem._types import Document, Progress, ProgressCallback, WrittenDocument
from agentmem.backends._rules import searchable_text
from agentmem.backends.base import (
    Backend,
    ChunkToWrite,
    DocumentToWrite,
    Head,
    Identity,
    Vector,
    Written,
)
from agentmem.errors import AgentMemError, InvalidDocumentError
from agentmem.models.base import Embedder, TokenVectors
from agentmem.models.checks import checked
from agentmem.models.token_codes import encode
from agentmem.models.vector_codes import rounded

WriteInput = str | Document | Iterable[str | Document] | AsyncIterable[str | Document]


class Ingest:
    """The write path of one open memory.

    Parameters
    ----------
    backend, embedder, chunker
        Where documents go and what makes them searchable.
    tenant
        Owner of everything written.
    batch
        Documents of one transaction.
    clock
        Tells the time of a write.
    """

    def __init__(
        self,
        backend: Backend,
        embedder: Embedder,
        chunker: Chunker,
        *,
        tenant: str,
        batch: int,
        clock: Clock,
    ) -> None:
        self._backend = backend
        self._embedder = embedder
        self._chunker = chunker
        self._tenant = tenant
        self._batch = batch
        self._clock = clock

    async def write(
        self, content: WriteInput, defaults: Document, on_progress: ProgressCallback | None
    ) -> list[WrittenDocument]:
        """Write everything that `content` yields and return what became of each document."""
        if isinstance(content, AsyncIterable):
            return await self._write_stream(content, defaults, on_progress)
        items = [content] if isinstance(content, (str, Document)) else _listed(content)
        now = self._clock()
        prepared = await asyncio.to_thread(_prepared, items, defaults, now, 0)
        done: list[WrittenDocument] = []
        rest = iter(prepared)
        while batch := list(islice(rest, self._batch)):
            done += await self._write_batch(batch)
            _tell(on_progress, len(done), len(items))
        return done

    async def chunks_of(
        self, texts: Sequence[tuple[str | None, str]]
    ) -> list[tuple[ChunkToWrite, ...]]:
        """Cut and embed titles with texts that come from elsewhere."""
        cut = await asyncio.to_thread(
            lambda: [self._chunker.split(content) for _, content in texts]
        )
        parts = iter(
            await self._embedded(
                [
                    searchable_text(title, content[chunk.start : chunk.end])
                    for (title, content), chunks in zip(texts, cut, strict=True)
                    for chunk in chunks
                ]
            )
        )
        return [_chunks(chunks, list(islice(parts, len(chunks)))) for chunks in cut]

    async def repair_vectors(self) -> None:
        """Embed again what lacks a usable vector or token codes, batch by batch."""
        after = 0
        while rows := await self._backend.lacking_vectors(after, self._batch):
            parts = await self._embedded([text for _, text in rows])
            await self._backend.set_vectors(
                [(row, vector, code) for (row, _), (vector, code) in zip(rows, parts, strict=True)]
            )
            after = rows[-1][0]

    async def _write_stream(
        self,
        content: AsyncIterable[str | Document],
        defaults: Document,
        on_progress: ProgressCallback | None,
    ) -> list[WrittenDocument]:
        done: list[WrittenDocument] = []
        async for batch in _batched(content, self._batch):
            now = self._clock()
            try:
                prepared = await asyncio.to_thread(_prepared, batch, defaults, now, len(done))
            except InvalidDocumentError as error:
                raise InvalidDocumentError(
                    f"{error} (the {len(done)} documents before its batch are written)",
                    position=error.position,
                ) from error
            done += await self._write_batch(prepared)
            _tell(on_progress, len(done), None)
        return done

    async def _write_batch(self, batch: Sequence[Prepared]) -> list[WrittenDocument]:
        now = to_micros(self._clock())
        identities = [
            Identity(user_id=d.user_id, collection=d.collection, identity=d.identity) for d in batch
        ]
        heads = await self._backend.heads(self._tenant, identities, now)
        fresh = [
            (place, document)
            for place, (document, head) in enumerate(zip(batch, heads, strict=True))
            if head is None or head.fingerprint != document.fingerprint
        ]
        written: dict[int, Written] = {}
        if fresh:
            ready = await self._ready([document for _, document in fresh], now)
            results = await self._backend.write(self._tenant, ready)
            written = {place: w for (place, _), w in zip(fresh, results, strict=True)}
        return [_outcome(head, written.get(place)) for place, head in enumerate(heads)]

    async def _ready(self, batch: Sequence[Prepared], now: int) -> list[DocumentToWrite]:
        """Chunk and embed a batch."""
        cut = await asyncio.to_thread(self._cut, batch)
        texts = [
            searchable_text(document.title, document.content[chunk.start : chunk.end])
            for document, chunks in zip(batch, cut, strict=True)
            for chunk in chunks
        ]
        parts = iter(await self._embedded(texts))
        # A microsecond apart, so that lists, exports and copies keep the order of one call.
        return [
            _to_write(document, chunks, list(islice(parts, len(chunks))), now + place)
            for place, (document, chunks) in enumerate(zip(batch, cut, strict=True))
        ]

    async def _embedded(self, texts: Sequence[str]) -> list[tuple[Vector, bytes | None]]:
        """Return vector and token codes of each text."""
        encoding = checked(await self._embedder.embed_passages(texts), self._embedder, len(texts))
        codes: Sequence[bytes | None] = [None] * len(texts)
        if encoding.tokens is not None:
            codes = await asyncio.to_thread(_codes, encoding.tokens)
        return list(zip(rounded(encoding.vectors), codes, strict=True))

    def _cut(self, batch: Sequence[Prepared]) -> list[list[Chunk]]:
        return [self._chunker.split(document.content) for document in batch]


def _codes(tokens: Sequence[TokenVectors]) -> list[bytes]:
    return encode([of_one.vectors for of_one in tokens])


def _prepared(
    items: Sequence[str | Document], defaults: Document, now: datetime, start: int
) -> list[Prepared]:
    return [
        prepare(_document(item), defaults, now, position)
        for position, item in enumerate(items, start)
    ]


def _listed(content: Iterable[str | Document]) -> list[str | Document]:
    try:
        if isinstance(content, Mapping):  # its keys would be written without a word
            raise TypeError
        return list(content)
    except TypeError:
        raise InvalidDocumentError(
            "content must be a str, a Document or an iterable of these, "
            f"not {type(content).__name__}"
        ) from None


def _document(item: str | Document) -> Document:
    return Document(item) if isinstance(item, str) else item


async def _batched(
    items: AsyncIterable[str | Document], size: int
) -> AsyncIterator[list[str | Document]]:
    batch: list[str | Document] = []
    async for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _tell(on_progress: ProgressCallback | None, done: int, total: int | None) -> None:
    if on_progress is not None:
        on_progress(Progress(done=done, total=total))


def _outcome(head: Head | None, written: Written | None) -> WrittenDocument:
    if written is not None:
        return WrittenDocument(
            id=written.document_id,
            version=written.version,
            status=written.status,
            chunks=written.chunks,
        )
    if head is None:  # pragma: no cover - a document without a head is always written
        raise AgentMemError("the engine returned nothing for a document")
    return WrittenDocument(
        id=head.document_id, version=head.version, status="unchanged", chunks=head.chunks
    )


def _to_write(
    document: Prepared,
    chunks: Sequence[Chunk],
    parts: Sequence[tuple[Vector, bytes | None]],
    now: int,
) -> DocumentToWrite:
    return DocumentToWrite(
        user_id=document.user_id,
        collection=document.collection,
        key=document.key,
        identity=document.identity,
        fingerprint=document.fingerprint,
        title=document.title,
        source_uri=document.source_uri,
        content=document.content,
        metadata=document.metadata,
        created_at=now,
        valid_from=document.valid_from,
        valid_until=document.valid_until,
        expires_at=document.expires_at,
        chunks=_chunks(chunks, parts),
    )


def _chunks(
    chunks: Sequence[Chunk], parts: Sequence[tuple[Vector, bytes | None]]
) -> tuple[ChunkToWrite, ...]:
    return tuple(
        ChunkToWrite(
            chunk_index=chunk.index,
            start=chunk.start,
            end=chunk.end,
            tokens=chunk.tokens,
            vector=vector,
            codes=code,
        )
        for chunk, (vector, code) in zip(chunks, parts, strict=True)
    )
