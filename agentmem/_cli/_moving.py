"""Commands that move documents: export, import, copy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentmem import MoveResult
from agentmem._cli import _input, _output
from agentmem._cli._console import console
from agentmem._cli._options import AsJson, Collection, Collections, Tenant, Url, User, Where, run
from agentmem._cli._progress import progress_bar
from agentmem.config import Settings
from agentmem.errors import InvalidInputError

if TYPE_CHECKING:
    from agentmem import Memory


PathArgument = Annotated[Path, typer.Argument(help="File; .parquet, .jsonl or .ndjson.")]
OnlyUser = Annotated[
    str | None, typer.Option("--user", help="Only what this user owns; everything when not given.")
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (export, import_, copy):
        app.command(name=command.__name__.rstrip("_"))(command)


def export(
    path: PathArgument,
    user: OnlyUser = None,
    collection: Collections = None,
    where: Where = None,
    vectors: Annotated[
        bool, typer.Option(help="Write vectors and token codes too; a larger file, a fast import.")
    ] = True,
    url: Url = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Write documents with all versions and times to a file."""

    async def work(memory: Memory) -> MoveResult:
        with progress_bar("exporting") as tell:
            return await memory.export(
                path,
                user_id=user,
                collections=collection,
                where=_input.json_object(where, "--where"),
                vectors=vectors,
                on_progress=tell,
            )

    result = run(url, tenant, work)
    if as_json:
        _output.print_json(result)
    else:
        console.print(f"{result.documents} documents, {result.versions} versions in {path}")


def import_(
    path: Annotated[
        Path, typer.Argument(help="File; .parquet, .jsonl, .ndjson, or .csv with --map.")
    ],
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="FIELD=COLUMN for a table of somebody else's: content=body, key=id, "
            "metadata.author=author; several times.",
        ),
    ] = None,
    user: User = None,
    collection: Collection = None,
    url: Url = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Bring in what export has written, or with --map the rows of any table.

    Can be run again after it was cut short.
    """
    columns = dict(_pair(text) for text in mapping or ())

    async def work(memory: Memory) -> Any:
        with progress_bar("importing") as tell:
            if columns:
                return await memory.import_table(
                    path, columns, user_id=user, collection=collection, on_progress=tell
                )
            return await memory.import_(path, on_progress=tell)

    result = run(url, tenant, work)
    if as_json:
        _output.print_json(result)
    elif isinstance(result, MoveResult):
        console.print(_sentence(result))
    else:
        console.print(f"{result.created} created of {len(result.documents)}")


def copy(
    source: Annotated[str, typer.Argument(help="URL or folder of the source.")],
    destination: Annotated[str, typer.Argument(help="URL or folder of the destination.")],
    user: OnlyUser = None,
    collection: Collections = None,
    where: Where = None,
    tenant: Tenant = None,
    to_tenant: Annotated[
        str | None, typer.Option(help="Tenant of the destination; the same when not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy documents from one memory into another, and compare both.

    Can be run again after it was cut short. Exits with 1 when something is missing or different.
    """
    from agentmem import Memory

    async def work() -> MoveResult:
        async with (
            Memory(Settings(url=source), tenant=tenant) as mine,
            Memory(Settings(url=destination), tenant=to_tenant or tenant) as theirs,
        ):
            with progress_bar("copying") as tell:
                return await mine.copy_to(
                    theirs,
                    user_id=user,
                    collections=collection,
                    where=_input.json_object(where, "--where"),
                    on_progress=tell,
                )

    result = asyncio.run(work())
    comparison = result.comparison
    if as_json:
        _output.print_json(result)
    else:
        console.print(_sentence(result))
        if comparison is not None:
            _output.print_pairs(_output.to_json(comparison).items())
    if comparison is not None and not comparison.ok:
        raise typer.Exit(1)


def _pair(text: str) -> tuple[str, str]:
    field, sign, column = text.partition("=")
    if not sign or not field or not column:
        raise InvalidInputError(f"--map {text!r} must be FIELD=COLUMN, such as content=body")
    return field, column


def _sentence(result: MoveResult) -> str:
    return (
        f"{result.stored} documents stored, {result.present} were there, "
        f"{result.embedded} versions embedded again"
    )
