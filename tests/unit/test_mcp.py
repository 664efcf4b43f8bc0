"""The memory as a server of the Model Context Protocol, asked by the SDK's own client."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from agentmem import ConfigurationError, Memory
from agentmem.integrations.mcp_server import check_binding, http_app, make_server
from tests.support import WordEmbedder


@asynccontextmanager
async def ada(tmp_path: Path) -> AsyncIterator[Client]:
    """Lend a client of Ada's server; Eve has a secret in the same memory."""
    place = tmp_path / "memory"
    async with Memory(place, embedder=WordEmbedder()) as memory:
        await memory.write("the owl code of eve is 4711", user_id="eve")
        await memory.write("the office opens at nine")
    server = make_server(user_id="ada", make_memory=lambda: Memory(place, embedder=WordEmbedder()))
    async with Client(server) as made:
        yield made


async def call(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    return result.structured_content


async def test_write_search_get_list_forget(tmp_path: Path) -> None:
    async with ada(tmp_path) as client:
        written = await call(
            client, "write", content="the kettle is blue", metadata={"kind": "fact"}
        )
        assert written["status"] == "created"
        found = await call(client, "search", query="kettle", k=1)
        assert found["hits"][0]["text"] == "the kettle is blue"
        assert found["context"].startswith("[1] (")
        only = await call(client, "search", query="kettle", where={"kind": {"eq": "fact"}})
        assert len(only["hits"]) == 1
        entry = await call(client, "get", id=written["id"])
        assert entry["metadata"] == {"kind": "fact"}
        listed = await call(client, "list")
        assert {d["content"] for d in listed["documents"]} == {
            "the kettle is blue", "the office opens at nine",
        }  # fmt: skip
        read = await client.read_resource(f"agentmem://documents/{written['id']}")
        assert read.contents[0].text == "the kettle is blue"  # type: ignore[union-attr]  # is text
        gone = await call(client, "forget", ids=[written["id"], "nothing"], purge=True)
        assert gone == {"forgotten": [written["id"]], "missing": ["nothing"]}


async def test_no_tool_reaches_another_user(tmp_path: Path) -> None:
    async with ada(tmp_path) as client:
        tools = (await client.list_tools()).tools
        for tool in tools:
            assert not {"user", "user_id", "tenant"} & tool.input_schema["properties"].keys()
        found = await call(
            client, "search", query="owl code 4711", where={"user_id": {"eq": "eve"}}
        )
        assert found["hits"] == []


async def test_tools_say_what_they_do(tmp_path: Path) -> None:
    async with ada(tmp_path) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"write", "search", "forget", "get", "list"}
        for name, tool in tools.items():
            assert tool.description
            assert tool.output_schema
            assert tool.annotations
            assert tool.annotations.read_only_hint is (name in ("search", "get", "list"))
            assert bool(tool.annotations.destructive_hint) is (name == "forget")
            for parameter in tool.input_schema["properties"].values():
                assert parameter["description"], (name, parameter)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("search", {"query": "  "}, "query"),
        ("search", {"query": "x", "where": {"a": {"bad": 1}}}, "bad"),
        ("write", {"content": " "}, "nothing to remember"),
        ("get", {"id": "nothing"}, "there is no document"),
    ],
)
async def test_errors_reach_the_model(
    tmp_path: Path, name: str, arguments: dict[str, Any], said: str
) -> None:
    async with ada(tmp_path) as client:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert said in result.content[0].text  # type: ignore[union-attr]  # is text


async def test_a_memory_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    server = make_server(make_memory=lambda: Memory(tmp_path / "file", embedder=WordEmbedder()))
    async with Client(server) as client:
        result = await client.call_tool("list", {})
        assert result.is_error
        assert "it is a file" in result.content[0].text  # type: ignore[union-attr]  # is text


async def test_the_command_over_standard_input(tmp_path: Path) -> None:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "agentmem", "mcp", "--user", "ada", "--url", str(tmp_path / "m")],
    )
    start = time.perf_counter()
    async with Client(parameters) as client:
        tools = (await client.list_tools()).tools
        print(f"\nhandshake and list of tools: {time.perf_counter() - start:.2f} s")
        assert len(tools) == 5
        await call(client, "write", content="tea with milk")
        found = await call(client, "search", query="tea")
        assert found["hits"][0]["text"] == "tea with milk"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.org", "::"])
def test_others_are_served_with_a_token_only(host: str) -> None:
    with pytest.raises(ConfigurationError, match="AGENTMEM_MCP_TOKEN"):
        check_binding(host, None)
    check_binding(host, "token")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_is_served_without(host: str) -> None:
    check_binding(host, None)


@pytest.mark.parametrize(
    ("header", "status"), [(None, 401), (b"Bearer wrong", 401), (b"Bearer s3cret", 200)]
)
async def test_the_token_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, header: bytes | None, status: int
) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    server = make_server(make_memory=lambda: Memory("local://:memory:", embedder=WordEmbedder()))
    monkeypatch.setattr(type(server), "streamable_http_app", lambda self, **named: answer)
    app = http_app(server, host="0.0.0.0", token="s3cret")
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if header is None else [(b"authorization", header)]
    await app({"type": "http", "headers": headers}, None, send)
    assert sent[0]["status"] == status
