"""The part of `Memory` that moves whole documents: export, import, copy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agentmem._arguments import Where, moved_selection
from agentmem._memory_base import MemoryBase
from agentmem._moving import BATCH, Counts, compare, dumped, store
from agentmem._telemetry import watched
from agentmem._types import Document, Progress, ProgressCallback, WriteResult
from agentmem._types_moving import MoveResult
from agentmem.backends.base import DumpedVersion, Selection

if TYPE_CHECKING:
    pass

T = TypeVar("T")


class MovingMemory(MemoryBase):
    """What `Memory` inherits; see there for the rest."""

    @watched
    async def export(
        self,
        path: str | Path,
        *,
        user_id: str | None = None,
        collections: Iterable[str] | None = None,
        where: Where | None = None,
        vectors: bool = True,
        on_progress: ProgressCallback | None = None,
    ) -> MoveResult:
        """Write documents with all versions and times to a file.

        Forgotten documents are included and stay forgotten; purged ones are gone. The file appears
        under its name when it is complete.

        Parameters
        ----------
        path
            The file; its ending chooses the format: ``.parquet``, ``.jsonl`` or ``.ndjson``.
        user_id
            Only what this user owns; None exports all users of the tenant and what is shared.
        collections, where
            As in `search`, over the newest version of a document.
        vectors
            Write vectors and token codes too, so that an import need not embed again.

        Raises
        ------
        InvalidInputError
            The file's name has another ending, or a filter cannot be used.
        """
        from agentmem._files import Writer

        selection = self._moved(user_id, collections, where)
        place = Path(path)
        counts = Counts()
        async with self._using() as parts:
            writer = await asyncio.to_thread(
                Writer, place, embedder=parts.embedder.id, vectors=vectors
            )
            try:
                async for batch in dumped(parts, selection):
                    await asyncio.to_thread(writer.add, batch)
                    counts.add(batch)
                    if on_progress is not None:
                        on_progress(Progress(done=counts.documents, total=None))
                await asyncio.to_thread(writer.finish)
            finally:
                writer.close()
        return counts.result()

    @watched
    async def import_(
        self, path: str | Path, *, on_progress: ProgressCallback | None = None
    ) -> MoveResult:
        """Bring in what `export` has written, with ids, versions and times.

        A document whose id is there already is left alone, so an import that was cut short is
        simply done again. Texts are embedded again when the file has no vectors or those of
        another model.

        Raises
        ------
        InvalidInputError
            The file cannot be read.
        ConflictError
            A document's key or text belongs to another one here. What came before it is stored.
        """
        from agentmem._files import read_versions

        self._check_writable("import")
        async with self._using() as parts:
            mine = parts.embedder.id

            def kept(entry: tuple[str | None, list[DumpedVersion]]) -> list[DumpedVersion]:
                embedder, versions = entry
                if embedder == mine:
                    return versions
                return [DumpedVersion(row=version.row, chunks=()) for version in versions]

            batches = _in_batches(map(kept, read_versions(Path(path))))
            result, _ = await store(
                parts, self._tenant, batches, keep_vectors=True, on_progress=on_progress
            )
        return result

    @watched
    async def import_table(
        self,
        path: str | Path,
        columns: Mapping[str, str],
        *,
        user_id: str | None = None,
        collection: str | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> WriteResult:
        """Write a document for each row of anybody's CSV, JSON lines or Parquet file.

        Parameters
        ----------
        columns
            For each field of `Document`, or ``metadata.NAME``, the column that holds it, such as
            ``{"content": "body", "key": "id", "metadata.author": "author"}``.
        user_id, collection
            Defaults for rows without a value of their own.

        Raises
        ------
        InvalidInputError
            The file or a column cannot be used.
        InvalidDocumentError
            A row cannot be written; its position is in the error.
        """
        from agentmem._files import read_table

        self._check_writable("import")
        defaults = Document("", user_id=user_id, collection=collection)
        rows = _one_by_one(read_table(Path(path), columns))
        async with self._using() as parts:
            return WriteResult(
                documents=tuple(await parts.ingest.write(rows, defaults, on_progress))
            )

    @watched
    async def copy_to(
        self,
        other: MovingMemory,
        *,
        user_id: str | None = None,
        collections: Iterable[str] | None = None,
        where: Where | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> MoveResult:
        """Copy documents into another open memory, on any engine, and compare both afterwards.

        Ids, keys, versions and times are kept. A document whose id is there already is left alone,
        so a copy that was cut short is simply done again; the comparison tells when it differs.
        Texts are embedded again when the models differ.

        Parameters
        ----------
        other
            The destination, opened with its own tenant.
        user_id, collections, where
            What to copy, as in `export`.

        Returns
        -------
        MoveResult
            With a `comparison`: what is missing or different, and whether sampled searches agree.

        Raises
        ------
        ConflictError
            A document's key or text belongs to another one there.
        """
        other._check_writable("copy into this memory")
        selection = self._moved(user_id, collections, where)
        there = other._moved(user_id, collections, where)
        async with self._using() as mine, other._using() as theirs:
            same = mine.embedder.id == theirs.embedder.id
            result, samples = await store(
                theirs,
                other._tenant,
                dumped(mine, selection),
                keep_vectors=same,
                on_progress=on_progress,
            )
            comparison = await compare((mine, selection), (theirs, there), samples, same_model=same)
        return replace(result, comparison=comparison)

    def _moved(
        self, user_id: str | None, collections: Iterable[str] | None, where: Where | None
    ) -> Selection:
        return moved_selection(
            self._tenant, self._clock(), user_id=user_id, collections=collections, where=where
        )


async def _in_batches(rows: Iterator[T]) -> AsyncIterator[list[T]]:
    """Yield what a blocking iterator gives, read in a thread."""
    while batch := await asyncio.to_thread(lambda: list(islice(rows, BATCH))):
        yield batch


async def _one_by_one(rows: Iterator[T]) -> AsyncIterator[T]:
    async for batch in _in_batches(rows):
        for row in batch:
            yield row
