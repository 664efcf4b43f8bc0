"""Translates the driver's errors into ours, by code and never by wording.

The message of ours names the call and the code. The driver's own message is left out: it may quote
values, and values are content. The driver's error stays reachable as `__cause__`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import oracledb

from agentmem.errors import (
    AgentMemError,
    ConfigurationError,
    ConflictError,
    ModelError,
    StoreAccessError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreUnavailableError,
)

_DRG = re.compile(r"DRG-\d+")

_UNIQUE = "ORA-00001"
# Another session was faster: unique key, deadlock, serialization.
_RACES = frozenset({_UNIQUE, "ORA-00060", "ORA-08177"})
# Snapshot too old (of tables and of vectors), and a database that is starting or moving.
_PASSING = frozenset({"ORA-01555", "ORA-51815", "ORA-12514", "ORA-01033", "ORA-01034"})

_Kind = tuple[type[AgentMemError], str]
_UNREACHABLE = (
    "the database cannot be reached; check host, port, service and network, then try again"
)
_KINDS: dict[str, _Kind] = {
    "DPY-4011": (StoreUnavailableError, "the connection was lost; try again"),
    "DPY-1001": (StoreUnavailableError, "the connection was lost; try again"),
    "DPY-4024": (
        StoreUnavailableError,
        "the database did not answer in time; try again, or raise oracle_call_timeout",
    ),
    "DPY-4005": (
        StoreUnavailableError,
        "no connection became free in time; raise oracle_pool_max or oracle_pool_timeout",
    ),
    "DPY-6005": (StoreUnavailableError, _UNREACHABLE),
    "DPY-6001": (StoreUnavailableError, "the listener does not know the service in the URL"),
    "DPY-6003": (StoreUnavailableError, "the listener does not know the SID in the URL"),
    "DPY-4000": (ConfigurationError, "the connect name is not in tnsnames.ora; check oracle_dsn"),
    "DPY-4001": (ConfigurationError, "no user or password is given; set oracle_password"),
    "DPY-4027": (ConfigurationError, "no folder with tnsnames.ora is given; set oracle_config_dir"),
    "ORA-12514": (StoreUnavailableError, "the listener does not know the service (yet)"),
    "ORA-01033": (StoreUnavailableError, "the database is starting or stopping; try again"),
    "ORA-01034": (StoreUnavailableError, "the database is not running"),
    "ORA-01017": (StoreAccessError, "the database refused the user or the password"),
    "ORA-28000": (StoreAccessError, "the database account is locked"),
    "ORA-28001": (StoreAccessError, "the database account's password has expired"),
    "ORA-01045": (StoreAccessError, "the user may not log on; grant CREATE SESSION"),
    "ORA-00942": (
        StoreAccessError,
        "the tables are missing or not granted; run 'agentmem oracle init'",
    ),
    "ORA-01031": (StoreAccessError, "a privilege is missing; run 'agentmem oracle doctor'"),
    "ORA-06550": (
        StoreAccessError,
        "a package is missing or not granted; run 'agentmem oracle init'",
    ),
    "ORA-28115": (StoreAccessError, "row-level security refused a row of another tenant"),
    "ORA-28113": (StoreAccessError, "the security policy is broken; run 'agentmem oracle doctor'"),
    "ORA-28110": (StoreAccessError, "the security policy is broken; run 'agentmem oracle doctor'"),
    "ORA-28112": (StoreAccessError, "the security policy is broken; run 'agentmem oracle doctor'"),
    "ORA-00060": (StoreLockedError, "another session held the rows; try again"),
    "ORA-00054": (StoreLockedError, "another session held the rows; try again"),
    "ORA-08177": (StoreLockedError, "another session changed the rows meanwhile; try again"),
    "ORA-00001": (ConflictError, "another writer stored the same document meanwhile; try again"),
    "ORA-01653": (StoreFullError, "the tablespace is full; extend it"),
    "ORA-01654": (StoreFullError, "the tablespace is full; extend it"),
    "ORA-01658": (StoreFullError, "the tablespace is full; extend it"),
    "ORA-01691": (StoreFullError, "the tablespace is full; extend it"),
    "ORA-01536": (StoreFullError, "the space quota of the schema is used up; raise it"),
    "ORA-12954": (StoreFullError, "the database has reached the size that its edition allows"),
    "ORA-51962": (StoreFullError, "the vector memory is full; raise vector_memory_size"),
    "ORA-29861": (
        StoreCorruptError,
        "the text index is unusable; rebuild it, see 'agentmem oracle doctor'",
    ),
    "ORA-40284": (ModelError, "the model is not in the database, or not granted"),
    "ORA-40216": (ModelError, "the model is not in the database, or not granted"),
    "ORA-40290": (ModelError, "the model in the database is of another kind"),
}


def full_code(error: oracledb.Error) -> str:
    """Return the code of a driver's error, such as ``"ORA-00001"``."""
    detail = error.args[0] if error.args else None
    return str(getattr(detail, "full_code", "") or "unknown")


def text_code(error: oracledb.Error) -> str | None:
    """Return the first code of Oracle Text in an error, such as ``"DRG-50901"``."""
    found = _DRG.search(str(getattr(error.args[0], "message", "") if error.args else ""))
    return found.group() if found else None


def row_offset(error: oracledb.Error) -> int:
    """Return at which row of an `executemany` the error arose."""
    return int(getattr(error.args[0], "offset", 0) if error.args else 0)


def is_passing(error: oracledb.Error) -> bool:
    """Return whether the same work can succeed when it is done again."""
    detail = error.args[0] if error.args else None
    return bool(getattr(detail, "isrecoverable", False)) or full_code(error) in _PASSING


def is_race(error: oracledb.Error) -> bool:
    """Return whether another session was faster, so that the work starts again."""
    return full_code(error) in _RACES


def is_duplicate(error: oracledb.Error) -> bool:
    """Return whether a unique key was violated."""
    return full_code(error) == _UNIQUE


def is_lost(error: oracledb.Error) -> bool:
    """Return whether the connection died, so that it is unknown how far the server got."""
    detail = error.args[0] if error.args else None
    return bool(getattr(detail, "is_session_dead", False)) or full_code(error) in (
        "DPY-4011",
        "DPY-1001",
        "DPY-4024",
    )


def translated(error: oracledb.Error, action: str) -> AgentMemError:
    """Return our error for the driver's."""
    code = full_code(error)
    kind, advice = _KINDS.get(
        code, (StoreError, "run 'agentmem oracle doctor' and see the database's error")
    )
    detail = text_code(error)
    shown = f"{code}, {detail}" if detail else code
    return kind(f"could not {action}: {advice} ({shown})")


@contextmanager
def store_errors(action: str) -> Iterator[None]:
    """Raise our error for whatever the driver raises inside."""
    try:
        yield
    except oracledb.Error as error:
        raise translated(error, action) from error
