"""`Memory`: the facade. It checks arguments and hands each call to the parts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import date, datetime
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
from agentmem._clock import to_micros
from agentmem._memory_moving import MovingMemory
from agentmem._memory_stepwise import StepwiseMemory
from agentmem._memory_upkeep import UpkeepMemory
from agentmem._telemetry import watched
from agentmem._types import (
    Document,
    ForgetResult,
    ForgottenDocument,
    Metadata,
    Page,
    ProgressCallback,
    RestoreResult,
    SearchResult,
    StoredDocument,
    WriteResult,
)
from agentmem.backends.base import Selection
from agentmem.errors import DeadlineExceededError

if TYPE_CHECKING:
    from agentmem._ingest import WriteInput


class Memory(StepwiseMemory, MovingMemory, UpkeepMemory):
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

    @watched
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

    @watched
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
        try:
            async with asyncio.timeout(deadline) as limit, self._using() as parts:
                result = await parts.pipeline.run(request)
                limit.reschedule(None)  # what follows is not the search
                if parts.search_log is not None:
                    await parts.search_log.add(request, result)
                return result
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"the search did not finish within {deadline} s; allow more time, or lower "
                "pool or fused"
            ) from error

    @watched
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

    @watched
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

    @watched
    async def get(self, id: str, *, user_id: str | None = None) -> StoredDocument | None:
        """Return the newest version of a document, or None when the caller cannot see it."""
        selection = visible_selection(
            self._tenant, self._clock(), user_id=user_id, ids=check_ids(id)
        )
        async with self._using() as parts:
            rows = await parts.backend.read(selection, limit=1)
        return to_document(rows[0]) if rows else None

    @watched
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

    @watched
    async def history(
        self, key: str, *, user_id: str | None = None, collection: str | None = None
    ) -> tuple[StoredDocument, ...]:
        """Return every version of a document, oldest first; empty when there is none."""
        selection = key_selection(self._tenant, self._clock(), key, user_id, collection)
        async with self._using() as parts:
            rows = await parts.backend.versions(selection)
        return tuple(to_document(row) for row in rows)

    @watched
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
