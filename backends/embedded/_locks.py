"""Finds out which processes hold locks on a memory, where the system tells."""

from __future__ import annotations

import os
from pathlib import Path

_TABLE = Path("/proc/locks")
_SHARED_MEMORY = "-shm"


def holders(database: Path) -> list[str]:
    """Return the processes that hold a write lock on a database, such as ``"4711 (python)"``.

    Linux lists the locks of all processes; on other systems the list is empty, and so it is when
    the lock has gone meanwhile.
    """
    try:
        number = os.stat(f"{database}{_SHARED_MEMORY}").st_ino
        table = _TABLE.read_text(encoding="ascii")
    except OSError:
        return []
    pids = set()
    for line in table.splitlines():
        # 1: POSIX  ADVISORY  WRITE 4711 08:01:123456 120 120
        fields = line.replace("->", "").split()
        if len(fields) >= 6 and fields[3] == "WRITE" and fields[5].endswith(f":{number}"):
            pids.add(int(fields[4]))
    return [_named(pid) for pid in sorted(pids - {os.getpid()}) if pid > 0]


def _named(pid: int) -> str:
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return str(pid)
    return f"{pid} ({name})"
