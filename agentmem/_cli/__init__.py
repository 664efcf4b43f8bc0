"""The command line, ``agentmem``. Each group of commands has a module of its own.

Exit codes: 0 when all is well, 1 when something was found or went wrong, 2 for a wrong call.
"""

from __future__ import annotations

import sys

from agentmem.errors import AgentMemError

__all__ = ["main"]


def main() -> None:
    """Run the command line; our errors are one line."""
    try:
        if sys.argv[1:2] == ["mcp"]:
            # A client waits for the handshake: this command does without all the others.
            from agentmem._cli._mcp import alone

            alone(sys.argv[2:], prog_name="agentmem mcp")
        else:
            from agentmem._cli._app import app

            app()
    except AgentMemError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
