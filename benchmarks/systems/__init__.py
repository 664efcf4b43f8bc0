"""The systems that suites can name, each in a module of its own and imported when it is used."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from benchmarks._datasets import DataError
from benchmarks.systems.base import System


def system_names() -> list[str]:
    """Return the names that a suite can use."""
    return sorted(info.name for info in iter_modules(__path__) if info.name != "base")


def find_system(name: str) -> type[System]:
    """Return the class of a system.

    Raises
    ------
    DataError
        There is none of that name, or its package is not installed.
    """
    if name not in system_names():
        raise DataError(f"there is no system {name!r}; there are {', '.join(system_names())}")
    try:
        module = import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(("agentmem", "benchmarks")):
            raise
        raise DataError(
            f"the system {name!r} needs the package {error.name!r}; "
            "run: pip install 'agentmem[peers]'"
        ) from error
    return cast(type[System], module.SYSTEM)
