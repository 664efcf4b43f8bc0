"""The fixtures that guard every test do what they say."""

from __future__ import annotations

import asyncio
import os
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.conftest import _leftovers


def test_a_connection_is_refused_and_remembered(no_network: list[str]) -> None:
    with pytest.raises(OSError, match="forbid the network"):
        socket.socket()
    with pytest.raises(OSError, match="forbid the network"):
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with pytest.raises(OSError, match="forbid the network"):
        socket.getaddrinfo("localhost", 80)
    with pytest.raises(OSError, match="forbid the network"):
        urllib.request.urlopen("http://localhost:9")
    assert len(no_network) == 4
    no_network.clear()


async def test_an_event_loop_cannot_connect(no_network: list[str]) -> None:
    with pytest.raises(OSError, match="forbid the network"):
        await asyncio.open_connection("127.0.0.1", 9)
    assert no_network
    no_network.clear()


def test_local_pairs_and_event_loops_work() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.send(b"x")
        assert right.recv(1) == b"x"
    assert asyncio.run(asyncio.sleep(0, "done")) == "done"


def test_an_open_file_counts_as_left_behind(tmp_path: Path) -> None:
    assert _leftovers(tmp_path) == []
    with (tmp_path / "file").open("w"):
        found = _leftovers(tmp_path)
    assert found == ([str(tmp_path / "file")] if Path("/proc/self/fd").is_dir() else [])
    assert _leftovers(tmp_path) == []


def test_no_setting_comes_from_outside() -> None:
    assert not [name for name in os.environ if name.upper().startswith("AGENTMEM_")]
