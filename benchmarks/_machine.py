"""Describes the machine and the packages, so that a number can be read years later."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = (
    "agentmem", "numpy", "onnxruntime", "tokenizers", "tantivy", "apsw", "sqlite-vec", "duckdb",
    "oracledb", "chromadb", "lancedb", "qdrant-client", "langgraph", "mem0ai", "psycopg",
)  # fmt: skip


def machine() -> dict[str, Any]:
    """Describe the machine."""
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "processor": _processor(),
        "memory_mb": _memory(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Return the versions of those packages that matter here and are installed."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    """Return the processor's name where the system tells it, else its kind."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line)
    return next(names, platform.machine())


def _memory() -> int | None:
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
