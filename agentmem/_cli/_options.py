"""Options that commands share, and the opening of the memory that they work on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agentmem.config import Settings
from agentmem.errors import ConfigurationError

if TYPE_CHECKING:
    from agentmem import Memory


T = TypeVar("T")

Url = Annotated[
    str | None,
    typer.Option(
        help="Folder, local:// or oracle:// URL; AGENTMEM_URL or ./agentmem when not given."
    ),
]
Tenant = Annotated[str | None, typer.Option(help="Tenant; AGENTMEM_TENANT or 'default'.")]
User = Annotated[
    str | None, typer.Option("--user", help="User; without one only shared documents are seen.")
]
Collection = Annotated[str | None, typer.Option(help="Collection.")]
Collections = Annotated[
    list[str] | None, typer.Option("--collection", help="Collection; may be given several times.")
]
Where = Annotated[str | None, typer.Option(help='Filter as JSON: {"kind": {"eq": "note"}}.')]
AsOf = Annotated[str | None, typer.Option(help="Answer as of this time (ISO 8601).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Ids = Annotated[list[str], typer.Argument(help="Document ids.")]


def run(
    url: str | None,
    tenant: str | None,
    work: Callable[[Memory], Awaitable[T]],
    *,
    logged: bool = True,
) -> T:
    """Open the memory, do the work, close it; `logged` as in `quiet`."""
    from agentmem import Memory

    settings = settings_for(url)

    async def opened() -> T:
        async with Memory(settings if logged else quiet(settings), tenant=tenant) as memory:
            return await work(memory)

    return asyncio.run(opened())


def settings_for(url: str | None) -> Settings:
    """Return the settings in force, with the URL of the command line where one was given."""
    given: dict[str, Any] = {} if url is None else {"url": url}
    return Settings(**given)


def quiet(settings: Settings) -> Settings:
    """Return settings with which searches are not logged: measuring is no use of a memory."""
    return settings.model_copy(update={"search_log": None})


@contextmanager
def measuring() -> Iterator[None]:
    """Say which extra is missing when the block imports what measures."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("ir_measures", "matplotlib", "scipy"):
            raise
        raise ConfigurationError(
            "the packages for measuring are not installed; run: pip install 'agentmem[eval]'"
        ) from error
