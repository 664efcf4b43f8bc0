"""The driver's async surface: pool, connection, cursor, pipeline. Which calls wait is as in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from typing import Any, TypeVar

import oracledb

from tests.standin import binds
from tests.standin.errors import error
from tests.standin.server import StandIn
from tests.standin.session import Result, Session

T = TypeVar("T")

_LOBS = (oracledb.DB_TYPE_CLOB, oracledb.DB_TYPE_BLOB)


class PipelineResult:
    """What one operation of a pipeline gave."""

    def __init__(self, rows: list[tuple[Any, ...]] | None) -> None:
        self.rows = rows
        self.error = None
        self.columns = None
        self.return_value = None
        self.warning = None


class Cursor:
    """Runs statements. Declared types last for one of them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._types: dict[str, Any] = {}
        self._result = Result([], -1)
        self._counts: list[int] = []
        self.rowcount = -1

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._result = Result([], -1)

    def setinputsizes(self, **types: Any) -> None:
        self._types = types

    def var(self, kind: Any, size: int = 0, arraysize: int = 1) -> binds.Variable:
        return binds.Variable(kind)

    async def execute(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, fetch_lobs: bool = True
    ) -> None:
        types, self._types = self._types, {}
        self._result = await self._connection.execute_one(
            sql, parameters or {}, types, plain=not fetch_lobs
        )
        self.rowcount = self._result.count

    async def executemany(
        self, sql: str, rows: list[Mapping[str, Any]], *, arraydmlrowcounts: bool = False
    ) -> None:
        types, self._types = self._types, {}
        self._counts = await self._connection.execute_many(sql, rows, types)
        self.rowcount = sum(self._counts)

    def getarraydmlrowcounts(self) -> list[int]:
        return self._counts

    async def fetchall(self) -> list[tuple[Any, ...]]:
        await asyncio.sleep(0)
        if self._result.rows is None:
            raise error("DPY-1003", "the executed statement does not return rows")
        return self._result.rows

    async def fetchone(self) -> tuple[Any, ...] | None:
        rows = await self.fetchall()
        return rows.pop(0) if rows else None

    async def __aiter__(self) -> AsyncIterator[tuple[Any, ...]]:
        for row in await self.fetchall():
            yield row


