"""Commands over documents: write, search, forget, restore, and looking them up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentmem._cli import _input, _output
from agentmem._cli._console import console, errors
from agentmem._cli._options import (
    AsJson,
    AsOf,
    Collection,
    Collections,
    Ids,
    Tenant,
    Url,
    User,
    Where,
    run,
)
from agentmem._cli._progress import progress_bar
from agentmem.errors import ConfirmationError

if TYPE_CHECKING:
    from agentmem import Memory


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (write, search, forget, restore, get, list_, history, count):
        app.command(name=command.__name__.rstrip("_"))(command)


def write(
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; '-' reads standard input.")
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(help="Text file, .jsonl file or folder of Markdown; several times."),
    ] = None,
    user: User = None,
    collection: Collection = None,
    key: Annotated[str | None, typer.Option(help="Key: the same key again is a version.")] = None,
    title: Annotated[str | None, typer.Option(help="Title.")] = None,
    source: Annotated[str | None, typer.Option(help="Where it comes from.")] = None,
    metadata: Annotated[str | None, typer.Option(help="Metadata as a JSON object.")] = None,
    valid_from: Annotated[str | None, typer.Option(help="True from this time on.")] = None,
    valid_until: Annotated[str | None, typer.Option(help="True until this time.")] = None,
    expires_at: Annotated[str | None, typer.Option(help="Vanishes at this time.")] = None,
    url: Url = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Remember texts, files, JSON lines or a folder of Markdown.

    In a folder each file's path is its key, so that writing the folder again updates it. A line of
    a .jsonl file is an object with 'content' and any field of a document.
    """
    if not texts and not file:
        raise typer.BadParameter("give texts, '-' for standard input, or --file")
    given = list(_input.documents(texts or (), file or ()))
    named: dict[str, Any] = {
        "user_id": user,
        "collection": collection,
        "key": key,
        "title": title,
        "source_uri": source,
        "metadata": _input.json_object(metadata, "--metadata"),
        "valid_from": _input.moment(valid_from, "--valid-from"),
        "valid_until": _input.moment(valid_until, "--valid-until"),
        "expires_at": _input.moment(expires_at, "--expires-at"),
    }

    async def work(memory: Memory) -> Any:
        with progress_bar("writing") as tell:
            return await memory.write(given, on_progress=tell, **named)

    result = run(url, tenant, work)
    if as_json:
        _output.print_json(result)
        return
    for status in ("created", "updated", "unchanged"):
        number = sum(document.status == status for document in result.documents)
        if number:
            console.print(f"{number} {status}")


def search(
    query: Annotated[str, typer.Argument(help="Question or words.")],
    k: Annotated[int, typer.Option("-k", help="Most hits.")] = 8,
    user: User = None,
    collection: Collections = None,
    where: Where = None,
    as_of: AsOf = None,
    token_budget: Annotated[int | None, typer.Option(help="Most tokens of the context.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the stages and the fate of each candidate.")
    ] = False,
    context: Annotated[
        bool, typer.Option("--context", help="Print the cited context alone, for a prompt.")
    ] = False,
    url: Url = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Find what helps to answer a question."""

    async def work(memory: Memory) -> Any:
        return await memory.search(
            query,
            user_id=user,
            collections=collection,
            where=_input.json_object(where, "--where"),
            as_of=_input.moment(as_of, "--as-of"),
            k=k,
            token_budget=token_budget,
            explain=explain,
        )

    result = run(url, tenant, work)
    if as_json:
        _output.print_json(result)
    elif context:
        typer.echo(result.context)
    else:
        _output.print_hits(result)
        if explain:
            _output.print_stages(result)


def forget(
    ids: Annotated[list[str] | None, typer.Argument(help="Document ids.")] = None,
    key: Annotated[str | None, typer.Option(help="Key of a document.")] = None,
    user: User = None,
    collection: Collection = None,
    where: Where = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="All documents of the tenant.")
    ] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove the bytes as well; cannot be undone.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be forgotten.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Forget documents with all their versions.

    Asks when it covers more documents than the setting forget_limit.
    """
    named: dict[str, Any] = {
        "key": key,
        "user_id": user,
        "collection": collection,
        "where": _input.json_object(where, "--where"),
        "everything": everything,
        "purge": purge,
        "dry_run": dry_run,
    }

    async def work(memory: Memory) -> Any:
        try:
            return await memory.forget(ids or None, confirm=yes, **named)
        except ConfirmationError as error:
            if not typer.confirm(f"This forgets {error.documents:,} documents. Go on?", err=True):
                raise typer.Exit(1) from None
            return await memory.forget(ids or None, confirm=True, **named)

    result = run(url, tenant, work)
    if as_json:
        _output.print_json(result)
        return
    word = "would be forgotten" if dry_run else "purged" if purge else "forgotten"
    console.print(f"{result.count} {word}")
    if result.scan is not None:
        found = ", ".join(result.scan.found) or "nothing"
        console.print(f"looked through {result.scan.bytes:,} bytes for remains: found {found}")
    for name in result.missing:
        console.print(f"not found: {name}", markup=False)


def restore(ids: Ids, user: User = None, url: Url = None, tenant: Tenant = None) -> None:
    """Bring forgotten documents back."""
    result = run(url, tenant, lambda memory: memory.restore(ids, user_id=user))
    console.print(f"{len(result.restored)} restored")
    for name in result.missing:
        console.print(f"not found: {name}", markup=False)
    if result.missing:
        raise typer.Exit(1)


def get(
    id: Annotated[str, typer.Argument(help="Document id.")],
    user: User = None,
    url: Url = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Print the newest version of a document."""
    found = run(url, tenant, lambda memory: memory.get(id, user_id=user))
    if found is None:
        errors.print(f"error: there is no document {id!r} for this user", markup=False)
        raise typer.Exit(1)
    if as_json:
        _output.print_json(found)
    else:
        typer.echo(found.content)


def list_(
    user: User = None,
    collection: Collections = None,
    where: Where = None,
    as_of: AsOf = None,
    limit: Annotated[int, typer.Option(help="Documents on a page.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
    url: Url = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """List documents in the order in which they were first written."""

    async def work(memory: Memory) -> Any:
        return await memory.list(
            user_id=user,
            collections=collection,
            where=_input.json_object(where, "--where"),
            as_of=_input.moment(as_of, "--as-of"),
            limit=limit,
            cursor=cursor,
        )

    page = run(url, tenant, work)
    if as_json:
        _output.print_json(page)
        return
    _output.print_documents(page.documents)
    if page.cursor:
        console.print(f"more: --cursor {page.cursor}", markup=False)


def history(
    key: Annotated[str, typer.Argument(help="Key of the document.")],
    user: User = None,
    collection: Collection = None,
    url: Url = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Show every version of a document, oldest first."""
    versions = run(
        url, tenant, lambda memory: memory.history(key, user_id=user, collection=collection)
    )
    if as_json:
        _output.print_json(versions)
    else:
        _output.print_documents(versions)


def count(
    user: User = None,
    collection: Collections = None,
    where: Where = None,
    url: Url = None,
    tenant: Tenant = None,
) -> None:
    """Count documents."""

    async def work(memory: Memory) -> Any:
        return await memory.count(
            user_id=user, collections=collection, where=_input.json_object(where, "--where")
        )

    typer.echo(run(url, tenant, work))
