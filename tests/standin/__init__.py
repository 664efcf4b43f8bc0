"""A stand-in for the database in tests of the Oracle engine.

It is not Oracle and proves nothing of Oracle. It offers the async surface of python-oracledb (pool,
connection, cursor, pipeline) with the strictness of driver and server, and runs the very statements
that the engine sends: translated by their syntax tree to DuckDB. Row-level security, the text
index, packages and unique keys come from the set-up scripts, which it runs as well; a script that
forgets a policy makes tests fail.

`StandIn` is the server; a test puts its `create_pool_async` in the place of the driver's. Foreign
keys are read and not enforced.
"""

from __future__ import annotations

from tests.standin.server import StandIn

__all__ = ["StandIn"]
