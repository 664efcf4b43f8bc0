"""What a commit of the text index takes is given back."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from agentmem.backends.embedded import _allocator
from agentmem.config import allocator_is_chosen

ROOT = Path(__file__).resolve().parents[2]
_COMMITS = """
import asyncio, sys
from agentmem import Memory, Settings
from tests.support import WordEmbedder
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
async def main(folder, tuned):
    large = bytes(20 << 20)  # once it is freed, glibc keeps what is smaller
    del large
    settings = Settings(url=folder, tune_allocator=tuned)
    async with Memory(settings, embedder=WordEmbedder()) as memory:
        for number in range(46):
            await memory.write(f"tide {number}")
            await memory.search("tide", k=1)
            if number == 5:
                before = resident()
        print(resident() - before)
asyncio.run(main(sys.argv[1], sys.argv[2] == "tuned"))
"""


def grown_by(folder: Path, how: str) -> int:
    """Return by how many KiB a process grows in 40 commits."""
    return int(
        subprocess.run(
            [sys.executable, "-c", _COMMITS, str(folder), how],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_commits_leave_no_memory_behind(tmp_path: Path) -> None:
    # Each kept commit would be about 14 MB in one of about a dozen places.
    assert grown_by(tmp_path / "tuned", "tuned") < 10_000
    assert grown_by(tmp_path / "not", "not tuned") > 30_000


def test_the_last_commit_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(_allocator, "_mallopt", lambda *call: calls.append(call))
    low, high, trim = (-3, 128 << 10), (-3, 32 << 20), (-1, 64 << 20)
    with _allocator.large_blocks_given_back():
        with _allocator.large_blocks_given_back():
            assert calls == [low, low]
        assert calls == [low, low]
    assert calls == [low, low, high, trim]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_MMAP_THRESHOLD_", "131072"),
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("GLIBC_TUNABLES", "glibc.malloc.arena_max=2:glibc.malloc.trim_threshold=131072"),
    ],
)
def test_the_environment_is_left_alone(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")
    assert not allocator_is_chosen()
    monkeypatch.setenv(name, value)
    assert allocator_is_chosen()
