"""Checks a database that was set up, by using it: each check is one line with what to do.

The checks of row-level security and of the text index write rows of two tenants that nobody else
has, look at them from the other side, and take them away again.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import numpy as np
import oracledb

from agentmem.backends._versions import succeed
from agentmem.backends.base import ChunkToWrite, DocumentToWrite
from agentmem.backends.oracle import _meta
from agentmem.backends.oracle._connection import Transaction
from agentmem.backends.oracle._embedding import embed_statement, read_vectors
from agentmem.backends.oracle._errors import full_code
from agentmem.backends.oracle._names import (
    CHUNKS,
    RECEIPTS,
    SESSION_PACKAGE,
    TENANT_TABLES,
    UPKEEP_PACKAGE,
)
from agentmem.backends.oracle._text_query import contains_query
from agentmem.backends.oracle._values import (
    Bind,
    clob_bind,
    now_utc,
    time_bind,
)
from agentmem.backends.oracle._writing import (
    INSERT_CHUNK,
    INSERT_DOCUMENT,
    chunk_rows,
    document_row,
)
from agentmem.errors import AgentMemError

State = Literal["ok", "warning", "fault"]

_OLDEST = (23, 4)
_CLOCK_TOLERANCE = timedelta(seconds=2)
_TOO_MUCH = ("EXEMPT ACCESS POLICY", "SELECT ANY TABLE", "UPDATE ANY TABLE", "DELETE ANY TABLE")
_PRIVILEGES = "SELECT privilege FROM session_privs"
_CLOCK = "SELECT SYS_EXTRACT_UTC(SYSTIMESTAMP) AS server_time FROM dual"
_BACKLOG = f"""SELECT {UPKEEP_PACKAGE}.text_backlog AS backlog,
       {UPKEEP_PACKAGE}.text_errors AS errors
FROM dual"""
_POOL = "SELECT SUM(alloc_bytes), SUM(used_bytes) FROM v$vector_memory_pool"
_FIND = f"""SELECT c.id FROM {CHUNKS} c
WHERE c.tenant_id = :tenant AND CONTAINS(c.search_text, :tq, 1) > 0"""
_COUNT = "SELECT COUNT(*) FROM {table} t WHERE t.tenant_id = :other"
_COUNT_ALL = "SELECT COUNT(*) FROM {table} t"
_RECEIPT = f"""INSERT INTO {RECEIPTS}
  (tenant_id, chain_number, at_time, action, ids, details, previous_hash, hash)
VALUES (:tenant, :chain_number, :at_time, 'check', :ids, :details, '0', '0')"""
_DELETE_CHUNK = f"DELETE FROM {CHUNKS} WHERE tenant_id = :tenant"
_DELETE_DOCUMENT = "DELETE FROM mem_documents WHERE tenant_id = :tenant"
_SCORES = """SELECT PREDICTION({model} USING :q AS DATA1, :near AS DATA2) AS near,
       PREDICTION({model} USING :q AS DATA1, :far AS DATA2) AS far
FROM dual"""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check, and what to do about it."""

    name: str
    state: State
    message: str
    advice: str = ""


