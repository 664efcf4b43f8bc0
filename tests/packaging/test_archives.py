"""What the wheel and the source archive hold, built from checkouts in several conditions."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import agentmem

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow

LIMIT = 50 * 1000 * 1000
PARTS = ("agentmem", "backends", "models", "tests", "benchmarks", "docs")
FILES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "requirements.lock", "Makefile")
MODEL = {"model.onnx", "model.json", "tokenizer.json", "token_weights.npy", "MODEL_CARD.md"}
Damage = Callable[[Path], None]


def _links_gone(link: Path) -> None:
    link.unlink()


def _links_as_text(link: Path) -> None:
    target = link.readlink()
    link.unlink()
    link.write_text(str(target))


def _checkout(folder: Path) -> Path:
    leave = shutil.ignore_patterns("__pycache__", "results", ".*cache")
    for name in PARTS:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=leave)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder


def _build(source: Path, out: Path, *kinds: str) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(out), source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def _in_wheel(folder: Path) -> set[str]:
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return set(wheel.namelist())


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the source archive and the wheel that is made from it."""
    source = _checkout(tmp_path_factory.mktemp("checkout"))
    return _build(source, tmp_path_factory.mktemp("dist"))


def test_the_wheel_holds_the_library_and_nothing_else(archives: Path) -> None:
    names = _in_wheel(archives)
    assert {name.split("/")[0] for name in names} == {
        "agentmem",
        f"agentmem-{agentmem.__version__}.dist-info",
    }
    on_disk = {
        f"agentmem/{'' if part == 'agentmem' else f'{part}/'}{path.relative_to(ROOT / part)}"
        for part in ("agentmem", "backends", "models")
        for path in (ROOT / part).rglob("*")
        if path.is_file() and not {"__pycache__", "export", "training"} & {*path.parts}
    }
    # Followed or not, a link adds nothing that the real folder does not give.
    assert {name for name in names if name.startswith("agentmem/")} == on_disk
    assert "agentmem/py.typed" in names
    assert {f"agentmem/models/minilm/{name}" for name in MODEL} <= names
    assert any(name.startswith("agentmem/backends/embedded/schema/") for name in names)
    assert not [name for name in names if "export" in name or "training" in name]
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def test_the_archives_stay_small(archives: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in archives.iterdir()}
    assert len(sizes) == 2
    assert max(sizes.values()) < LIMIT, sizes


def test_the_source_archive_holds_no_file_twice(archives: Path) -> None:
    with tarfile.open(next(archives.glob("*.tar.gz"))) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
        assert not [member.name for member in archive.getmembers() if not member.isfile()]
    assert len(names) == len(set(names))
    assert not [name for name in names if name.startswith(("agentmem/backends", "agentmem/models"))]
    assert {"backends/base.py", "models/minilm/model.onnx", "tests/conftest.py"} <= {*names}


@pytest.mark.parametrize("damage", [_links_gone, _links_as_text])
def test_a_checkout_without_links_gives_the_same_wheel(
    archives: Path, damage: Damage, tmp_path: Path
) -> None:
    source = _checkout(tmp_path / "checkout")
    for name in ("backends", "models"):
        damage(source / "agentmem" / name)
    assert _in_wheel(_build(source, tmp_path / "dist", "--wheel")) == _in_wheel(archives)
