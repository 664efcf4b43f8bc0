"""What glibc's allocator does with the memory of a commit of the text index.

tantivy commits in threads that take about 14 MB, in blocks of 1 MiB and more, and then end. glibc
gives each thread a part of the heap and keeps there what the thread frees, for a later thread that
may get another part. Blocks above a threshold go back to the system instead, but glibc raises that
threshold, up to 32 MiB, to the size of the largest one that the process has freed. So it is set low
for as long as a commit takes, and to what glibc would have come to afterwards: a threshold that
stays low makes a run of the model slower, which takes and frees blocks of 1 to 4 MB all the time.

The thresholds belong to the whole process: mallopt(3), malloc/malloc.c of glibc.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
# glibc's own rule begins with the first, ends with the second, and trims at twice the threshold.
_FIRST = 128 << 10
_LAST = 32 << 20

_guard = threading.Lock()
_commits = 0


@contextmanager
def large_blocks_given_back() -> Iterator[None]:
    """Let blocks from 128 KiB on go back to the system when they are freed.

    Memories of one process may commit at the same time: the last that leaves ends it. Without glibc
    nothing happens.
    """
    global _commits
    with _guard:
        _commits += 1
        _set(_M_MMAP_THRESHOLD, _FIRST)
    try:
        yield
    finally:
        with _guard:
            _commits -= 1
            if not _commits:
                _set(_M_MMAP_THRESHOLD, _LAST)
                _set(_M_TRIM_THRESHOLD, 2 * _LAST)


def _find() -> Callable[[int, int], int] | None:
    """Return glibc's mallopt; None with another C library, or where its limits are lower."""
    if sys.platform != "linux" or sys.maxsize <= 1 << 32:
        return None
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return None
    function = library.mallopt
    function.argtypes, function.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    return function


_mallopt = _find()


def _set(parameter: int, value: int) -> None:
    if _mallopt is not None:
        _mallopt(parameter, value)
