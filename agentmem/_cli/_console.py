"""Where the commands print: results to standard output, everything else to standard error."""

from __future__ import annotations

from rich.console import Console

console = Console()
errors = Console(stderr=True)
