"""The package as a whole: layout, public names, error tree, light import."""

from __future__ import annotations

import subprocess
import sys
import types
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import agentmem
from agentmem import errors

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["backends", "models"])
def test_the_checkout_has_working_links(name: str) -> None:
    link = ROOT / "agentmem" / name
    hint = f"{link} is not a link to ../{name}; clone with core.symlinks=true"
    assert link.is_symlink(), hint
    assert link.resolve() == ROOT / name, hint


@pytest.mark.parametrize("name", ["backends", "models"])
def test_a_bare_folder_name_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ImportError, match=f"agentmem.{name}"):
        __import__(name)


def test_the_distribution_owns_one_name() -> None:
    names = {n for n, dists in packages_distributions().items() if "agentmem" in dists}
    assert names <= {"agentmem", "_agentmem"}


def test_all_public_names_are_there_and_no_others() -> None:
    for name in agentmem.__all__:
        assert getattr(agentmem, name) is not None
    hidden = {"errors", "annotations", "Any", "TYPE_CHECKING"}
    visible = {
        name
        for name, value in vars(agentmem).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert visible - hidden == set(agentmem.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        agentmem.nothing  # noqa: B018 - the access is the test


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    drawn: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        stripped = line.lstrip(" │├└─")
        name = stripped.split()[0] if stripped.endswith(("Error",)) or stripped else ""
        if not name.endswith("Error"):
            continue
        depth = (len(line) - len(stripped) - 4) // 4
        path[depth:] = [name]
        drawn[name] = path[depth - 1] if depth else "Exception"
    real = {
        name: cls.__bases__[0].__name__
        for name, cls in vars(errors).items()
        if isinstance(cls, type) and issubclass(cls, Exception)
    }
    assert drawn == real
    assert real.keys() <= set(agentmem.__all__)


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    heavy = "onnxruntime tokenizers tantivy apsw duckdb pydantic numpy oracledb typer ir_measures"
    program = f"import sys, agentmem; print([m for m in {heavy.split()} if m in sys.modules])"
    assert run(program) == "[]"


def test_it_works_where_the_standard_sqlite3_cannot_load_extensions(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["sqlite3"] = None
import asyncio
from agentmem import Memory
async def main():
    async with Memory({str(tmp_path / "m")!r}) as memory:
        await memory.write("The heron stands in the reeds.")
        result = await memory.search("Where is the heron?")
        print(result.hits[0].text, result.degraded)
asyncio.run(main())
"""
    assert run(program) == "The heron stands in the reeds. ()"
