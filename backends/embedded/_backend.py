"""`EmbeddedBackend`: puts the parts of this folder together behind the contract."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import apsw

from agentmem._types import Scan
from agentmem.backends._chain import what_went
from agentmem.backends._expiry import NewExpiry
from agentmem.backends._rules import check_number
from agentmem.backends.base import (
    Backend,
    CandidateRequest,
    Candidates,
    DocumentToLoad,
    DocumentToWrite,
    DumpedVersion,
    Forgotten,
    Head,
    Identity,
    Micros,
    ModelIdentity,
    Outcome,
    Problem,
    Progressing,
    Remake,
    Scope,
    Selection,
    StoredReceipt,
    StoredRow,
    Totals,
    Vector,
    Written,
)
from agentmem.backends.embedded import (
    _maintenance,
    _moving,
    _proof,
    _receipts,
    _reembedding,
    _selecting,
)
from agentmem.backends.embedded._connection import Database, Job
from agentmem.backends.embedded._errors import DATABASE, store_errors
from agentmem.backends.embedded._proof import Fingerprints
from agentmem.backends.embedded._resident import Resident
from agentmem.backends.embedded._schema import check_model, check_schema, migrate
from agentmem.backends.embedded._search import Searcher
from agentmem.backends.embedded._text_index import TextIndex
from agentmem.backends.embedded._where import WhereCache
from agentmem.backends.embedded._writing import find_heads, set_expiry, write_batch
from agentmem.errors import AgentMemError, NotOpenError, StoreAccessError

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_NO_VECTOR_FUNCTIONS = (
    "the sqlite-vec extension could not be loaded; vectors are searched in memory only"
)


class EmbeddedBackend(Backend):
    """A memory in one folder, without a server.

    Parameters
    ----------
    folder
        Where the memory lives; created when missing. None keeps everything in RAM.
    lock_timeout
        Seconds to wait for another process that writes.
    durability
        ``"full"`` or ``"normal"``; see `Settings.durability`.
    readers
        Threads for reading.
    vector_memory
        Bytes that the resident matrix of vectors may take.
    read_only
        Open without ever writing to the folder.
    tune_allocator
        Give the memory of the text index's commits back; see `Settings.tune_allocator`.
    """

    name = "embedded"

    def __init__(
        self,
        folder: Path | None,
        *,
        lock_timeout: float = 5.0,
        durability: str = "full",
        readers: int = 2,
        vector_memory: int = 1 << 30,
        read_only: bool = False,
        tune_allocator: bool = True,
    ) -> None:
        self._read_only = read_only
        self._tune_allocator = tune_allocator
        self._folder = folder
        self._lock_timeout = lock_timeout
        self._durability = durability
        self._reader_count = readers
        self._vector_memory = vector_memory
        self._database: Database | None = None
        self._warm_up: asyncio.Task[None] | None = None

    async def open(self, model: ModelIdentity) -> None:
        """Open or create the folder. See `Backend.open`."""
        database = await self._reached()

        def prepare(connection: apsw.Connection) -> None:
            migrate(connection)
            check_model(connection, model)

        def look(connection: apsw.Connection) -> None:
            check_schema(connection)
            check_model(connection, model)

        try:
            if self._read_only:
                await database.read("open the memory", look)
            else:
                await database.write("open the memory", prepare)
        except BaseException:
            await asyncio.shield(database.close())
            raise
        self._model = model
        self._resident = Resident(model, self._vector_memory)
        self._text = TextIndex(
            self._folder,
            lock_timeout=self._lock_timeout,
            read_only=self._read_only,
            tune_allocator=self._tune_allocator,
        )
        self._where = WhereCache()
        self._searcher = Searcher(self._resident, self._text, self._where)
        self._database = database
        self._load_in_background(database)

    async def reembed(self, model: ModelIdentity, remake: Remake, progress: Progressing) -> None:
        """Change the model of the folder. See `Backend.reembed`."""
        database = await self._reached()
        try:
            await database.write("open the memory", migrate)
            await _reembedding.reembed(database, model, remake, progress)
            await database.exclusive("empty the write-ahead log", _maintenance.checkpoint)
        finally:
            await asyncio.shield(database.close())

    async def close(self) -> None:
        """Close the folder. Closing twice is harmless."""
        database, self._database = self._database, None
        if database is None:
            return
        if self._warm_up is not None:
            self._warm_up.cancel()
            await asyncio.gather(self._warm_up, return_exceptions=True)
        await asyncio.shield(database.close())
        self._text.close()

    async def heads(
        self, tenant: str, identities: Sequence[Identity], now: Micros
    ) -> list[Head | None]:
        """See `Backend.heads`."""
        return await self._open_database.read(
            "look up documents", lambda c: find_heads(c, tenant, identities, now)
        )

    async def write(self, tenant: str, documents: Sequence[DocumentToWrite]) -> list[Written]:
        """See `Backend.write`."""
        return await self._write_vectors(
            f"write {len(documents)} documents", lambda c: write_batch(c, tenant, documents)
        )

    async def candidates(self, scope: Scope, request: CandidateRequest) -> Candidates:
        """See `Backend.candidates`."""
        database = self._open_database
        found = await database.read(
            "search", lambda c: self._searcher.candidates(c, scope, request)
        )
        if self._resident.lacks_vectors and self._database is database:
            self._load_in_background(database)  # a large memory was compacted or embedded anew
        if database.vector_functions:
            return found
        return replace(found, degraded=(*found.degraded, _NO_VECTOR_FUNCTIONS))

    async def read(
        self,
        selection: Selection,
        *,
        after: tuple[Micros, str] | None = None,
        limit: int | None = None,
    ) -> list[StoredRow]:
        """See `Backend.read`."""
        return await self._open_database.read(
            "read documents", lambda c: _selecting.read_rows(c, selection, after, limit)
        )

    async def versions(self, selection: Selection) -> list[StoredRow]:
        """See `Backend.versions`."""
        return await self._open_database.read(
            "read versions", lambda c: _selecting.read_versions(c, selection)
        )

    async def count(self, selection: Selection) -> int:
        """See `Backend.count`."""
        return await self._open_database.read(
            "count documents", lambda c: _selecting.count_rows(c, selection)
        )

    async def forget(
        self,
        selection: Selection,
        *,
        at: Micros,
        purge: bool,
        dry_run: bool,
        at_most: int | None = None,
    ) -> Outcome:
        """See `Backend.forget`."""
        database = self._open_database
        if dry_run:
            documents = await database.read(
                "look up documents", lambda c: _selecting.find_documents(c, selection)
            )
            return Outcome(documents=documents)
        if purge:
            return await self._purge(database, selection, at, at_most)

        def job(connection: apsw.Connection) -> Outcome:
            documents = _selecting.find_documents(connection, selection)
            if not documents:
                return Outcome(documents=[])
            check_number(documents, at_most)
            _selecting.mark_forgotten(connection, documents, at)
            receipt = _append_receipt(connection, selection.tenant, "forget", documents, at)
            return Outcome(documents=documents, receipt=receipt)

        return await database.write("forget documents", job)

    async def receipts(self, tenant: str) -> list[StoredReceipt]:
        """See `Backend.receipts`."""
        return await self._open_database.read("read receipts", lambda c: _receipts.read(c, tenant))

    async def restore(self, selection: Selection) -> list[str]:
        """See `Backend.restore`."""
        return await self._open_database.write(
            "restore documents", lambda c: _selecting.restore_rows(c, selection)
        )

    async def set_expiry(self, tenant: str, changes: Sequence[NewExpiry]) -> list[bool]:
        """See `Backend.set_expiry`."""
        return await self._open_database.write(
            "change the expiry of documents", lambda c: set_expiry(c, tenant, changes)
        )

    async def totals(self, tenant: str, now: Micros) -> Totals:
        """See `Backend.totals`."""
        database = self._open_database
        found = await database.read(
            "count", lambda c: _maintenance.totals(c, tenant, now, self._folder)
        )
        degraded = () if database.vector_functions else (_NO_VECTOR_FUNCTIONS,)
        return replace(found, details={"degraded": degraded})

    async def verify(self, *, repair: bool) -> list[Problem]:
        """See `Backend.verify`. A repair rebuilds the text index when it disagrees."""
        database = self._open_database
        problems = await database.read(
            "verify", lambda c: _maintenance.check(c, self._model, self._text.rows(c))
        )
        if not repair or not any(problem.kind == "text index" for problem in problems):
            return problems
        await database.write("rebuild the text index", _maintenance.rebuild_text)
        await database.read("rebuild the text index", self._text.catch_up)
        return [replace(p, repaired=True) if p.kind == "text index" else p for p in problems]

    async def lacking_vectors(self, after: int, limit: int) -> list[tuple[int, str]]:
        """See `Backend.lacking_vectors`."""
        return await self._open_database.read(
            "look for vectors", lambda c: _maintenance.lacking(c, self._model, after, limit)
        )

    async def set_vectors(self, rows: Sequence[tuple[int, Vector, bytes | None]]) -> None:
        """See `Backend.set_vectors`."""
        await self._write_vectors("store vectors", lambda c: _maintenance.set_vectors(c, rows))

    async def dump(
        self, selection: Selection, *, after: tuple[Micros, str] | None, limit: int
    ) -> list[list[DumpedVersion]]:
        """See `Backend.dump`."""
        return await self._open_database.read(
            "read documents", lambda c: _moving.dump(c, selection, after, limit)
        )

    async def load(self, tenant: str, documents: Sequence[DocumentToLoad]) -> list[bool]:
        """See `Backend.load`."""
        return await self._write_vectors(
            f"bring in {len(documents)} documents", lambda c: _moving.load(c, tenant, documents)
        )

    async def compact(self) -> None:
        """See `Backend.compact`."""
        database = self._open_database
        await database.exclusive("compact", _maintenance.compact)
        await database.read("rebuild the text index", self._text.catch_up)

    async def _write_vectors(self, action: str, job: Job[T]) -> T:
        """Run a job that stores vectors, unless the store has got another model meanwhile."""

        def checked(connection: apsw.Connection) -> T:
            check_model(connection, self._model)
            return job(connection)

        return await self._open_database.write(action, checked)

    async def _purge(
        self, database: Database, selection: Selection, at: Micros, at_most: int | None
    ) -> Outcome:
        """Delete, remove what the deletion leaves outside of the tables, and look for remains."""

        def delete(connection: apsw.Connection) -> tuple[Outcome, Fingerprints]:
            documents = _selecting.find_documents(connection, selection)
            if not documents:
                return Outcome(documents=[]), Fingerprints(())
            check_number(documents, at_most)
            fingerprints = _proof.collect(connection, documents)
            _selecting.purge(connection, documents)
            receipt = _append_receipt(connection, selection.tenant, "purge", documents, at)
            return Outcome(documents=documents, receipt=receipt), fingerprints

        outcome, fingerprints = await database.write("purge documents", delete)
        if not outcome.documents:
            return outcome
        self._where.clear()
        await database.read("update vectors", self._resident.snapshot)
        await database.read("rebuild the text index", self._text.catch_up)
        await database.exclusive("empty the write-ahead log", _maintenance.checkpoint)
        if self._folder is None:
            return outcome
        tenant = selection.tenant
        return await self._scanned(database, self._folder, tenant, at, outcome, fingerprints)

    async def _scanned(
        self,
        database: Database,
        folder: Path,
        tenant: str,
        at: Micros,
        outcome: Outcome,
        fingerprints: Fingerprints,
    ) -> Outcome:
        left = await database.read("look for purged data", fingerprints.without_survivors)
        scan = await asyncio.to_thread(_search_files, folder, left)
        if scan.found:
            # SQLite overwrites what it deletes, but not the copies that it leaves behind when it
            # moves rows between pages. Writing the file anew leaves those behind too.
            await database.exclusive("rewrite the database", _maintenance.rewrite)
            scan = await asyncio.to_thread(_search_files, folder, left)
        ids = [document.document_id for document in outcome.documents]
        details: dict[str, object] = {
            "files": scan.files,
            "bytes": scan.bytes,
            "fingerprints": scan.fingerprints,
        }
        details |= {"found": list(scan.found)}
        await database.write(
            "write a receipt",
            lambda c: _receipts.append(c, tenant, "scan", ids, at, details),
        )
        return replace(outcome, scan=scan)

    def _load_in_background(self, database: Database) -> None:
        if self._warm_up is None or self._warm_up.done():
            self._warm_up = asyncio.create_task(self._load(database))

    async def _load(self, database: Database) -> None:
        try:
            await database.read("load vectors", self._resident.load_vectors)
        except AgentMemError as error:
            # Nobody waits for this task; the next search meets the same fault and raises it.
            _LOG.warning("%s", error)

    async def _reached(self) -> Database:
        """Return the connections of the folder, which is made when it is missing."""
        await asyncio.get_running_loop().run_in_executor(None, self._prepare_folder)
        return Database(
            self._folder,
            readers=self._reader_count,
            lock_timeout=self._lock_timeout,
            durability=self._durability,
            read_only=self._read_only,
        )

    @property
    def _open_database(self) -> Database:
        if self._database is None:
            raise NotOpenError("the store is not open")
        return self._database

    def _prepare_folder(self) -> None:
        folder = self._folder
        if folder is None:
            return
        with store_errors("open", folder):
            if folder.exists() and not folder.is_dir():
                raise StoreAccessError(
                    f"could not open a memory at {str(folder)!r}: it is a file; "
                    "give the path of a folder"
                )
            if self._read_only:
                if not (folder / DATABASE).is_file():
                    raise StoreAccessError(
                        f"there is no memory at {str(folder)!r} to be opened read-only; check the "
                        "path, or open it without read_only to create one"
                    )
                return
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            strangers = [p.name for p in folder.iterdir() if not p.name.startswith(".")]
            if strangers and not (folder / DATABASE).exists():
                raise StoreAccessError(
                    f"could not create a memory at {str(folder)!r}: the folder holds other files "
                    f"(such as {min(strangers)!r}); give an empty or a new folder"
                )


def _search_files(folder: Path, fingerprints: Fingerprints) -> Scan:
    with store_errors("look for purged data", folder):
        return _proof.scan(folder, fingerprints)


def _append_receipt(
    connection: apsw.Connection,
    tenant: str,
    action: str,
    documents: Sequence[Forgotten],
    at: Micros,
) -> str:
    details = what_went(documents)
    ids = (document.document_id for document in documents)
    return _receipts.append(connection, tenant, action, ids, at, details)
