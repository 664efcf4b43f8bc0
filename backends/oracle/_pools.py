"""Connection pools, shared by all memories of one process that log on to the same place.

A service opens one memory for each tenant. They take turns on the same connections, so that a
thousand tenants need no more sessions in the database than one.
"""

from __future__ import annotations

import asyncio
from dataclasses import astuple, dataclass
from typing import Any

import oracledb

from agentmem.backends.oracle._errors import store_errors
from agentmem.backends.oracle._target import Target

_Key = tuple[asyncio.AbstractEventLoop, str]


@dataclass(slots=True)
class _Shared:
    pool: oracledb.AsyncConnectionPool
    users: int = 0


_shared: dict[_Key, _Shared] = {}


class PoolLease:
    """One user's hold on a pool; the pool is closed when the last one lets go."""

    def __init__(self, target: Target) -> None:
        self._key: _Key = (asyncio.get_running_loop(), repr(astuple(target)))
        shared = _shared.get(self._key)
        if shared is None:
            shared = _shared[self._key] = _Shared(_make(target))
        shared.users += 1
        self.pool = shared.pool

    async def close(self) -> None:
        """Let go. To be called once."""
        shared = _shared[self._key]
        shared.users -= 1
        if not shared.users:
            del _shared[self._key]
            with store_errors("close the memory"):
                await shared.pool.close(force=True)


def _make(target: Target) -> oracledb.AsyncConnectionPool:
    """Return a new pool. Its connections are made when they are needed."""

    async def prepare(connection: oracledb.AsyncConnection, tag: str | None) -> None:
        await prepare_session(connection, target)

    with store_errors(f"open a memory on {target.place!r}"):
        return oracledb.create_pool_async(
            user=target.user,
            password=target.password,
            dsn=target.dsn,
            min=target.pool_min,
            max=target.pool_max,
            increment=1,
            getmode=oracledb.POOL_GETMODE_TIMEDWAIT,
            wait_timeout=round(target.pool_timeout * 1000),
            tcp_connect_timeout=target.connect_timeout,
            stmtcachesize=64,
            session_callback=prepare,
            **target.extra,
        )


async def prepare_session(connection: oracledb.AsyncConnection, target: Target) -> None:
    """Set up a new session: whose tables, how texts compare, and how long to wait."""
    connection.call_timeout = round(target.call_timeout * 1000)
    cursor: Any
    with connection.cursor() as cursor:
        await cursor.execute(f"ALTER SESSION SET CURRENT_SCHEMA = {target.owner}")
        await cursor.execute("ALTER SESSION SET NLS_COMP = BINARY NLS_SORT = BINARY")
