"""The command that serves a memory to agents over the Model Context Protocol."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from agentmem._cli._options import Collection, Tenant, Url, User, settings_for
from agentmem.config import secret
from agentmem.errors import ConfigurationError


def add_commands(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(mcp)


def mcp(
    user: User = None,
    collection: Collection = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP instead of standard input.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address for HTTP.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port for HTTP.", min=1, max=65535)] = 8321,
    url: Url = None,
    tenant: Tenant = None,
) -> None:
    """Serve the memory to agents (Model Context Protocol).

    The user is fixed here: no tool lets a model choose another one. With --http on an address that
    others can reach, set AGENTMEM_MCP_TOKEN; clients send it as a bearer token.
    """
    try:
        with _collector_paused():
            from agentmem.integrations.mcp_server import check_binding, http_app, make_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise ConfigurationError(
            "the protocol's package is not installed; run: pip install 'agentmem[mcp]'"
        ) from error
    server = make_server(settings_for(url), tenant=tenant, user_id=user, collection=collection)
    if not http:
        server.run("stdio")
        return
    token = secret("MCP_TOKEN")
    check_binding(host, token)
    import uvicorn

    uvicorn.run(http_app(server, host=host, token=token), host=host, port=port, log_level="warning")


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Import without looking for garbage: the protocol's types are many, and all of them stay.

    A quarter of the time to the handshake is saved.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


alone = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
"""The command by itself."""
add_commands(alone)
