"""Turns the drivers' errors into ours: one table, one context manager."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from agentmem.backends.embedded._locks import holders
from agentmem.errors import (
    AgentMemError,
    StoreAccessError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
)

_ADVICE: dict[type[apsw.Error], tuple[type[StoreError], str]] = {
    apsw.BusyError: (
        StoreLockedError,
        "another process held the write lock for longer than lock_timeout; try again, or raise it",
    ),
    apsw.LockedError: (StoreLockedError, "a table is locked; try again"),
    apsw.FullError: (StoreFullError, "the disk is full; free some space and try again"),
    apsw.CorruptError: (
        StoreCorruptError,
        "the database is damaged; restore the folder from a backup, or run verify()",
    ),
    apsw.NotADBError: (
        StoreCorruptError,
        "the database file is not a SQLite database; restore the folder from a backup",
    ),
    apsw.ReadOnlyError: (StoreAccessError, "the folder is read-only; check its permissions"),
    apsw.PermissionsError: (StoreAccessError, "permission was denied; check the permissions"),
    apsw.CantOpenError: (
        StoreAccessError,
        "the database cannot be opened; check that the folder exists and may be written",
    ),
    apsw.IOError: (StoreError, "reading or writing the disk failed; check the disk"),
}

DATABASE = "memory.db"

_OS_ADVICE: dict[int, tuple[type[StoreError], str]] = {
    errno.ENOSPC: (StoreFullError, "the disk is full; free some space and try again"),
    errno.EDQUOT: (StoreFullError, "the disk quota is used up; free some space and try again"),
    errno.EACCES: (StoreAccessError, "permission was denied; check the permissions"),
    errno.EPERM: (StoreAccessError, "permission was denied; check the permissions"),
    errno.EROFS: (StoreAccessError, "the file system is read-only"),
    errno.ENOTDIR: (StoreAccessError, "a part of the path is a file, not a folder"),
    errno.EEXIST: (StoreAccessError, "the path is a file, not a folder"),
}


@contextmanager
def store_errors(action: str, folder: Path | None) -> Iterator[None]:
    """Turn errors of SQLite, tantivy and the operating system inside the block into ours.

    Parameters
    ----------
    action
        What was being done, for the message, such as ``"write 3 documents"``.
    folder
        The memory's folder; None for one that lives in RAM.

    Raises
    ------
    StoreError
        The subclass that fits, with the driver's error as its cause.
    """
    where = "the memory in RAM" if folder is None else f"the memory at {str(folder)!r}"
    try:
        yield
    except AgentMemError:
        raise
    except apsw.Error as error:
        kind, advice = _lookup(error)
        if kind is StoreLockedError and folder is not None:
            advice += _held_by(folder)
        raise kind(f"{where}: could not {action}: {advice}") from error
    except OSError as error:
        code = error.errno or 0
        kind, advice = _OS_ADVICE.get(code, (StoreError, f"the operating system said {error}"))
        raise kind(f"{where}: could not {action}: {advice}") from error


@contextmanager
def index_errors() -> Iterator[None]:
    """Turn errors of tantivy, which are all ValueErrors told apart by text only, into ours.

    Raises
    ------
    StoreError
        Reading or writing the text index failed; `StoreFullError` when the disk is full.
    """
    try:
        yield
    except ValueError as error:
        full = "StorageFull" in str(error) or "No space left" in str(error)
        kind = StoreFullError if full else StoreError
        advice = "the disk is full; free some space" if full else "check the disk"
        raise kind(f"the text index could not be read or written: {advice}") from error


def _held_by(folder: Path) -> str:
    found = holders(folder / DATABASE)
    return f" (held by process {', '.join(found)})" if found else ""


def _lookup(error: apsw.Error) -> tuple[type[StoreError], str]:
    for cls in type(error).__mro__:
        if cls in _ADVICE:
            return _ADVICE[cls]
    return StoreError, f"the database said {error}"
