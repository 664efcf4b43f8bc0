"""Connections: every statement runs for one tenant, and no connection remembers one.

A pooled connection keeps its session's state. So the tenant is set before the first statement and
cleared before the connection goes back; when clearing fails, or the work was cancelled, the
connection is dropped instead. Reading is a single round trip: set the tenant, query and clear it
in one pipeline.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import oracledb

from agentmem.backends.oracle._errors import (
    is_lost,
    is_passing,
    is_race,
    translated,
)
from agentmem.backends.oracle._names import SESSION_PACKAGE
from agentmem.backends.oracle._pools import PoolLease
from agentmem.backends.oracle._target import Target
from agentmem.backends.oracle._values import Bind, Binds, Typed
from agentmem.errors import NotOpenError, StoreLockedError, StoreUnavailableError

T = TypeVar("T")
Row = tuple[Any, ...]

_FIRST_PAUSE = 0.05
_RACES = 8
"""How often work starts again because another session was faster."""


class MovedError(Exception):
    """Another session changed the rows meanwhile; the work starts again from what is stored."""


class Database:
    """Works on the pool for one tenant.

    Parameters
    ----------
    target
        Where the database is.
    tenant
        Whose rows the connections may see.
    """

    def __init__(self, target: Target, tenant: str) -> None:
        self._target = target
        self._tenant = tenant
        self._lease: PoolLease | None = None
        self._returns: set[asyncio.Task[None]] = set()
        package = f"{target.owner}.{SESSION_PACKAGE}"
        self._set_tenant, self._clear_tenant = f"{package}.set_tenant", f"{package}.clear_tenant"

    @property
    def owner(self) -> str:
        """The schema of the tables."""
        return self._target.owner

    def open(self) -> None:
        """Take hold of the pool. Connections are made when they are needed."""
        self._lease = PoolLease(self._target)

    async def close(self) -> None:
        """Let the pool go. Closing twice is harmless."""
        lease, self._lease = self._lease, None
        if self._returns:
            await asyncio.wait(self._returns)
        if lease is not None:
            await lease.close()

    async def fetch(self, action: str, sql: str, binds: Binds) -> list[Row]:
        """Return all rows of a query, in one round trip. `action` is for messages."""

        async def once() -> list[Row]:
            async with self._connection() as connection:
                pipeline = oracledb.create_pipeline()
                pipeline.add_callproc(self._set_tenant, [self._tenant])
                pipeline.add_fetchall(sql, _variables(connection, binds), fetch_lobs=False)
                pipeline.add_callproc(self._clear_tenant, [])
                async with asyncio.timeout(self._target.call_timeout):
                    results = await connection.run_pipeline(pipeline)
                rows: list[Row] = results[1].rows
                return rows

        return await self._repeated(action, once)

    async def write(
        self,
        action: str,
        job: Callable[[Transaction], Awaitable[T]],
        *,
        repeatable: bool,
    ) -> T:
        """Run `job` in one transaction and commit it.

        Parameters
        ----------
        repeatable
            Whether doing the job again after it was done changes nothing. Only then it is repeated
            when the connection was lost during the commit.
        """
        unsure = False

        async def once() -> T:
            nonlocal unsure
            async with self._connection() as connection:
                async with asyncio.timeout(self._target.call_timeout):
                    await connection.callproc(self._set_tenant, [self._tenant])
                result = await job(Transaction(connection, unsure=unsure))
                unsure = True
                await self._commit(connection, action, repeatable)
                return result

        return await self._repeated(action, once)

    async def call(self, action: str, procedure: str) -> None:
        """Call a procedure of the owner's that commits by itself."""

        async def once() -> None:
            async with self._connection() as connection:
                await connection.callproc(self._set_tenant, [self._tenant])
                limit, connection.call_timeout = connection.call_timeout, 0  # upkeep takes long
                try:
                    await connection.callproc(f"{self.owner}.{procedure}", [])
                finally:
                    connection.call_timeout = limit
                await connection.callproc(self._clear_tenant, [])

        await self._repeated(action, once)

    async def _commit(
        self, connection: oracledb.AsyncConnection, action: str, repeatable: bool
    ) -> None:
        pipeline = oracledb.create_pipeline()
        pipeline.add_commit()
        pipeline.add_callproc(self._clear_tenant, [])
        try:
            async with asyncio.timeout(self._target.call_timeout):
                await connection.run_pipeline(pipeline)
        except (oracledb.Error, TimeoutError) as error:
            lost = isinstance(error, TimeoutError) or is_lost(error)
            if repeatable or not lost:
                raise
            raise StoreUnavailableError(
                f"the connection was lost while committing ({action}); look whether it was done "
                "before you try again"
            ) from error

    async def _repeated(self, action: str, once: Callable[[], Awaitable[T]]) -> T:
        """Run `once` until it succeeds, fails for good, or the repetitions are used up."""
        faults = races = 0
        while True:
            try:
                return await once()
            except TimeoutError as error:
                raise StoreUnavailableError(
                    f"could not {action}: the database did not answer within "
                    f"{self._target.call_timeout} s; try again, or raise oracle_call_timeout"
                ) from error
            except MovedError as error:
                races += 1
                if races > _RACES:
                    raise StoreLockedError(f"could not {action}: {error}; try again") from error
            except oracledb.Error as error:
                raced = is_race(error)
                races, faults = races + raced, faults + (not raced)
                tired = races > _RACES or faults > self._target.retries
                if tired or not (raced or is_passing(error)):
                    raise translated(error, action) from error
            pause = _FIRST_PAUSE * 2 ** min(races + faults - 1, 5)
            await asyncio.sleep(random.uniform(0.5, 1.0) * pause)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[oracledb.AsyncConnection]:
        """Lend a connection; it comes back without a tenant or not at all."""
        if self._lease is None:
            raise NotOpenError("the store is not open")
        pool = self._lease.pool
        longest = self._target.pool_timeout + self._target.connect_timeout
        try:
            async with asyncio.timeout(longest):
                connection = await pool.acquire()
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"no connection to {self._target.place!r} could be had within {longest:g} s; check "
                "the network, or raise oracle_pool_timeout and oracle_connect_timeout"
            ) from error
        try:
            yield connection
        except BaseException as error:
            await self._returned(self._clean if _is_at_rest(error) else _drop, pool, connection)
            raise
        else:
            await self._returned(_release, pool, connection)

    async def _returned(
        self,
        how: Callable[[oracledb.AsyncConnectionPool, oracledb.AsyncConnection], Awaitable[None]],
        pool: oracledb.AsyncConnectionPool,
        connection: oracledb.AsyncConnection,
    ) -> None:
        """Give a connection back even when the caller is cancelled (again) meanwhile."""

        async def give_back() -> None:
            await how(pool, connection)

        task = asyncio.create_task(give_back())
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)
        await asyncio.shield(task)

    async def _clean(
        self, pool: oracledb.AsyncConnectionPool, connection: oracledb.AsyncConnection
    ) -> None:
        """Undo the open work and clear the tenant; a connection that cannot do so is dropped."""
        try:
            async with asyncio.timeout(self._target.call_timeout):
                await connection.rollback()
                await connection.callproc(self._clear_tenant, [])
        except (oracledb.Error, TimeoutError):
            await _drop(pool, connection)
        else:
            await _release(pool, connection)