class Connection:
    """A connection; it stands for one session of the server."""

    def __init__(self, server: StandIn, user: str) -> None:
        self._server = server
        self._session = Session(server, user)
        self._holds_writer = False
        self._loop = asyncio.get_running_loop()
        self.call_timeout = 0
        self.username = user
        self.version = "23.26.0.0.0"
        self.thin = True
        server.sessions[self._session.number] = self._session

    @property
    def session(self) -> Session:
        """The session, for tests to look into."""
        return self._session

    def cursor(self) -> Cursor:
        return Cursor(self)

    async def callproc(self, name: str, parameters: list[Any] | None = None) -> list[Any]:
        await self._trip(name, lambda: self._server.call(self._session, name, parameters or []))
        return parameters or []

    async def fetchall(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, fetch_lobs: bool = True
    ) -> list[tuple[Any, ...]]:
        result = await self.execute_one(sql, parameters or {}, {}, plain=not fetch_lobs)
        return result.rows or []

    async def execute(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        await self.execute_one(sql, parameters or {}, {}, plain=True)

    async def execute_one(
        self, sql: str, parameters: Mapping[str, Any], types: Mapping[str, Any], *, plain: bool
    ) -> Result:
        await self._before_change(sql)
        self._count_lobs([parameters], types)
        return await self._trip(sql, lambda: self._run(sql, parameters, types, plain))

    def _run(
        self, sql: str, parameters: Mapping[str, Any], types: Mapping[str, Any], plain: bool
    ) -> Result:
        if sql.startswith("BEGIN DBMS_VECTOR."):
            self._server.model(sql, parameters, types)
            return Result(None, 0)
        if self._server.catalog.run(sql):
            if sql == "COMMIT":
                self._commit()
            self._server.translated.cache_clear()
            return Result(None, 0)
        return self._session.run(sql, parameters, types, plain)

    async def execute_many(
        self, sql: str, rows: list[Mapping[str, Any]], types: Mapping[str, Any]
    ) -> list[int]:
        await self._before_change(sql)
        self._count_lobs(rows, types)
        return await self._trip(sql, lambda: self._session.run_many(sql, rows, types))

    async def run_pipeline(
        self, pipeline: oracledb.Pipeline, continue_on_error: bool = False
    ) -> list[PipelineResult]:
        assert not continue_on_error
        text = "; ".join(op.statement or op.name or "commit" for op in pipeline.operations)
        self._count_lobs(
            [op.parameters for op in pipeline.operations if isinstance(op.parameters, dict)], {}
        )
        return await self._trip(
            text, lambda: [self._operation(op) for op in pipeline.operations], pipeline=True
        )

    def _operation(self, operation: oracledb.PipelineOp) -> PipelineResult:
        text = operation.statement or operation.name or "commit"
        self._server.fault(text, after=False)
        result = self._operated(operation)
        self._server.fault(text, after=True)
        return result

    def _operated(self, operation: oracledb.PipelineOp) -> PipelineResult:
        kind = operation.op_type
        if kind == oracledb.PIPELINE_OP_TYPE_CALL_PROC:
            self._server.call(self._session, operation.name or "", list(operation.parameters or []))
            return PipelineResult(None)
        if kind == oracledb.PIPELINE_OP_TYPE_COMMIT:
            self._commit()
            return PipelineResult(None)
        assert kind == oracledb.PIPELINE_OP_TYPE_FETCH_ALL, kind
        plain = operation.fetch_lobs is False
        result = self._session.run(operation.statement or "", operation.parameters or {}, {}, plain)
        return PipelineResult(result.rows)

    async def commit(self) -> None:
        await self._trip("commit", self._commit)

    async def rollback(self) -> None:
        await self._trip("rollback", self._rollback)

    async def ping(self) -> None:
        await self._trip("ping", lambda: None)

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.end()

    def is_healthy(self) -> bool:
        return not self._session.dead

    def _commit(self) -> None:
        self._session.commit()
        self._free_writer()
        self._server.committed()

    def _rollback(self) -> None:
        self._session.rollback()
        self._free_writer()
        self._server.committed()

    def end(self) -> None:
        """End the session; open work is undone."""
        self._session.close()
        self._session.dead = True
        self._free_writer()
        self._server.sessions.pop(self._session.number, None)

    def _free_writer(self) -> None:
        if self._holds_writer:
            self._holds_writer = False
            # The work runs in a thread, the lock belongs to the loop.
            self._loop.call_soon_threadsafe(self._server.writer.release)

    async def _before_change(self, sql: str) -> None:
        """Wait for the lock of writers before the first change of a transaction."""
        if sql.split(None, 1)[0].upper() not in ("INSERT", "UPDATE", "DELETE", "MERGE"):
            return
        if not self._holds_writer and not self._session.dead:
            await self._server.writer.acquire()
            self._holds_writer = True
            self._session.begin()

    def _count_lobs(self, rows: list[Mapping[str, Any]], types: Mapping[str, Any]) -> None:
        """A value that is declared as a LOB is made and filled before the statement is sent."""
        names = {name for name, kind in types.items() if kind in _LOBS}
        for row in rows:
            for name, value in row.items():
                declared = isinstance(value, binds.Variable) and value.type in _LOBS
                if declared or (name in names and value is not None):
                    self._server.round_trips += 2

    async def _trip(self, text: str, work: Callable[[], T], *, pipeline: bool = False) -> T:
        """Go to the server and back once."""
        server, session = self._server, self._session
        if session.dead:
            raise error("DPY-1001", "not connected to database")
        if session.number in server.killed:
            self.end()
            raise error("DPY-4011", "the database or network closed the connection")
        server.round_trips += 1
        server.log.append((session.number, text))
        try:
            await self._wait()
            if not pipeline:
                server.fault(text, after=False)
            result = await _finished(work)
            if not pipeline:
                server.fault(text, after=True)
        except asyncio.CancelledError:
            if server.break_fails:
                self.end()
            raise
        except oracledb.Error as failure:
            if failure.args[0].full_code == "DPY-4011":
                self.end()
            raise
        return result

    async def _wait(self) -> None:
        limit = self.call_timeout / 1000
        if limit and self._server.delay > limit:
            await asyncio.sleep(limit)
            raise error("DPY-4024", f"call timeout of {self.call_timeout} ms exceeded")
        await asyncio.sleep(self._server.delay)


async def _finished(work: Callable[[], T]) -> T:
    """Run work in a thread; a cancelled caller waits until the session has come to rest."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue
        task.exception()
        raise


class Connecting:
    """What `connect_async` returns: to be awaited, or entered."""

    def __init__(self, server: StandIn, user: str) -> None:
        self._server = server
        self._user = user
        self._connection: Connection | None = None

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._connect().__await__()

    async def _connect(self) -> Connection:
        await asyncio.sleep(0)
        if self._server.down:
            raise error("DPY-6005", "cannot connect to database")
        self._connection = Connection(self._server, self._user)
        return self._connection

    async def __aenter__(self) -> Connection:
        return await self._connect()

    async def __aexit__(self, *exception: object) -> None:
        if self._connection is not None:
            await self._connection.close()


class Pool:
    """A pool of connections."""

    def __init__(self, server: StandIn, arguments: Mapping[str, Any]) -> None:
        self._server = server
        self._user = arguments["user"]
        self._prepare = arguments.get("session_callback")
        self.max = int(arguments.get("max", 2))
        self._timeout = float(arguments.get("wait_timeout", 0)) / 1000
        self._waits = arguments.get("getmode") == oracledb.POOL_GETMODE_TIMEDWAIT
        self._free: list[Connection] = []
        self._given: set[Connection] = set()
        self._room = asyncio.Semaphore(self.max)
        self._closed = False

    @property
    def busy(self) -> int:
        return len(self._given)

    @property
    def opened(self) -> int:
        return len(self._given) + len(self._free)

    def acquire(self) -> Any:
        return self._acquire()

    async def _acquire(self) -> Connection:
        if self._closed:
            raise error("DPY-1002", "connection pool is not open")
        try:
            async with asyncio.timeout(self._timeout if self._waits else None):
                await self._room.acquire()
        except TimeoutError:
            raise error(
                "DPY-4005", "timed out waiting for the pool to return a connection"
            ) from None
        try:
            connection = await self._connection()
        except BaseException:
            self._room.release()
            raise
        self._given.add(connection)
        self._server.checked_out += 1
        return connection

    async def _connection(self) -> Connection:
        await asyncio.sleep(0)
        while self._free:
            connection = self._free.pop()
            if connection.is_healthy():
                return connection
        if self._server.down:
            raise error("DPY-6005", "cannot connect to database")
        connection = Connection(self._server, self._user)
        try:
            if self._prepare is not None:
                await self._prepare(connection, None)
        except BaseException:
            connection.end()
            raise
        return connection

    async def release(self, connection: Connection) -> None:
        await asyncio.sleep(0)
        self._take_back(connection)
        if connection.is_healthy():
            connection._rollback()
            self._free.append(connection)

    async def drop(self, connection: Connection) -> None:
        await asyncio.sleep(0)
        self._take_back(connection)
        connection.end()

    def _take_back(self, connection: Connection) -> None:
        if connection not in self._given:
            raise error("DPY-1001", "not connected to database")
        self._given.remove(connection)
        self._server.checked_out -= 1
        self._room.release()

    async def close(self, force: bool = False) -> None:
        await asyncio.sleep(0)
        if self._given and not force:
            raise error("DPY-1005", "connection pool cannot be closed because it is busy")
        self._closed = True
        for connection in [*self._free, *self._given]:
            connection.end()
        self._server.checked_out -= len(self._given)
        self._free.clear()
        self._given.clear()
