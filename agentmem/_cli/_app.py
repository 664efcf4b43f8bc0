"""Puts the commands together."""

from __future__ import annotations

import typer

from agentmem import __version__
from agentmem._cli._eval import app as evaluation
from agentmem._cli._mcp import add_commands as mcp
from agentmem._cli._memory import add_commands as documents
from agentmem._cli._moving import add_commands as moving
from agentmem._cli._oracle import app as oracle
from agentmem._cli._upkeep import add_commands as upkeep

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="A memory for AI agents: write, search, forget.",
)
documents(app)
moving(app)
mcp(app)
upkeep(app)
app.add_typer(evaluation, name="eval")
app.add_typer(oracle, name="oracle")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Write, search and forget, from the command line."""
