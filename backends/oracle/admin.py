"""What an administrator does with a database: set it up, check it. The command line calls this."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, get_args

import oracledb

from agentmem.backends.oracle._connection import Transaction
from agentmem.backends.oracle._doctor import Check, Doctor
from agentmem.backends.oracle._errors import store_errors
from agentmem.backends.oracle._meta import Lexer, Meta, VectorIndex
from agentmem.backends.oracle._names import simple_name
from agentmem.backends.oracle._pools import prepare_session
from agentmem.backends.oracle._schema import Plan, Step, steps
from agentmem.backends.oracle._setup import (
    LogOn,
    StepState,
    connected,
    log_on,
    make_plan,
    run_step,
    script,
    states,
)
from agentmem.backends.oracle._target import Target
from agentmem.backends.oracle._values import Bind, blob_bind
from agentmem.errors import ConfigurationError

_MODELS = "SELECT COUNT(*) FROM user_mining_models m WHERE m.model_name = :name"
_DROP_MODEL = "BEGIN DBMS_VECTOR.DROP_ONNX_MODEL(model_name => :name, force => TRUE); END;"
_LOAD_MODEL = (
    "BEGIN DBMS_VECTOR.LOAD_ONNX_MODEL(model_name => :name, model_data => :data, "
    "metadata => JSON(:meta)); END;"
)

__all__ = [
    "Check", "LogOn", "Plan", "SetUp", "Step", "StepState", "examine", "load_model", "log_on",
    "make_meta", "make_plan", "script", "steps",
]  # fmt: skip


def make_meta(
    embedder: str,
    dimensions: int,
    token_dimensions: int | None,
    *,
    vector_index: str = "none",
    lexer: str = "terms",
) -> Meta:
    """Return checked choices for the tables.

    Raises
    ------
    ConfigurationError
        There is no such index or lexer.
    """
    for name, value, known in (
        ("vector index", vector_index, get_args(VectorIndex)),
        ("lexer", lexer, get_args(Lexer)),
    ):
        if value not in known:
            raise ConfigurationError(f"there is no {name} {value!r}; choose {', '.join(known)}")
    rows: dict[str, Any] = {"vector_index": vector_index, "lexer": lexer}
    return Meta(embedder=embedder, dimensions=dimensions, token_dimensions=token_dimensions, **rows)


class SetUp:
    """Runs a plan.

    Parameters
    ----------
    plan
        What is to be set up.
    admin, owner
        Who makes the users, and who owns the tables. Without an administrator the users must exist.
    passwords
        ``owner_password`` and ``app_password`` of the users that are made.
    """

    def __init__(
        self, plan: Plan, admin: LogOn | None, owner: LogOn, passwords: Mapping[str, str]
    ) -> None:
        self._plan = plan
        self._admin = admin
        self._owner = owner
        self._passwords = passwords

    async def states(self) -> list[StepState]:
        """Return every step with whether it was done.

        Before the owner exists, its steps cannot have been done.
        """
        async with AsyncExitStack() as stack:
            admin = owner = None
            if self._admin is not None:
                admin = await stack.enter_async_context(connected(self._admin))
            if admin is None or await self._owner_exists(admin):
                owner = await stack.enter_async_context(connected(self._owner))
            return await states(self._plan, admin, owner)

    async def run(self) -> AsyncIterator[str]:
        """Run what was not done, and yield the name of each step when it is finished."""
        todo = steps(self._plan)
        if self._admin is not None:
            async with connected(self._admin) as connection:
                for step in todo:
                    if step.run_as == "admin":
                        await run_step(connection, step, self._passwords)
                        yield step.name
        async with connected(self._owner) as connection:
            for step in todo:
                if step.run_as == "owner":
                    await run_step(connection, step, self._passwords)
                    yield step.name

    async def _owner_exists(self, admin: oracledb.AsyncConnection) -> bool:
        found = steps(self._plan)[0].done
        if found is None:  # pragma: no cover - the first step makes the owner
            return True
        with store_errors("look for the owner"):
            rows = await admin.fetchall(*found)
        return bool(rows[0][0])


async def load_model(owner: LogOn, name: str, graph: bytes, metadata: Mapping[str, Any]) -> None:
    """Load an ONNX graph into the owner's schema, in the place of an older one of that name.

    Parameters
    ----------
    owner
        Log-on of the schema's owner, who needs CREATE MINING MODEL.
    name
        Name of the model in the database.
    graph, metadata
        The file's bytes, and what the database must be told about its inputs and outputs.
    """
    async with connected(owner) as connection:
        work = Transaction(connection)
        binds: dict[str, Bind] = {"name": simple_name(name, "a model").upper()}
        with store_errors(f"load the model {name!r}"):
            if (await work.fetch(_MODELS, binds))[0][0]:
                await work.execute(_DROP_MODEL, binds)
            binds |= {"data": blob_bind(graph), "meta": json.dumps(dict(metadata))}
            await work.execute(_LOAD_MODEL, binds)


async def examine(target: Target, rerank_model: str | None = None) -> list[Check]:
    """Check a database that was set up, as the application user sees it."""
    who = LogOn(target.user, target.password, target.dsn, target.extra)
    async with connected(who) as connection:
        with store_errors("check the database"):
            await prepare_session(connection, target)
        model = None if rerank_model is None else simple_name(rerank_model, "a model")
        return await Doctor(connection, target.owner, model).run()