async def _release(
    pool: oracledb.AsyncConnectionPool, connection: oracledb.AsyncConnection
) -> None:
    try:
        await pool.release(connection)
    except oracledb.Error:
        await _drop(pool, connection)


def _is_at_rest(error: BaseException) -> bool:
    """Return whether a session still waits for its next call after an error.

    After a cancellation, a timeout or a lost connection nobody knows what it is doing.
    """
    if isinstance(error, oracledb.Error):
        return not is_lost(error)
    return isinstance(error, Exception) and not isinstance(
        error, StoreUnavailableError | TimeoutError
    )


async def _drop(pool: oracledb.AsyncConnectionPool, connection: oracledb.AsyncConnection) -> None:
    try:
        await pool.drop(connection)  # type: ignore[arg-type]  # annotated for the other class
    except oracledb.Error:
        # It is dead already, and the pool has forgotten it; whatever went wrong before is raised.
        return


class Transaction:
    """Statements of one transaction.

    Attributes
    ----------
    unsure
        Whether the same work may have been committed before: the connection was lost while the
        server was asked to commit.
    """

    def __init__(self, connection: oracledb.AsyncConnection, *, unsure: bool = False) -> None:
        self._connection = connection
        self.unsure = unsure

    async def fetch(self, sql: str, binds: Binds) -> list[Row]:
        """Return all rows of a query."""
        with self._connection.cursor() as cursor:
            _declare(cursor, binds)
            await cursor.execute(sql, _values(binds), fetch_lobs=False)
            rows: list[Row] = await cursor.fetchall()
            return rows

    async def execute(self, sql: str, binds: Binds) -> int:
        """Run a statement and return how many rows it changed."""
        with self._connection.cursor() as cursor:
            _declare(cursor, binds)
            await cursor.execute(sql, _values(binds))
            return int(cursor.rowcount)

    async def executemany(self, sql: str, rows: Sequence[Binds]) -> list[int]:
        """Run a statement for each row and return how many rows each changed."""
        if not rows:
            return []
        with self._connection.cursor() as cursor:
            _declare(cursor, rows[0])
            await cursor.executemany(sql, [_values(row) for row in rows], arraydmlrowcounts=True)
            counts: list[int] = cursor.getarraydmlrowcounts()
            return counts


def _declare(cursor: oracledb.AsyncCursor, binds: Binds) -> None:
    types = {name: bind.type for name, bind in binds.items() if isinstance(bind, Typed)}
    if types:
        cursor.setinputsizes(**types)


def _values(binds: Binds) -> dict[str, Any]:
    return {name: bind.value if isinstance(bind, Typed) else bind for name, bind in binds.items()}


def _variables(connection: oracledb.AsyncConnection, binds: Binds) -> dict[str, Any]:
    """Return binds for a pipeline, where only a variable can carry its type."""
    with connection.cursor() as cursor:
        return {name: _variable(cursor, bind) for name, bind in binds.items()}


def _variable(cursor: oracledb.AsyncCursor, bind: Bind) -> Any:
    if not isinstance(bind, Typed):
        return bind
    variable = cursor.var(bind.type)
    variable.setvalue(0, bind.value)
    return variable
