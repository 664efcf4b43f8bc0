"""Commands that look after a memory: numbers, checks, receipts, settings."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentmem._cli import _output
from agentmem._cli._console import console
from agentmem._cli._options import AsJson, Tenant, Url, run, settings_for
from agentmem._cli._progress import progress_bar
from agentmem.config import Settings

if TYPE_CHECKING:
    from agentmem import Memory


receipts = typer.Typer(help="Show the log of what was forgotten, or check it.")


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (stats, verify, compact, reembed, config):
        app.command()(command)
    app.add_typer(receipts, name="receipts")


def stats(url: Url = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Show what the tenant holds and how the memory is set up."""
    found = run(url, tenant, lambda memory: memory.stats())
    if as_json:
        _output.print_json(found)
    else:
        _output.print_pairs(_output.to_json(found).items())


def verify(
    repair: Annotated[
        bool, typer.Option("--repair", help="Make anew what is derived: index, vectors, codes.")
    ] = False,
    url: Url = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Check the store; exits with 1 when a fault is left."""
    result = run(url, tenant, lambda memory: memory.verify(repair=repair))
    if as_json:
        _output.print_json(result)
    elif not result.findings:
        console.print("[green]no fault[/]")
    else:
        for finding in result.findings:
            state = "repaired" if finding.repaired else "fault"
            text = f"{state}: {finding.kind} {finding.subject}: {finding.message}"
            console.print(text, markup=False, soft_wrap=True)
    if any(not finding.repaired for finding in result.findings):
        raise typer.Exit(1)


def compact(url: Url = None, tenant: Tenant = None) -> None:
    """Give back space that forgotten and superseded data no longer need."""
    run(url, tenant, lambda memory: memory.compact())
    console.print("compacted")


def reembed(url: Url = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Embed everything again with the configured model, for all tenants of the folder.

    Needed after a change of the model (AGENTMEM_EMBEDDER, or embedder in agentmem.toml). Until this
    is complete the memory stays usable with the former model; run it again when it was cut short.
    On Oracle, set up another schema with the new model and use 'agentmem copy'.
    """
    from agentmem import Memory

    async def work() -> str:
        memory = Memory(settings_for(url), tenant=tenant)
        with progress_bar("embedding") as tell:
            await memory.open(reembed=True, on_progress=tell)
        try:
            return (await memory.stats()).embedder
        finally:
            await memory.close()

    embedder = asyncio.run(work())
    if as_json:
        _output.print_json({"embedder": embedder})
    else:
        console.print(f"the memory is embedded by {embedder}", soft_wrap=True)


@receipts.command("list")
def list_receipts(url: Url = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Show what was forgotten and when, oldest first. Receipts hold no content."""
    entries = run(url, tenant, lambda memory: memory.receipts())
    if as_json:
        _output.print_json(entries)
    else:
        _output.print_pairs(
            (f"{e.number} {e.at:%Y-%m-%d %H:%M}", f"{e.action} {len(e.ids)} {e.hash}")
            for e in entries
        )


@receipts.command("verify")
def verify_receipts(url: Url = None, tenant: Tenant = None) -> None:
    """Check that no receipt was changed or taken away; exits with 1 when one was.

    Keep the last hash elsewhere: who can write the store can write a whole new chain.
    """

    async def work(memory: Memory) -> Any:
        return await memory.receipts(), await memory.verify()

    entries, found = run(url, tenant, work)
    broken = [finding for finding in found.findings if finding.kind == "receipt"]
    for finding in broken:
        text = f"broken at {finding.subject}: {finding.message}"
        console.print(text, markup=False, soft_wrap=True)
    if broken:
        raise typer.Exit(1)
    last = f"; the last hash is {entries[-1].hash}" if entries else ""
    console.print(f"the chain of {len(entries)} receipts is whole{last}", soft_wrap=True)


def config(as_json: AsJson = False) -> None:
    """Show the settings in force, with secrets hidden."""
    from agentmem.config import without_password

    values = Settings().model_dump(mode="json")
    values["url"] = without_password(values["url"])
    if as_json:
        _output.print_json(values)
    else:
        _output.print_pairs(values.items())
