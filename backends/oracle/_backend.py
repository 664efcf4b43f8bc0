"""`OracleBackend`: puts the parts of this folder together behind the contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentmem.backends._chain import to_receipt, what_went
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
    Scope,
    Selection,
    StoredReceipt,
    StoredRow,
    Totals,
    Vector,
    Written,
)
from agentmem.backends.oracle import _maintenance, _meta, _moving, _receipts, _selecting
from agentmem.backends.oracle._connection import Database, Transaction
from agentmem.backends.oracle._embedding import embed_statement, read_vectors
from agentmem.backends.oracle._names import UPKEEP_PACKAGE, simple_name
from agentmem.backends.oracle._search import (
    Statement,
    read_candidates,
    search_statement,
)
from agentmem.backends.oracle._target import Target
from agentmem.backends.oracle._writing import find_heads, set_expiry, write_batch
from agentmem.errors import NotOpenError

# A purge deletes rows. What the database keeps of them elsewhere is beyond what an application
# can see or remove, and the receipt says so.
_KEPT = ("undo and redo logs", "archived logs, standby databases and backups", "flashback data")


class OracleBackend(Backend):
    """A memory in Oracle Database, for one tenant.

    Parameters
    ----------
    target
        Where the database is.
    tenant
        Whose rows this engine reads and writes.
    embed_model, rerank_model
        Models in the database that embed the query and rerank candidates; None to leave that to
        the client.
    """

    name = "oracle"

    def __init__(
        self,
        target: Target,
        tenant: str,
        *,
        embed_model: str | None = None,
        rerank_model: str | None = None,
    ) -> None:
        self._target = target
        self._tenant = tenant
        self._embed = None if embed_model is None else simple_name(embed_model, "a model")
        self._rerank = None if rerank_model is None else simple_name(rerank_model, "a model")
        self._open_database: Database | None = None
        self._open_meta: _meta.Meta | None = None

    @property
    def _database(self) -> Database:
        if self._open_database is None:
            raise NotOpenError("the store is not open")
        return self._open_database

    @property
    def meta(self) -> _meta.Meta:
        """What the tables were made for; the engine must be open."""
        if self._open_meta is None:
            raise NotOpenError("the store is not open")
        return self._open_meta

    async def open(self, model: ModelIdentity) -> None:
        """Connect, and check what the tables were made for. See `Backend.open`."""
        database = Database(self._target, self._tenant)
        database.open()
        try:
            action = f"open a memory on {self._target.place!r}"
            rows = await database.fetch(action, _meta.READ, {})
            meta = _meta.read_meta(dict((row[0], row[1]) for row in rows))
            _meta.check_model(meta, model)
        except BaseException:
            await database.close()
            raise
        self._open_database, self._open_meta = database, meta

    async def close(self) -> None:
        """Close all connections. Closing twice is harmless."""
        database, self._open_database = self._open_database, None
        if database is not None:
            await database.close()

    async def heads(
        self, tenant: str, identities: Sequence[Identity], now: Micros
    ) -> list[Head | None]:
        """See `Backend.heads`."""
        return await find_heads(self._database, tenant, identities, now)

    async def write(self, tenant: str, documents: Sequence[DocumentToWrite]) -> list[Written]:
        """See `Backend.write`. Starts again when another writer was faster."""

        async def job(transaction: Transaction) -> list[Written]:
            return await write_batch(transaction, tenant, documents, self.meta.lexer)

        action = f"write {len(documents)} documents"
        return await self._database.write(action, job, repeatable=True)

    async def candidates(self, scope: Scope, request: CandidateRequest) -> Candidates:
        """Run stages 2 to 4, and 5 with a model in the database, as one statement."""
        statement = self._statement(scope, request, exact=False)
        if statement is None:
            return Candidates(items=[], vector_pool=0, lexical_pool=0)
        database = self._database
        rows = await database.fetch("search", statement.sql, statement.binds)
        exact = self.meta.vector_index == "none"
        near = int(rows[0][4]) if rows else 0
        searched_vectors = self._embed is not None or request.vector is not None
        if not exact and searched_vectors and near < request.pool:
            # An index may look at too few rows and filter them afterwards; the exact search never
            # leaves one out.
            again = self._statement(scope, request, exact=True)
            if again is not None:
                rows = await database.fetch("search", again.sql, again.binds)
                exact = True
        degraded: tuple[str, ...] = ()
        if statement.left_out:
            degraded = (
                f"{statement.left_out} words of the query were left out; "
                "it has more than one query of Oracle Text holds",
            )
        return Candidates(
            items=read_candidates(rows),
            vector_pool=int(rows[0][4]) if rows else 0,
            lexical_pool=int(rows[0][5]) if rows else 0,
            degraded=degraded,
            details={"exact": exact},
        )

    def _statement(
        self, scope: Scope, request: CandidateRequest, *, exact: bool
    ) -> Statement | None:
        return search_statement(
            scope, request, self.meta, embed=self._embed, rerank=self._rerank, exact=exact
        )

    async def read(
        self,
        selection: Selection,
        *,
        after: tuple[Micros, str] | None = None,
        limit: int | None = None,
    ) -> list[StoredRow]:
        """See `Backend.read`."""
        query = _selecting.rows_query(selection, after, limit)
        rows = await self._database.fetch("read documents", *query)
        return [_selecting.read_row(row) for row in rows]

    async def versions(self, selection: Selection) -> list[StoredRow]:
        """See `Backend.versions`."""
        query = _selecting.versions_query(selection)
        rows = await self._database.fetch("read versions", *query)
        return [_selecting.read_row(row) for row in rows]

    async def count(self, selection: Selection) -> int:
        """See `Backend.count`."""
        rows = await self._database.fetch("count documents", *_selecting.count_query(selection))
        return int(rows[0][0])

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
        if dry_run:
            query = _selecting.documents_query(selection)
            rows = await self._database.fetch("look up documents", *query)
            return Outcome(documents=[_selecting.read_document(row) for row in rows])
        tenant, action = selection.tenant, "purge" if purge else "forget"

        async def job(transaction: Transaction) -> Outcome:
            rows = await transaction.fetch(*_selecting.documents_query(selection))
            documents = [_selecting.read_document(row) for row in rows]
            if not documents:
                return Outcome(documents=[])
            check_number(documents, at_most)
            if purge:
                await _selecting.purge(transaction, tenant, documents)
            else:
                await _selecting.mark_forgotten(transaction, tenant, documents, at)
            receipt = await _append_receipt(transaction, tenant, action, documents, at)
            return Outcome(documents=documents, receipt=receipt)

        outcome = await self._database.write(f"{action} documents", job, repeatable=False)
        if purge and outcome.documents:
            await self._look_again(tenant, outcome.documents, at)
        return outcome

    async def _look_again(self, tenant: str, documents: Sequence[Forgotten], at: Micros) -> None:
        """Look for rows of purged documents, and say in a receipt what cannot be looked at."""

        async def job(transaction: Transaction) -> None:
            rows = await transaction.fetch(*_selecting.left_query(tenant, documents))
            details = {
                "found": [row[0] for row in rows if row[1]],
                "looked_in": [row[0] for row in rows],
                "not_looked_in": list(_KEPT),
                "until_compacted": ["entries of the text index, which no query returns"],
            }
            ids = (document.document_id for document in documents)
            await _receipts.append(transaction, tenant, "scan", ids, at, details)

        await self._database.write("write a receipt", job, repeatable=False)

    async def receipts(self, tenant: str) -> list[StoredReceipt]:
        """See `Backend.receipts`."""
        rows = await self._database.fetch("read receipts", _receipts.READ, {"tenant": tenant})
        return [to_receipt(_receipts.to_link(row)) for row in rows]

    async def restore(self, selection: Selection) -> list[str]:
        """See `Backend.restore`."""

        async def job(transaction: Transaction) -> list[str]:
            return await _selecting.restore_rows(transaction, selection)

        return await self._database.write("restore documents", job, repeatable=False)

    async def set_expiry(self, tenant: str, changes: Sequence[NewExpiry]) -> list[bool]:
        """See `Backend.set_expiry`."""

        async def job(transaction: Transaction) -> list[bool]:
            return await set_expiry(transaction, tenant, changes)

        return await self._database.write("change the expiry of documents", job, repeatable=False)

    async def totals(self, tenant: str, now: Micros) -> Totals:
        """See `Backend.totals`."""
        return await _maintenance.totals(self._database, tenant, now)

    async def verify(self, *, repair: bool) -> list[Problem]:
        """Check this tenant's rows. A repair has missing chunks indexed again."""
        database, tenant = self._database, self._tenant
        problems = await _maintenance.check(database, tenant, self.meta)
        ids = [p.subject for p in problems if p.kind == _maintenance.TEXT_INDEX]
        if not repair or not ids:
            return problems

        async def job(transaction: Transaction) -> None:
            await _maintenance.index_again(transaction, tenant, ids)

        await database.write("rebuild the text index", job, repeatable=True)
        still = set(await _maintenance.not_indexed(database, tenant))
        return [
            replace(p, repaired=p.kind == _maintenance.TEXT_INDEX and p.subject not in still)
            for p in problems
        ]

    async def lacking_vectors(self, after: int, limit: int) -> list[tuple[int, str]]:
        """See `Backend.lacking_vectors`."""
        return await _maintenance.lacking(self._database, self._tenant, self.meta, after, limit)

    async def set_vectors(self, rows: Sequence[tuple[int, Vector, bytes | None]]) -> None:
        """See `Backend.set_vectors`."""

        async def job(transaction: Transaction) -> None:
            await _maintenance.set_vectors(transaction, self._tenant, rows)

        await self._database.write("store vectors", job, repeatable=True)

    async def dump(
        self, selection: Selection, *, after: tuple[Micros, str] | None, limit: int
    ) -> list[list[DumpedVersion]]:
        """See `Backend.dump`."""
        return await _moving.dump(self._database, selection, after, limit)

    async def load(self, tenant: str, documents: Sequence[DocumentToLoad]) -> list[bool]:
        """See `Backend.load`."""

        async def job(transaction: Transaction) -> list[bool]:
            return await _moving.load(transaction, tenant, documents, self.meta.lexer)

        action = f"bring in {len(documents)} documents"
        return await self._database.write(action, job, repeatable=True)

    async def compact(self) -> None:
        """Remove what the text index keeps of deleted rows, of all tenants."""
        await self._database.call("compact", f"{UPKEEP_PACKAGE}.compact_text")

    async def embed(self, model: str, texts: Sequence[str]) -> Vector:
        """Return the vectors that a model in the database makes, shape (texts, dimensions)."""
        sql, binds = embed_statement(simple_name(model, "a model"), texts)
        return read_vectors(await self._database.fetch("embed texts", sql, binds))


async def _append_receipt(
    transaction: Transaction,
    tenant: str,
    action: str,
    documents: Sequence[Forgotten],
    at: Micros,
) -> str:
    details = what_went(documents)
    ids = (document.document_id for document in documents)
    return await _receipts.append(transaction, tenant, action, ids, at, details)