class Doctor:
    """Runs the checks over one connection of the application user.

    Parameters
    ----------
    connection
        A connection whose current schema is the owner's.
    owner
        Schema of the tables.
    rerank_model
        A reranker in the database to be tried as well.
    """

    def __init__(
        self, connection: oracledb.AsyncConnection, owner: str, rerank_model: str | None = None
    ) -> None:
        self._connection = connection
        self._work = Transaction(connection)
        self._package = f"{owner}.{SESSION_PACKAGE}"
        self._rerank_model = rerank_model
        self._meta: _meta.Meta | None = None

    async def run(self) -> list[Check]:
        """Return the outcome of every check; a check that fails does not stop the others."""
        checks: list[tuple[str, Callable[[], Awaitable[Check]]]] = [
            ("version", self._version),
            ("tables", self._tables),
            ("privileges", self._privileges),
            ("row-level security", self._security),
            ("text index", self._text),
            ("text backlog", self._backlog),
            ("vector memory", self._memory),
            ("models", self._models),
            ("clock", self._clock),
        ]
        return [await self._guarded(name, check) for name, check in checks]

    async def _guarded(self, name: str, check: Callable[[], Awaitable[Check]]) -> Check:
        try:
            return await check()
        except (oracledb.Error, AgentMemError) as error:
            cause = full_code(error) if isinstance(error, oracledb.Error) else str(error)
            return Check(name, "fault", f"could not be checked ({cause})", "run the set-up again")
        finally:
            await self._connection.rollback()

    async def _version(self) -> Check:
        version = self._connection.version
        numbers = tuple(int(part) for part in version.split(".")[:2])
        if numbers >= _OLDEST:
            return Check("version", "ok", version)
        return Check("version", "fault", version, "vectors need Oracle Database 23.4 or newer")

    async def _tables(self) -> Check:
        rows = await self._work.fetch(_meta.READ, {})
        self._meta = meta = _meta.read_meta(dict((row[0], row[1]) for row in rows))
        return Check(
            "tables",
            "ok",
            f"made for {meta.embedder!r} ({meta.dimensions} dimensions), vector index "
            f"{meta.vector_index}, lexer {meta.lexer}",
        )

    async def _privileges(self) -> Check:
        held = {row[0] for row in await self._work.fetch(_PRIVILEGES, {})}
        too_much = sorted(held & set(_TOO_MUCH))
        if not too_much:
            return Check("privileges", "ok", "nothing that goes around row-level security")
        return Check(
            "privileges",
            "fault",
            f"the application user holds {', '.join(too_much)}",
            "revoke it: row-level security does not bind such a user",
        )

    async def _security(self) -> Check:
        """Write as one tenant and look as another, then undo it all."""
        ours, theirs = _probe(), _probe()
        await self._as(theirs)
        await self._work.execute(_RECEIPT, _receipt_binds(theirs))
        await self._as(ours)
        seen = await self._work.fetch(_COUNT.format(table=RECEIPTS), {"other": theirs})
        if seen[0][0]:
            return _open("a tenant can read the rows of another one")
        if not await self._refused(_RECEIPT, _receipt_binds(theirs, 2)):
            return _open("a tenant can write rows for another one")
        await self._connection.callproc(f"{self._package}.clear_tenant", [])
        for table in TENANT_TABLES:
            rows = await self._work.fetch(_COUNT_ALL.format(table=table), {})
            if rows[0][0]:
                return _open(f"a session without a tenant can read {table}")
        return Check("row-level security", "ok", "no row crosses between two tenants")

    async def _refused(self, sql: str, binds: dict[str, Bind]) -> bool:
        try:
            await self._work.execute(sql, binds)
        except oracledb.Error as error:
            if full_code(error) != "ORA-28115":
                raise
            return True
        return False

    async def _text(self) -> Check:
        """Commit a row, find it by a word, and take it away again."""
        meta = self._known()
        tenant, word = _probe(), f"w{uuid.uuid4().hex}"
        await self._as(tenant)
        try:
            document, chunk = _rows(tenant, word, meta)
            await self._work.execute(INSERT_DOCUMENT, document)
            await self._work.execute(INSERT_CHUNK, chunk)
            await self._connection.commit()
            query, _ = contains_query((word,), word, meta.lexer)
            found = await self._work.fetch(_FIND, {"tenant": tenant, "tq": query})
        finally:
            await self._work.execute(_DELETE_CHUNK, {"tenant": tenant})
            await self._work.execute(_DELETE_DOCUMENT, {"tenant": tenant})
            await self._connection.commit()
            await self._connection.callproc(f"{self._package}.clear_tenant", [])
        if found:
            return Check("text index", "ok", "a row is found as soon as it is committed")
        return Check(
            "text index",
            "fault",
            "a committed row is not found by its word",
            "see ctx_user_index_errors; if the owner is bound by the policies while the index is "
            "filled, grant it EXEMPT ACCESS POLICY and let nobody log on as it",
        )

    async def _backlog(self) -> Check:
        backlog, errors = (await self._work.fetch(_BACKLOG, {}))[0]
        if errors:
            return Check(
                "text backlog",
                "fault",
                f"{errors} rows could not be indexed",
                "see ctx_user_index_errors as the owner, then run 'agentmem verify --repair'",
            )
        if backlog:
            advice = "run 'agentmem compact', which fills and optimises the index"
            return Check("text backlog", "warning", f"{backlog} rows wait to be indexed", advice)
        return Check("text backlog", "ok", "no row waits, no row failed")

    async def _memory(self) -> Check:
        if self._known().vector_index != "hnsw":
            return Check("vector memory", "ok", "not needed without an HNSW index")
        try:
            size, used = (await self._work.fetch(_POOL, {}))[0]
        except oracledb.Error as error:
            return Check(
                "vector memory",
                "warning",
                f"cannot be seen ({full_code(error)})",
                "grant SELECT ON v_$vector_memory_pool, or ask an administrator",
            )
        if not size:
            advice = "set vector_memory_size; without it searches are exact and slower"
            return Check("vector memory", "fault", "none is set aside", advice)
        return Check("vector memory", "ok", f"{used:,} of {size:,} bytes are used")

    async def _models(self) -> Check:
        meta, tried = self._known(), []
        name = meta.embedder.removeprefix("database:")
        if name != meta.embedder:
            texts = ["a cup of tea", "a mug of tea", "interest rates of banks"]
            vectors = read_vectors(await self._work.fetch(*embed_statement(name, texts)))
            if vectors.shape != (3, meta.dimensions) or not _nearer(vectors):
                return _wrong_model(name)
            tried.append(name)
        if self._rerank_model is not None:
            rows = await self._work.fetch(
                _SCORES.format(model=self._rerank_model),
                {
                    "q": "how is tea made",
                    "near": "Pour hot water over the tea leaves.",
                    "far": "The bank raised its interest rates.",
                },
            )
            if not rows[0][0] > rows[0][1]:
                return _wrong_model(self._rerank_model)
            tried.append(self._rerank_model)
        message = f"{', '.join(tried)} answer as they should" if tried else "none in the database"
        return Check("models", "ok", message)

    async def _clock(self) -> Check:
        before = now_utc()
        server = (await self._work.fetch(_CLOCK, {}))[0][0]
        off = max(before - server, server - now_utc())
        if off <= _CLOCK_TOLERANCE:
            return Check("clock", "ok", "server and client agree")
        return Check(
            "clock",
            "warning",
            f"server and client differ by {off.total_seconds():.0f} s",
            "times of documents come from the clients; keep their clocks synchronised",
        )

    def _known(self) -> _meta.Meta:
        if self._meta is None:
            raise AgentMemError("the tables could not be read")
        return self._meta

    async def _as(self, tenant: str) -> None:
        await self._connection.callproc(f"{self._package}.set_tenant", [tenant])


