"""Creates the database, brings an old one up to date and refuses what is not ours."""

from __future__ import annotations

from importlib import resources

import apsw

from agentmem.backends._rules import other_model
from agentmem.backends.base import ModelIdentity
from agentmem.backends.embedded import _former_codes
from agentmem.errors import (
    StoreAccessError,
    StoreCorruptError,
    StoreVersionError,
)

APPLICATION_ID = 0x414D454D  # "AMEM"
_MIGRATIONS = (
    "001_initial.sql",
    "002_receipts.sql",
    "003_staged_chunks.sql",
    "004_small_codes.sql",
)
SCHEMA_VERSION = len(_MIGRATIONS)


def migrate(connection: apsw.Connection) -> None:
    """Create the tables or run the migrations that are missing, inside the open transaction.

    Raises
    ------
    StoreAccessError
        The database belongs to another program.
    StoreVersionError
        The database was made by a newer release.
    """
    version = _known_version(connection)
    _former_codes.offer(connection)
    folder = resources.files(__package__).joinpath("schema")
    for number, name in enumerate(_MIGRATIONS[version:], start=version + 1):
        connection.execute(folder.joinpath(name).read_text(encoding="utf-8"))
        connection.pragma("user_version", number)
    _former_codes.withdraw(connection)
    connection.pragma("application_id", APPLICATION_ID)


def check_schema(connection: apsw.Connection) -> None:
    """Check that a database that must not be changed has this release's tables.

    Raises
    ------
    StoreAccessError
        The database belongs to another program, or has an older schema.
    StoreVersionError
        The database was made by a newer release.
    """
    version = _known_version(connection)
    if version < SCHEMA_VERSION:
        raise StoreAccessError(
            f"the memory has schema version {version} and cannot be brought to {SCHEMA_VERSION} "
            "read-only; open it once where it may be written"
        )


def _known_version(connection: apsw.Connection) -> int:
    application = connection.pragma("application_id")
    version: int = connection.pragma("user_version")
    tables = connection.execute("SELECT COUNT(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and (tables or version):
        raise StoreAccessError(
            "the database in this folder was not made by agentmem; choose another folder"
        )
    if version > SCHEMA_VERSION:
        raise StoreVersionError(
            f"the memory has schema version {version}, this release knows up to {SCHEMA_VERSION}; "
            "upgrade agentmem to open it"
        )
    return version


def check_model(connection: apsw.Connection, model: ModelIdentity) -> None:
    """Store the model's identity in a new memory, or compare it with the stored one.

    Raises
    ------
    ModelMismatchError
        The memory was written with another model.
    """
    stored = stored_model(connection)
    if stored is None:
        connection.executemany("INSERT INTO meta VALUES (?, ?)", describe(model).items())
    elif stored != describe(model):
        raise other_model(
            stored["embedder"], stored["dimensions"], model, "run 'agentmem reembed' to change it"
        )


def describe(model: ModelIdentity) -> dict[str, str]:
    """Return the rows of the meta table that tell which model made the vectors."""
    return {
        "embedder": model.embedder,
        "dimensions": str(model.dimensions),
        "token_dimensions": str(model.token_dimensions or 0),
    }


def stored_model(connection: apsw.Connection) -> dict[str, str] | None:
    """Return these rows as they are stored, None in a new memory.

    Raises
    ------
    StoreCorruptError
        Some of them are missing.
    """
    stored = dict(connection.execute("SELECT name, value FROM meta"))
    if not stored:
        return None
    try:
        return {name: stored[name] for name in ("embedder", "dimensions", "token_dimensions")}
    except KeyError:
        raise StoreCorruptError(
            "the memory does not say which model made it; restore the folder from a backup"
        ) from None


def counter(connection: apsw.Connection, name: str) -> int:
    """Return the value of a counter."""
    value: int = connection.execute("SELECT value FROM counters WHERE name = ?", (name,)).get
    return value


def advance(connection: apsw.Connection, name: str) -> int:
    """Raise a counter by one and return its new value."""
    value: int = connection.execute(
        "UPDATE counters SET value = value + 1 WHERE name = ? RETURNING value", (name,)
    ).get
    return value
