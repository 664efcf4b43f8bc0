"""Runs the set-up scripts against a database, step by step and re-runnably.

A step that was done is left alone. A step that fails stops the run: what came before it stays, and
running again goes on there. Nothing is hidden in a transaction, because DDL commits by itself.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import oracledb

from agentmem.backends.oracle._errors import full_code, store_errors, text_code
from agentmem.backends.oracle._names import simple_name
from agentmem.backends.oracle._schema import Plan, Step, steps
from agentmem.backends.oracle._target import Target
from agentmem.errors import ConfigurationError, StoreError

_VARIABLE = re.compile(r"&(\w+)")
# What says that a thing is there already: another run of the set-up was faster.
_THERE = frozenset({"ORA-00955", "ORA-01920", "ORA-28101"})
_PREFERENCE_THERE = "DRG-10701"


@dataclass(frozen=True, slots=True)
class LogOn:
    """Who runs scripts, and where."""

    user: str
    password: str
    dsn: str
    extra: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StepState:
    """A step with whether it was done; `done` is None for one that is run each time."""

    step: Step
    done: bool | None


def log_on(target: Target, user: str, password: str) -> LogOn:
    """Return the log-on of another user to the database of `target`."""
    return LogOn(user, password, target.dsn, target.extra)


@asynccontextmanager
async def connected(who: LogOn) -> AsyncIterator[oracledb.AsyncConnection]:
    """Lend a connection for scripts."""
    with store_errors(f"log on as {who.user!r}"):
        connection = await oracledb.connect_async(
            user=who.user, password=who.password, dsn=who.dsn, **who.extra
        )
    try:
        yield connection
    finally:
        await connection.close()


async def is_done(connection: oracledb.AsyncConnection, step: Step) -> bool | None:
    """Return whether a step was done, None when it is run each time."""
    if step.done is None:
        return None
    sql, binds = step.done
    try:
        rows = await connection.fetchall(sql, binds)
    except oracledb.Error as error:
        if full_code(error) == "ORA-00942":
            return False  # the dictionary of an option that is not installed yet
        raise
    return bool(rows[0][0])


async def states(
    plan: Plan, admin: oracledb.AsyncConnection | None, owner: oracledb.AsyncConnection | None
) -> list[StepState]:
    """Return every step with whether it was done, as far as the connections can tell."""
    found = []
    for step in steps(plan):
        connection = admin if step.run_as == "admin" else owner
        with store_errors(f"look at step {step.name!r}"):
            done = False if connection is None else await is_done(connection, step)
        found.append(StepState(step, done))
    return found


async def run_step(
    connection: oracledb.AsyncConnection, step: Step, variables: Mapping[str, str]
) -> bool:
    """Run a step unless it was done; return whether it ran.

    Raises
    ------
    StoreError
        A statement failed; the message names step and statement.
    """
    with store_errors(f"look at step {step.name!r}"):
        if await is_done(connection, step):
            return False
    for number, statement in enumerate(step.statements, start=1):
        try:
            await connection.execute(substituted(statement, variables))
        except oracledb.Error as error:
            if full_code(error) in _THERE or text_code(error) == _PREFERENCE_THERE:
                continue
            first = " ".join(statement.split())[:60]
            raise StoreError(
                f"step {step.name!r} stopped at statement {number} ({first}...): "
                f"{full_code(error)}; mend the cause and run the set-up again, which goes on there"
            ) from error
    return True


def substituted(statement: str, variables: Mapping[str, str]) -> str:
    """Put passwords into a statement, which cannot bind them.

    Raises
    ------
    ConfigurationError
        A password is missing, or has a character that cannot be put into a statement.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in variables:
            raise ConfigurationError(f"no {name.replace('_', ' ')} is given")
        if not re.fullmatch(r'[^"\0\n\r]{1,1024}', variables[name]):
            raise ConfigurationError(
                f"the {name.replace('_', ' ')} has a double quote or a line break, which Oracle "
                "does not allow in a password; choose another one"
            )
        return variables[name]

    return _VARIABLE.sub(value, statement)


def script(plan: Plan, *, undo: bool = False) -> str:
    """Return all steps as one script for SQL*Plus or SQLcl, to be read and run by hand."""
    parts = [
        "-- Set-up of agentmem. Run the steps marked 'admin' as an administrator of the pluggable\n"
        f"-- database and the others as {plan.owner}. &owner_password and &app_password are asked "
        "for.\n"
    ]
    todo: Iterable[Step] = reversed(steps(plan)) if undo else steps(plan)
    for step in todo:
        statements = step.undo if undo else step.statements
        if not statements:
            continue
        word = "undo " if undo else ""
        parts.append(f"-- {word}{step.name} [{step.run_as}]: {step.purpose}\n")
        parts.extend(_terminated(statement) for statement in statements)
    return "\n".join(parts)


def _terminated(statement: str) -> str:
    block = re.match(r"(BEGIN|CREATE OR REPLACE (PACKAGE|FUNCTION))", statement)
    return f"{statement}\n/\n" if block else f"{statement};\n"


def make_plan(owner: str, app: str, **choices: Any) -> Plan:
    """Return a plan with checked names."""
    models = tuple(simple_name(name, "a model") for name in choices.pop("models", ()))
    return Plan(
        owner=simple_name(owner, "a schema"),
        app=simple_name(app, "a database user"),
        tablespace=simple_name(choices.pop("tablespace", "users"), "a tablespace"),
        models=models,
        **choices,
    )
