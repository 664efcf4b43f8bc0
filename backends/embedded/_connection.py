"""SQLite connections, each used by one thread at a time and never by the event loop.

One thread writes, a few others read; each reading thread has a connection of its own. A call that
is cancelled before its job starts never runs; a job that runs is finished by its thread, so that a
transaction is committed or rolled back whole whatever happens to the caller.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import apsw

from agentmem.backends.embedded._errors import DATABASE, store_errors
from agentmem.errors import StoreAccessError

T = TypeVar("T")
Durability = str
Job = Callable[[apsw.Connection], T]

_CACHE_KIB = 16_384
# Mapped pages count as memory of the process, once for each connection: enough for all of 25,000
# chunks. Without any, a search of 10,000 takes 9 % more time of the processor.
_MMAP_BYTES = 1 << 26


class Database:
    """The connections of one memory.

    Parameters
    ----------
    folder
        Where the database file lives; None keeps it in RAM, with one connection for everything.
    readers
        How many threads read at the same time.
    lock_timeout
        Seconds to wait for another process's write lock.
    durability
        ``"full"`` survives a power cut after each write, ``"normal"`` only a crash of the process.
    read_only
        Open without ever writing to the folder.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        readers: int,
        lock_timeout: float,
        durability: Durability,
        read_only: bool = False,
    ) -> None:
        self._read_only = read_only
        self._folder = folder
        self._lock_timeout = lock_timeout
        self._durability = durability
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="agentmem-write")
        self._readers = (
            self._writer
            if folder is None
            else ThreadPoolExecutor(readers, thread_name_prefix="agentmem-read")
        )
        self._local = threading.local()
        self._connections: list[apsw.Connection] = []
        self._guard = threading.Lock()
        self.vector_functions = True

    async def write(self, action: str, job: Job[T]) -> T:
        """Run `job` in one immediate transaction on the writing thread."""
        return await self._submit(self._writer, self._in_transaction, action, job)

    async def read(self, action: str, job: Job[T]) -> T:
        """Run `job` in one read transaction, so that it sees one state of the store."""
        return await self._submit(self._readers, self._in_snapshot, action, job)

    async def exclusive(self, action: str, job: Job[T]) -> T:
        """Run `job` on the writing thread without a transaction, for VACUUM and checkpoints."""
        return await self._submit(self._writer, self._plain, action, job)

    async def close(self) -> None:
        """Finish running jobs, close the connections and end the threads."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._shut_down)

    def _shut_down(self) -> None:
        for pool in {self._readers, self._writer}:
            pool.shutdown(wait=True)
        with self._guard:
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()

    async def _submit(
        self,
        pool: ThreadPoolExecutor,
        run: Callable[[str, Job[T]], T],
        action: str,
        job: Job[T],
    ) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, run, action, job)

    def _in_transaction(self, action: str, job: Job[T]) -> T:
        with store_errors(action, self._folder):
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            return self._finish(connection, job, "COMMIT")

    def _in_snapshot(self, action: str, job: Job[T]) -> T:
        with store_errors(action, self._folder):
            connection = self._connection()
            connection.execute("BEGIN")
            return self._finish(connection, job, "ROLLBACK")

    def _plain(self, action: str, job: Job[T]) -> T:
        with store_errors(action, self._folder):
            return job(self._connection())

    @staticmethod
    def _finish(connection: apsw.Connection, job: Job[T], end: str) -> T:
        try:
            result = job(connection)
            connection.execute(end)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _connection(self) -> apsw.Connection:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect()
            self._local.connection = connection
            with self._guard:
                self._connections.append(connection)
        return connection

    def _connect(self) -> apsw.Connection:
        connection = self._opened()
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _opened(self) -> apsw.Connection:
        if self._folder is None:
            return apsw.Connection(":memory:")
        path = self._folder / DATABASE
        if not self._read_only:
            return apsw.Connection(str(path))
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(f"{path.absolute().as_uri()}?{self._read_only_mode(path)}", flags)

    def _read_only_mode(self, path: Path) -> str:
        """Return how SQLite is to open a database that it must not change.

        Readers of a live database need its shared memory, which SQLite makes beside it. Where that
        cannot be made, the file is complete by itself unless a log was left behind.
        """
        if os.access(path.parent, os.W_OK) or path.with_name(f"{DATABASE}-shm").exists():
            return "mode=ro"
        log = path.with_name(f"{DATABASE}-wal")
        if log.exists() and log.stat().st_size:
            raise StoreAccessError(
                f"the memory at {str(path.parent)!r} was not closed cleanly and cannot be "
                "completed in a read-only folder; open it once where it may be written"
            )
        return "mode=ro&immutable=1"

    def _configure(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(int(self._lock_timeout * 1000))
        for pragma, value in self._pragmas():
            connection.pragma(pragma, value)
        # Double-quoted strings hide typing errors in names.
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        self._load_vector_functions(connection)

    def _pragmas(self) -> tuple[tuple[str, str | int], ...]:
        if self._read_only:
            return (("cache_size", -_CACHE_KIB), ("mmap_size", _MMAP_BYTES), ("trusted_schema", 0))
        return (
            # Readers go on while one process writes.
            ("journal_mode", "WAL"),
            # FULL: the log is on disk before a write is acknowledged.
            ("synchronous", self._durability.upper()),
            ("foreign_keys", 1),
            # Deleted bytes are overwritten, so that a purge leaves nothing behind.
            ("secure_delete", 1),
            ("cache_size", -_CACHE_KIB),
            # A search reads a few hundred pages.
            ("mmap_size", _MMAP_BYTES),
            ("temp_store", "MEMORY"),
            ("trusted_schema", 0),
        )

    def _load_vector_functions(self, connection: apsw.Connection) -> None:
        try:
            connection.enable_load_extension(True)
            connection.load_extension(vector_extension())
        except (apsw.Error, OSError):
            # The resident matrix answers without them; stats() and every search say so.
            self.vector_functions = False
        finally:
            connection.enable_load_extension(False)


def vector_extension() -> str:
    """Return the path of sqlite-vec's library, without its suffix.

    The package is looked up but not imported: it would import the standard library's sqlite3, which
    some Pythons lack and which is not needed here.

    Raises
    ------
    OSError
        The package is not installed.
    """
    package = importlib.util.find_spec("sqlite_vec")
    if package is None or package.origin is None:
        raise OSError("sqlite-vec is not installed")
    return str(Path(package.origin).with_name("vec0"))
