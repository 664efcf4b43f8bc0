"""`Memory`: the facade. It checks arguments, keeps the life cycle and composes the parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import date, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from agentmem._arguments import (
    MAX_PAGE,
    Where,
    check_deadline,
    check_ids,
    check_number,
    decode_cursor,
    encode_cursor,
    forget_selection,
    key_selection,
    search_request,
    to_document,
    visible_selection,
)
from agentmem._build import Choices, Parts, build
from agentmem._clock import Clock, checked, from_micros, to_micros, utc_now
from agentmem._lifecycle import Lifecycle
from agentmem._memory_moving import MovingMemory
from agentmem._prepare import check_tenant
from agentmem._types import (
    Document,
    Finding,
    ForgetResult,
    ForgottenDocument,
    Metadata,
    Page,
    ProgressCallback,
    Receipt,
    RestoreResult,
    SearchResult,
    Stats,
    StoredDocument,
    VerifyResult,
    WriteResult,
)
from agentmem.backends.base import Selection
from agentmem.config import Settings
from agentmem.errors import CapabilityError, ClosedError, DeadlineExceededError

if TYPE_CHECKING:
    from agentmem._chunking import Chunker
    from agentmem._ingest import WriteInput
    from agentmem.models.base import Embedder, Reranker
    from agentmem.pipeline import Pipeline, Stage
    from agentmem.pipeline.understand import Understanding

_REPAIRED_BY_MODEL = frozenset({"vector", "token codes"})


class Memory(MovingMemory):
    """A memory for agents: write, search, forget.

    The constructor does nothing but look at its arguments. Open the memory with ``async with`` or
    with `open` and `close`; an instance is opened once and belongs to one event loop.

    Parameters
    ----------
    url_or_settings
        A folder (``"./memory"``), a URL (``"local:///abs/path"``, ``"local://:memory:"``,
        ``"oracle://user@host:1521/service"``) or `Settings`. None takes the settings from the
        environment and the TOML file.
    tenant
        Isolation boundary; overrides the setting.
    embedder, reranker
        A name as in the settings, or an object of your own (`agentmem.models.base`), which the
        memory uses but does not close.
    chunker
        Cuts texts into chunks instead of the setting's policy; has one method,
        ``split(text) -> list[Chunk]``. Search knows only the spans that come out.
    understand
        Async callable that replaces or enriches stage 1: it gets the default plan and the request
        and returns a plan, a mapping of fields to change, or None.
    clock
        Tells the time; must return aware datetimes.
    count_tokens
        Counts tokens for the budget; the embedder's tokenizer by default.
    stages
        Stages of your own under the names of those that they replace.

    Raises
    ------
    ConfigurationError
        A setting cannot be used.
    """

    def __init__(
        self,
        url_or_settings: str | Path | Settings | None = None,
        *,
        tenant: str | None = None,
        embedder: Embedder | str | None = None,
        reranker: Reranker | str | None = None,
        chunker: Chunker | None = None,
        understand: Understanding | None = None,
        clock: Clock = utc_now,
        count_tokens: Callable[[str], int] | None = None,
        stages: Mapping[str, Stage] | None = None,
    ) -> None:
        if isinstance(url_or_settings, Settings):
            self._settings = url_or_settings
        elif url_or_settings is None:
            self._settings = Settings()
        else:
            self._settings = Settings(url=str(url_or_settings))
        self._tenant = check_tenant(self._settings.tenant if tenant is None else tenant)
        self._clock = checked(clock)
        self._choices = Choices(
            tenant=self._tenant,
            clock=self._clock,
            embedder=embedder,
            reranker=reranker,
            chunker=chunker,
            understand=understand,
            count_tokens=count_tokens,
            stages=stages,
        )
        self._lifecycle = Lifecycle()
        self._parts: Parts | None = None

    async def open(self) -> None:
        """Open the store, creating it when it does not exist.

        Opening an open memory does nothing. Models are loaded at first use.

        Raises
        ------
        ClosedError
            The memory was closed; make a new one.
        ModelMismatchError
            The store was written with another embedding model.
        StoreError, ConfigurationError
            The store or a setting cannot be used.
        """
        async with self._lifecycle.opening() as needed:
            if needed:
                self._parts = await build(self._settings, self._choices)

    async def close(self) -> None:
        """Let running calls finish, then release everything. Closing twice is harmless."""
        if await self._lifecycle.closing() and self._parts is not None:
            await self._parts.close()

    async def __aenter__(self) -> Memory:
        """Open the memory."""
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the memory."""
        await self.close()

    async def write(
        self,
        content: WriteInput,
        *,
        user_id: str | None = None,
        collection: str | None = None,
        key: str | None = None,
        title: str | None = None,
        source_uri: str | None = None,
        metadata: Metadata | None = None,
        valid_from: datetime | None = None,
        valid_until: datetime | None = None,
        expires_at: datetime | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> WriteResult:
        """Remember one or many documents.

        The named arguments are defaults for the documents in the call. Writing what is there
        already changes nothing; writing a known key with something else makes a new version.

        A call with up to `Settings.write_batch` documents is written whole or not at all. A longer
        one goes in batches, each whole or not at all. An iterable is checked completely before
        anything is written; an async iterable is checked batch by batch.

        Parameters
        ----------
        content
            A text, a `Document`, or an iterable or async iterable of these.
        user_id
            Owner; None shares the document with every user of the tenant.
        collection
            Group; ``"default"`` when not given.
        key, title, source_uri, metadata, valid_from, valid_until, expires_at
            See `Document`.
        on_progress
            Called after each batch.

        Returns
        -------
        WriteResult
            What became of each document, in order.

        Raises
        ------
        InvalidDocumentError
            A document cannot be written; its position is in the error.
        StoreError, ModelError
            The store or the model failed.
        """
        defaults = Document(
            "",
            user_id=user_id,
            collection=collection,
            key=key,
            title=title,
            source_uri=source_uri,
            metadata=metadata,
            valid_from=valid_from,
            valid_until=valid_until,
            expires_at=expires_at,
        )
        self._check_writable("write")
        async with self._using() as parts:
            return WriteResult(
                documents=tuple(await parts.ingest.write(content, defaults, on_progress))
            )

    async def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        collections: Iterable[str] | None = None,
        where: Where | None = None,
        as_of: datetime | date | None = None,
        k: int = 8,
        token_budget: int | None = None,
        diversify_by: str | None = None,
        explain: bool = False,
        deadline: float | None = None,
    ) -> SearchResult:
        """Find what helps to answer `query`.

        Parameters
        ----------
        query
            A question or words.
        user_id
            The caller; its own and shared documents are searched, for None the shared ones only.
        collections
            Names of collections; None searches all, an empty list none.
        where
            Filter over metadata and columns; see `F`.
        as_of
            Answer as of this instant; a date means the end of that day in UTC.
        k
            Most hits, 1 to 4096.
        token_budget
            Most tokens of the context; None takes the setting.
        diversify_by
            ``"document"``, ``"similarity"``, a column or a metadata field: prefer hits that differ
            in it.
        explain
            Add the fate of each candidate to the trace.
        deadline
            Seconds after which the search is given up.

        Raises
        ------
        InvalidQueryError, InvalidScopeError, FilterError, InvalidInputError
            An argument cannot be used.
        DeadlineExceededError
            The deadline passed.
        StoreError
            The store failed.
        """
        request = search_request(
            query,
            tenant=self._tenant,
            user_id=user_id,
            collections=collections,
            where=where,
            now=self._clock(),
            as_of=as_of,
            k=k,
            token_budget=token_budget,
            diversify_by=diversify_by,
            explain=explain,
        )
        check_deadline(deadline)
        async with self._using() as parts:
            try:
                async with asyncio.timeout(deadline):
                    return await parts.pipeline.run(request)
            except TimeoutError as error:
                raise DeadlineExceededError(
                    f"the search did not finish within {deadline} s; allow more time, or lower "
                    "pool or fused"
                ) from error

    async def forget(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        key: str | None = None,
        user_id: str | None = None,
        collection: str | None = None,
        where: Where | None = None,
        everything: bool = False,
        purge: bool = False,
        dry_run: bool = False,
        confirm: bool = False,
    ) -> ForgetResult:
        """Forget documents with all their versions.

        What is named together is combined: ``collection="notes", user_id="ada"`` forgets Ada's
        notes. Without `user_id`, `key`, `collection` and `where` speak of shared documents only;
        `user_id` alone forgets all that this user owns, and no shared ones.

        Parameters
        ----------
        ids
            Document ids; those that the caller cannot see are listed as missing.
        key, user_id, collection, where
            Which documents; `key` is looked up in `collection` (``"default"`` when not given).
        everything
            Forget all documents of the tenant, of all users. Stands alone.
        purge
            Remove the bytes as well, and search every file of the memory for them afterwards
            (`ForgetResult.scan`). Cannot be undone.
        dry_run
            Only say what would be forgotten.
        confirm
            Forget more than `Settings.forget_limit` documents as well.

        Raises
        ------
        ConfirmationError
            So many documents need `confirm`; nothing was changed.
        InvalidInputError
            Nothing was named, or what was named does not go together.
        """
        now = self._clock()
        wanted = None if ids is None else check_ids(ids)
        selection = forget_selection(
            self._tenant,
            now,
            ids=wanted,
            key=key,
            user_id=user_id,
            collection=collection,
            where=where,
            everything=everything,
            purge=purge,
        )
        if not dry_run:
            self._check_writable("forget")
        async with self._using() as parts:
            outcome = await parts.backend.forget(
                selection,
                at=to_micros(now),
                purge=purge,
                dry_run=dry_run,
                at_most=None if confirm else self._settings.forget_limit,
            )
        found = {document.document_id for document in outcome.documents}
        return ForgetResult(
            documents=tuple(
                ForgottenDocument(
                    id=d.document_id,
                    user_id=d.user_id,
                    collection=d.collection,
                    key=d.key,
                    versions=d.versions,
                    chunks=d.chunks,
                )
                for d in outcome.documents
            ),
            missing=tuple(name for name in wanted or () if name not in found),
            purged=purge and not dry_run,
            dry_run=dry_run,
            at=now,
            receipt=outcome.receipt,
            scan=outcome.scan,
        )

    async def receipts(self) -> tuple[Receipt, ...]:
        """Return the log of what was forgotten in this tenant, oldest first."""
        async with self._using() as parts:
            stored = await parts.backend.receipts(self._tenant)
        return tuple(
            Receipt(
                number=entry.number,
                at=from_micros(entry.at),
                action=entry.action,
                ids=entry.ids,
                details=entry.details,
                hash=entry.hash,
            )
            for entry in stored
        )

    async def restore(
        self, ids: str | Iterable[str], *, user_id: str | None = None
    ) -> RestoreResult:
        """Bring forgotten documents back.

        Raises
        ------
        ConflictError
            The same key or text was written again meanwhile; nothing is restored.
        """
        wanted = check_ids(ids)
        selection = visible_selection(
            self._tenant, self._clock(), user_id=user_id, ids=wanted, deleted=True
        )
        self._check_writable("restore")
        async with self._using() as parts:
            restored = await parts.backend.restore(selection)
        return RestoreResult(
            restored=tuple(restored),
            missing=tuple(name for name in wanted if name not in set(restored)),
        )

    async def get(self, id: str, *, user_id: str | None = None) -> StoredDocument | None:
        """Return the newest version of a document, or None when the caller cannot see it."""
        selection = visible_selection(
            self._tenant, self._clock(), user_id=user_id, ids=check_ids(id)
        )
        async with self._using() as parts:
            rows = await parts.backend.read(selection, limit=1)
        return to_document(rows[0]) if rows else None

    async def list(
        self,
        *,
        user_id: str | None = None,
        collections: Iterable[str] | None = None,
        where: Where | None = None,
        as_of: datetime | date | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """Return a page of documents in the order in which they were first written.

        Parameters
        ----------
        user_id, collections, where
            As in `search`.
        as_of
            List what was in force at that time instead of the newest versions.
        limit
            Documents on a page, 1 to 1000.
        cursor
            `Page.cursor` of the page before.
        """
        selection = self._visible(user_id, collections, where, as_of)
        size = check_number(limit, "limit", MAX_PAGE)
        after = decode_cursor(cursor)
        async with self._using() as parts:
            rows = await parts.backend.read(selection, after=after, limit=size + 1)
        page = rows[:size]
        return Page(
            documents=tuple(to_document(row) for row in page),
            cursor=encode_cursor(page[-1]) if len(rows) > size else None,
        )

    async def history(
        self, key: str, *, user_id: str | None = None, collection: str | None = None
    ) -> tuple[StoredDocument, ...]:
        """Return every version of a document, oldest first; empty when there is none."""
        selection = key_selection(self._tenant, self._clock(), key, user_id, collection)
        async with self._using() as parts:
            rows = await parts.backend.versions(selection)
        return tuple(to_document(row) for row in rows)

    async def count(
        self,
        *,
        user_id: str | None = None,
        collections: Iterable[str] | None = None,
        where: Where | None = None,
        as_of: datetime | date | None = None,
    ) -> int:
        """Return how many documents `list` would walk through."""
        selection = self._visible(user_id, collections, where, as_of)
        async with self._using() as parts:
            return await parts.backend.count(selection)

    async def stats(self) -> Stats:
        """Return what the tenant holds and how the memory is set up."""
        async with self._using() as parts:
            totals = await parts.backend.totals(self._tenant, to_micros(self._clock()))
            return Stats(
                documents=totals.documents,
                versions=totals.versions,
                chunks=totals.chunks,
                forgotten=totals.forgotten,
                users=totals.users,
                collections=totals.collections,
                bytes=totals.bytes,
                engine=parts.backend.name,
                embedder=parts.embedder.id,
                reranker=None if parts.reranker is None else parts.reranker.id,
                degraded=tuple(totals.details.get("degraded", ())),
            )

    async def verify(self, *, repair: bool = False) -> VerifyResult:
        """Check the database, and vectors, token codes and text index against it.

        With `repair`, what is derived is made anew: the text index from the texts, vectors and
        token codes by the model. Documents themselves are never changed. A repair that was cut
        short can be run again.

        Returns
        -------
        VerifyResult
            Every fault by id, and whether it was repaired.
        """
        if repair:
            self._check_writable("repair")
        async with self._using() as parts:
            problems = await parts.backend.verify(repair=repair)
            if repair and any(p.kind in _REPAIRED_BY_MODEL for p in problems):
                await parts.ingest.repair_vectors()
        return VerifyResult(
            findings=tuple(
                Finding(
                    kind=p.kind,
                    subject=p.subject,
                    message=p.message,
                    repaired=p.repaired or (repair and p.kind in _REPAIRED_BY_MODEL),
                )
                for p in problems
            )
        )

    async def compact(self) -> None:
        """Give back space that forgotten and superseded data no longer need."""
        self._check_writable("compact")
        async with self._using() as parts:
            await parts.backend.compact()

    @property
    def pipeline(self) -> Pipeline:
        """The stages of a search, to be printed. The memory must be open."""
        self._lifecycle.check()
        return self._open_parts().pipeline

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that opened the memory and on which it must be used."""
        return self._lifecycle.loop

    def _check_writable(self, what: str) -> None:
        if self._settings.read_only:
            raise CapabilityError(
                f"could not {what}: this memory was opened read-only; open it without read_only"
            )

    @asynccontextmanager
    async def _using(self) -> AsyncIterator[Parts]:
        async with self._lifecycle.running():
            yield self._open_parts()

    def _open_parts(self) -> Parts:
        if self._parts is None:
            raise ClosedError("this memory is closed; make a new Memory to use it again")
        return self._parts

    def _visible(
        self,
        user_id: str | None,
        collections: Iterable[str] | None,
        where: Where | None,
        as_of: datetime | date | None,
    ) -> Selection:
        return visible_selection(
            self._tenant,
            self._clock(),
            user_id=user_id,
            collections=collections,
            where=where,
            as_of=as_of,
        )
