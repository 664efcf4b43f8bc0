"""The Oracle engine: many tenants on Oracle Database 23ai or 26ai, through python-oracledb.

`OracleBackend` is the engine. `_search` builds the one statement of a search, `_filters` compiles
conditions, `_connection` keeps the pool and the tenant, `_schema` holds the scripts that set up the
database, and `_setup` and `_doctor` run and check them.
"""

from __future__ import annotations

from agentmem.backends.oracle._backend import OracleBackend
from agentmem.backends.oracle._target import read_target

__all__ = ["OracleBackend", "read_target"]
