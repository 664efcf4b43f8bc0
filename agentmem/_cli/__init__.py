"""The command line, ``agentmem``. Each group of commands has a module of its own.

Exit codes: 0 when all is well, 1 when something was found or went wrong, 2 for a wrong call.
"""

from __future__ import annotations

from agentmem._cli._app import main

__all__ = ["main"]