def _probe() -> str:
    return f"agentmem-doctor-{uuid.uuid4().hex}"


def _open(message: str) -> Check:
    return Check("row-level security", "fault", message, "run 'agentmem oracle init' again")


def _wrong_model(name: str) -> Check:
    return Check(
        "models",
        "fault",
        f"{name} gives senseless answers",
        "load it again with the metadata of 'agentmem oracle models'",
    )


def _nearer(vectors: Any) -> bool:
    return bool(vectors[0] @ vectors[1] > vectors[0] @ vectors[2])


def _receipt_binds(tenant: str, number: int = 1) -> dict[str, Bind]:
    return {
        "tenant": tenant,
        "chain_number": number,
        "at_time": time_bind(0),
        "ids": clob_bind("[]"),
        "details": clob_bind("{}"),
    }


def _rows(tenant: str, word: str, meta: _meta.Meta) -> tuple[dict[str, Bind], dict[str, Bind]]:
    """Return a document with one chunk that holds a word."""
    vector = np.zeros(meta.dimensions, dtype=np.float32)
    vector[0] = 1.0
    chunk = ChunkToWrite(chunk_index=0, start=0, end=len(word), tokens=1, vector=vector, codes=None)
    document = DocumentToWrite(
        user_id=None,
        collection="probe",
        key=None,
        identity="probe",
        fingerprint="probe",
        title=None,
        source_uri=None,
        content=word,
        metadata={},
        created_at=0,
        valid_from=None,
        valid_until=None,
        expires_at=None,
        chunks=(chunk,),
    )
    place = ("probe", 1)
    window, _ = succeed([], version=1, created_at=0, valid_from=None, valid_until=None)
    row = document_row(tenant, place, document, window, first_created_at=0, head=True)
    return row, chunk_rows(tenant, place, document, window, meta.lexer)[0]
