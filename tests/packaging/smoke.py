"""Tries an installed agentmem with sockets forbidden: write, search, forget, import, reopen."""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any


def refuse(*arguments: Any, **options: Any) -> None:
    """Stand in for every connection."""
    raise AssertionError("agentmem tried to use the network")


for owner, name in (
    (socket.socket, "connect"),
    (socket.socket, "connect_ex"),
    (socket, "create_connection"),
    (socket, "getaddrinfo"),
):
    setattr(owner, name, refuse)

import agentmem  # noqa: E402 - the network is forbidden first

HEAVY = ("onnxruntime", "tokenizers", "tantivy", "apsw", "duckdb", "pydantic", "oracledb", "typer")


async def main() -> None:
    """Run the whole local product once."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "memory"
        async with agentmem.Memory(place) as memory:
            await memory.write(["The cabin's wifi password is heron-42.", "Jonas eats no nuts."])
            result = await memory.search("How do I get online at the cabin?", k=1)
            assert result.hits[0].text.startswith("The cabin"), result
            assert result.context.startswith("[1] ("), result.context
            assert not result.degraded, result.degraded
        async with agentmem.Memory(place) as memory:
            assert await memory.count() == 2
            receipt = await memory.forget(result.hits[0].document_id, purge=True)
            assert receipt.count == 1
            assert (await memory.search("cabin wifi")).hits[0].text == "Jonas eats no nuts."
            assert (await memory.verify()).ok


loaded = [name for name in HEAVY if name in sys.modules]
assert not loaded, f"import agentmem loads {loaded}"
home = Path(agentmem.__file__).resolve().parent
assert "site-packages" in home.parts, f"{home} is not the installed package"
assert (home / "py.typed").is_file()
assert not (home / "models" / "export").exists()
asyncio.run(main())
print(f"agentmem {agentmem.__version__} works with Python {sys.version.split()[0]}")
