"""Moves whole documents: out of a store, through a file, into another store.

Ids, versions and times are kept. What is there already is left alone, so that a move that was cut
short is simply done again. Work goes in batches: a large memory needs no more RAM than a small one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace

from agentmem._build import Parts
from agentmem._prepare import fingerprint_of, identity_of
from agentmem._types import Progress, ProgressCallback
from agentmem._types_moving import Comparison, MoveResult
from agentmem.backends.base import (
    CandidateRequest,
    ChunkToWrite,
    DocumentToLoad,
    DocumentToWrite,
    DumpedVersion,
    Micros,
    Owner,
    Scope,
    Selection,
)
from agentmem.models.checks import checked
from agentmem.models.token_codes import is_current
from agentmem.models.vector_codes import rounded

BATCH = 64
_SAMPLES = 20
_SAMPLE_WORDS = 8
_POOL = 10

Dumped = list[DumpedVersion]


@dataclass(slots=True)
class Counts:
    """How far a move has come."""

    documents: int = 0
    versions: int = 0
    chunks: int = 0
    stored: int = 0
    present: int = 0
    embedded: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, batch: Sequence[Dumped], stored: Sequence[bool] = ()) -> None:
        """Count a batch, and which of it was new at its destination where there is one."""
        self.documents += len(batch)
        self.versions += sum(map(len, batch))
        self.chunks += sum(len(version.chunks) for dumped in batch for version in dumped)
        self.stored += sum(stored)
        self.present += len(stored) - sum(stored)

    def result(self) -> MoveResult:
        """Return what was counted."""
        return MoveResult(
            documents=self.documents,
            versions=self.versions,
            chunks=self.chunks,
            stored=self.stored,
            present=self.present,
            embedded=self.embedded,
        )


async def dumped(parts: Parts, selection: Selection) -> AsyncIterator[list[Dumped]]:
    """Yield the selected documents with all versions, in batches in list order."""
    after: tuple[Micros, str] | None = None
    while batch := await parts.backend.dump(selection, after=after, limit=BATCH):
        yield batch
        last = batch[-1][-1].row
        after = last.first_created_at, last.document_id


async def store(
    parts: Parts,
    tenant: str,
    batches: AsyncIterator[list[Dumped]],
    *,
    keep_vectors: bool,
    on_progress: ProgressCallback | None,
) -> tuple[MoveResult, list[str]]:
    """Store what `batches` yields and return what was done, with texts to try searches with.

    `keep_vectors` says that the vectors come from the very model that is configured here.
    """
    counts = Counts()
    async for batch in batches:
        known = await _known(parts, tenant, batch)
        whole = [
            document
            if document[-1].row.document_id in known  # no need to embed it
            else await _whole(parts, document, keep_vectors, counts)
            for document in batch
        ]
        done = await parts.backend.load(tenant, [_to_load(document) for document in whole])
        counts.add(whole, done)
        if len(counts.samples) < _SAMPLES:
            counts.samples += [_sample(document) for document in whole[:2]]
        if on_progress is not None:
            on_progress(Progress(done=counts.documents, total=None))
    return counts.result(), counts.samples[:_SAMPLES]


async def _known(parts: Parts, tenant: str, batch: Sequence[Dumped]) -> set[str]:
    """Return the ids in a batch that the store has already."""
    selection = Selection(
        tenant=tenant,
        owner=Owner("every"),
        now=0,
        ids=tuple(document[-1].row.document_id for document in batch),
        deleted=None,
        expired=True,
    )
    return {row.document_id for row in await parts.backend.read(selection)}


async def _whole(parts: Parts, document: Dumped, keep: bool, counts: Counts) -> Dumped:
    """Return a document whose versions all have usable chunks."""
    lacking = [
        place
        for place, version in enumerate(document)
        if not (keep and _usable(parts, version.chunks))
    ]
    if not lacking:
        return document
    counts.embedded += len(lacking)
    rows = [document[place].row for place in lacking]
    made = await parts.ingest.chunks_of([(row.title, row.content) for row in rows])
    whole = list(document)
    for place, chunks in zip(lacking, made, strict=True):
        whole[place] = replace(whole[place], chunks=chunks)
    return whole


def _usable(parts: Parts, chunks: Sequence[ChunkToWrite]) -> bool:
    embedder = parts.embedder
    return bool(chunks) and all(
        len(chunk.vector) == embedder.dimensions
        and (embedder.token_dimensions is None or is_current(chunk.codes or b""))
        for chunk in chunks
    )


def _to_load(document: Dumped) -> DocumentToLoad:
    last = document[-1].row
    return DocumentToLoad(
        document_id=last.document_id,
        deleted_at=last.deleted_at,
        versions=tuple(_to_write(version) for version in document),
    )


def _to_write(version: DumpedVersion) -> DocumentToWrite:
    row = version.row
    return DocumentToWrite(
        user_id=row.user_id,
        collection=row.collection,
        key=row.key,
        identity=identity_of(row.key, row.content),
        fingerprint=_fingerprint(version),
        title=row.title,
        source_uri=row.source_uri,
        content=row.content,
        metadata=row.metadata,
        created_at=row.created_at,
        valid_from=row.valid_from,
        valid_until=row.valid_until,
        expires_at=row.expires_at,
        chunks=version.chunks,
    )


def _fingerprint(version: DumpedVersion) -> str:
    row = version.row
    times = row.valid_from, row.valid_until, row.expires_at
    return fingerprint_of(row.content, row.title, row.source_uri, row.metadata, times)


def _sample(document: Dumped) -> str:
    return " ".join(document[-1].row.content.split()[:_SAMPLE_WORDS])


# ------------------------------------------------------------------------- comparing


async def compare(
    source: tuple[Parts, Selection],
    destination: tuple[Parts, Selection],
    samples: Iterable[str],
    *,
    same_model: bool,
) -> Comparison:
    """Hold what was copied against where it came from."""
    mine = [entry async for entry in _summaries(*source)]
    theirs = dict([entry async for entry in _summaries(*destination)])
    known = {name for name, _ in mine}
    missing = [name for name, _ in mine if name not in theirs]
    different = [name for name, digest in mine if theirs.get(name, digest) != digest]
    whole = hashlib.blake2b(digest_size=20)
    for name, digest in mine:
        whole.update(f"{name} {digest}\n".encode())
    tried = list(samples) if same_model else []
    agreeing = [await _agree(source, destination, query, known) for query in tried]
    return Comparison(
        source=len(mine),
        destination=len(known & theirs.keys()),
        missing=tuple(missing),
        different=tuple(different),
        checksum=whole.hexdigest(),
        searches=len(tried),
        agreeing=sum(agreeing) if same_model else None,
    )


async def _summaries(parts: Parts, selection: Selection) -> AsyncIterator[tuple[str, str]]:
    """Yield each document's id with a hash over all its versions."""
    async for batch in dumped(parts, selection):
        for document in batch:
            last = document[-1].row
            facts = [
                [version.row.version, version.row.created_at, _fingerprint(version)]
                for version in document
            ]
            text = json.dumps([facts, last.user_id, last.collection, last.deleted_at is None])
            yield last.document_id, hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


async def _agree(
    source: tuple[Parts, Selection],
    destination: tuple[Parts, Selection],
    query: str,
    copied: set[str],
) -> bool:
    """Return whether the nearest chunks of shared documents are the same on both sides."""
    found = []
    for parts, selection in (source, destination):
        encoding = checked(await parts.embedder.embed_query(query), parts.embedder, 1)
        scope = Scope(
            tenant=selection.tenant,
            user_id=None,
            collections=selection.collections,
            where=selection.where,
            now=selection.now,
            as_of=None,
        )
        request = CandidateRequest(
            text=query,
            vector=rounded(encoding.vectors[0]),
            terms=(),
            pool=_POOL,
            fusion_k=60,
            limit=_POOL,
            want_codes=False,
        )
        answer = await parts.backend.candidates(scope, request)
        ranked = sorted(answer.items, key=lambda item: item.vector_rank or 0)
        found.append([item.id for item in ranked if item.id.partition(":")[0] in copied])
    return found[0] == found[1]
