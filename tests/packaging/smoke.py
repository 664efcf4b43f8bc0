"""Tries an installed agentmem with the network forbidden: write, search, forget, import time.

Run with the Python of the environment that agentmem is installed in, outside the checkout.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import tempfile
from importlib.metadata import files, version
from pathlib import Path
from typing import Any


def refuse(*arguments: Any, **options: Any) -> None:
    """Stand in for every use of the network."""
    raise AssertionError("agentmem tried to use the network")


for owner, name in (
    (socket.socket, "connect"),
    (socket.socket, "connect_ex"),
    (socket.socket, "sendto"),
    (socket, "create_connection"),
    (socket, "getaddrinfo"),
):
    setattr(owner, name, refuse)

import agentmem  # noqa: E402 - the network is forbidden first

HEAVY = ("onnxruntime", "tokenizers", "tantivy", "apsw", "duckdb", "pydantic", "oracledb", "typer")
IMPORT_LIMIT = 0.2
TIMED = "import time; t = time.perf_counter(); import agentmem; print(time.perf_counter() - t)"


async def use(place: Path) -> None:
    """Run the whole local product once."""
    async with agentmem.Memory(place) as memory:
        await memory.write(
            [
                "The cabin's wifi password is heron-42.",
                agentmem.Document("Jonas eats no nuts.", metadata={"kind": "health"}),
            ]
        )
        result = await memory.search("How do I get online at the cabin?", k=1, explain=True)
        assert result.hits[0].text.startswith("The cabin"), result
        assert result.context.startswith("[1] ("), result.context
        assert not result.degraded, result.degraded
        assert all(hit.scores.rerank is not None for hit in result.hits), result
        filtered = await memory.search("food", where=agentmem.F("kind") == "health")
        assert [hit.text for hit in filtered.hits] == ["Jonas eats no nuts."], filtered
    async with agentmem.Memory(place) as memory:
        assert await memory.count() == 2
        receipt = await memory.forget(result.hits[0].document_id, purge=True)
        assert receipt.count == 1, receipt
        left = await memory.search("cabin wifi")
        assert [hit.text for hit in left.hits] == ["Jonas eats no nuts."], left
        checked = await memory.verify()
        assert checked.ok, checked
    held = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
    assert b"heron-42" not in held, "what was purged is still in the files"


def check_package() -> None:
    """Check what was installed."""
    loaded = [name for name in HEAVY if name in sys.modules]
    assert not loaded, f"import agentmem loads {loaded}"
    home = Path(agentmem.__file__).resolve().parent
    assert "site-packages" in home.parts, f"{home} is not the installed package"
    assert (home / "py.typed").is_file()
    assert not (home / "models" / "training").exists()
    assert version("agentmem") == agentmem.__version__
    top = {path.parts[0] for path in files("agentmem") or () if path.parts[0] != ".."}
    assert {name for name in top if not name.endswith(".dist-info")} == {"agentmem"}, top


async def ask_for_the_driver() -> None:
    """Without the extra, an Oracle URL says what to install."""
    try:
        await agentmem.Memory("oracle://ada@localhost/service").open()
    except agentmem.ConfigurationError as error:
        said = str(error)
    else:
        said = "nothing"
    assert "agentmem[oracle]" in said, said


def check_command() -> None:
    """Run the command line that was installed."""
    command = Path(sys.executable).parent / "agentmem"
    for arguments in (["--version"], ["--help"], ["oracle", "init", "--help"]):
        done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip(), arguments


def import_seconds() -> float:
    """Return the least time of an import in a fresh process: the least disturbed one."""
    runs = [
        subprocess.run([sys.executable, "-c", TIMED], capture_output=True, check=True).stdout
        for _ in range(5)
    ]
    return min(float(run) for run in runs)


if __name__ == "__main__":
    check_package()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(use(Path(folder) / "memory"))
    asyncio.run(ask_for_the_driver())
    check_command()
    seconds = import_seconds()
    assert seconds <= IMPORT_LIMIT, f"import agentmem took {seconds:.3f} s"
    print(
        f"agentmem {agentmem.__version__} works with Python {sys.version.split()[0]}; "
        f"import {seconds * 1000:.0f} ms"
    )
