"""The graph of a search for LangGraph: the same answers, streamed, kept, nested and as a tool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from agentmem import Document, F, InvalidInputError, Memory, SearchResult, WrongLoopError
from agentmem.integrations.home import MemoryHome
from agentmem.integrations.langgraph_graph import retrieval_graph, retrieval_tool
from agentmem.pipeline import FuseStage, SearchState
from tests.support import SetClock, WordEmbedder

TEXTS = ["tea with milk", "the kettle boils", "milk and sugar", "a cup of tea"]
THREAD: Any = {"configurable": {"thread_id": "1"}}


@pytest.fixture
async def filled(memory: Memory) -> Memory:
    await memory.write([Document(text, metadata={"n": n}) for n, text in enumerate(TEXTS)])
    await memory.write("the owl code of ada", user_id="ada")
    await memory.write("the owl code of bob", user_id="bob", collection="notes")
    return memory


def same(mine: SearchResult, theirs: SearchResult) -> bool:
    """Compare all but the times that stages took."""
    stages = [[(s.name, s.count_in, s.count_out) for s in r.trace.stages] for r in (mine, theirs)]
    return stages[0] == stages[1] and replace(mine, trace=theirs.trace) == theirs


@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"user_id": "ada", "k": 2},
        {"user_id": "bob", "collections": ["notes"]},
        {"where": {"n": {"gte": 2}}},
        {"where": F("n") == 1, "token_budget": 20},
        {"as_of": datetime(2020, 1, 1, tzinfo=UTC)},
        {"diversify_by": "n", "k": 3},
    ],
)
async def test_the_answer_is_that_of_the_memory(filled: Memory, scope: dict[str, Any]) -> None:
    expected = await filled.search("owl code, milk tea", **scope)
    ways: Any = ((scope, {}, {}), ({}, scope, {}), ({}, {}, scope))
    for built, given, context in ways:
        graph = retrieval_graph(filled, **built)
        asked: Any = {"query": "owl code, milk tea", **given}
        made = await graph.ainvoke(asked, context=context)
        assert same(made["result"], expected)
        assert made["context"] == expected.context
        assert [hit["text"] for hit in made["hits"]] == [hit.text for hit in expected.hits]
        assert [hit["number"] for hit in made["hits"]] == [c.number for c in expected.citations]


async def test_input_goes_before_context_and_context_before_defaults(filled: Memory) -> None:
    @dataclass
    class Context:
        user_id: str | None = "bob"
        tone: str = "kind"

    graph = retrieval_graph(filled, user_id="ada", k=1)

    async def found(**more: Any) -> str:
        context = more.pop("context", None)
        asked: Any = {"query": "owl code", **more}
        answer = await graph.ainvoke(asked, context=context)
        text: str = answer["hits"][0]["text"]
        return text

    assert await found() == "the owl code of ada"
    assert await found(context=Context()) == "the owl code of bob"
    assert await found(context=Context(), user_id="ada") == "the owl code of ada"
    assert "owl" not in await found(user_id=None)


async def test_the_nodes_are_streamed(filled: Memory) -> None:
    graph = retrieval_graph(filled)
    updates = [u async for u in graph.astream({"query": "tea"}, stream_mode="updates")]
    assert [list(update) for update in updates] == [["understand"], ["retrieve"], ["budget"]]
    assert updates[0]["understand"]["plan"]["terms"] == ["tea"]
    assert updates[1]["retrieve"]["candidates"] == 4
    assert updates[2]["budget"]["context"].startswith("[1]")


async def test_a_time_expression_is_in_the_plan(filled: Memory, clock: SetClock) -> None:
    graph = retrieval_graph(filled)
    updates = [u async for u in graph.astream({"query": "tea yesterday"}, stream_mode="updates")]
    window = updates[0]["understand"]["plan"]["time_window"]
    assert window["text"] == "yesterday"
    yesterday = (clock.now - timedelta(days=1)).date().isoformat()
    assert window["start"].startswith(yesterday)


async def test_nothing_of_a_run_is_left_for_the_next_one_of_a_thread(filled: Memory) -> None:
    graph = retrieval_graph(filled, checkpointer=InMemorySaver(), k=1)
    hers = await graph.ainvoke({"query": "owl code", "user_id": "ada"}, THREAD)
    assert hers["hits"][0]["text"] == "the owl code of ada"
    nobodys = await graph.ainvoke({"query": "owl code"}, THREAD)
    assert "owl" not in nobodys["context"]
    kept = (await graph.aget_state(THREAD)).values
    assert kept.keys() == {"context", "hits", "degraded", "request", "plan", "candidates"}


@pytest.mark.parametrize("stopped_before", ["retrieve", "budget"])
async def test_a_run_goes_on_from_a_checkpoint(filled: Memory, stopped_before: str) -> None:
    graph = retrieval_graph(filled, checkpointer=InMemorySaver())
    asked: Any = {"query": "owl", "user_id": "ada", "where": F("n").exists(False)}
    await graph.ainvoke(asked, THREAD, interrupt_before=[stopped_before])
    rest = await graph.ainvoke(None, THREAD)
    assert [hit["text"] for hit in rest["hits"]] == ["the owl code of ada"]


async def test_as_a_node_of_another_graph(filled: Memory) -> None:
    class State(TypedDict, total=False):
        query: str
        user_id: str
        context: str

    builder = StateGraph(State)
    builder.add_node("recall", retrieval_graph(filled, k=1))
    builder.add_node("shout", lambda state: {"context": state["context"].upper()})
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "shout")
    builder.add_edge("shout", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    answer = await graph.ainvoke({"query": "owl code", "user_id": "ada"}, THREAD)
    assert "THE OWL CODE OF ADA" in answer["context"]


async def test_as_a_tool_only_the_query_is_the_models(filled: Memory) -> None:
    tool = retrieval_tool(filled, user_id="ada", k=1)
    assert set(tool.args) == {"query"}
    called = {"name": tool.name, "args": {"query": "owl", "user_id": "bob"}, "id": "1"}
    message = await tool.ainvoke({**called, "type": "tool_call"})
    assert "the owl code of ada" in message.content
    assert isinstance(message.artifact, SearchResult)
    nothing = await tool.ainvoke({**called, "type": "tool_call", "args": {"query": "?!"}})
    assert "only punctuation" in nothing.content
    nobody = retrieval_tool(filled, collections=[])
    assert await nobody.ainvoke({"query": "owl"}) == "Nothing was found in the memory."


async def test_a_tool_searches_for_the_user_of_the_agents_run(filled: Memory) -> None:
    @dataclass
    class Who:
        user_id: str

    tool = retrieval_tool(filled, k=1)

    async def model(state: MessagesState) -> dict[str, Any]:
        calls: Any = [
            {"name": tool.name, "args": {"query": "owl code"}, "id": name, "type": "tool_call"}
            for name in ("1", "2")
        ]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    builder = StateGraph(MessagesState, context_schema=Who)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([tool]))
    builder.add_edge(START, "model")
    builder.add_edge("model", "tools")
    graph = builder.compile(checkpointer=InMemorySaver())
    for user in ("ada", "bob"):
        done = await graph.ainvoke(
            {"messages": [HumanMessage("?")]},
            {"configurable": {"thread_id": user}},
            context=Who(user),
        )
        answers = [m.content for m in done["messages"] if isinstance(m, ToolMessage)]
        assert len(answers) == 2
        assert all(f"the owl code of {user}" in answer for answer in answers)


async def test_stages_of_the_callers_run_here_too(tmp_path: Path) -> None:
    class Reversed(FuseStage):
        async def run(self, state: SearchState) -> None:
            await super().run(state)
            state.fused = list(reversed(state.fused or []))

    async with Memory(tmp_path / "m", embedder=WordEmbedder(), reranker="none") as plain:
        await plain.write(TEXTS)
    fuse = Reversed(k=60, limit=100)
    own = Memory(tmp_path / "m", embedder=WordEmbedder(), reranker="none", stages={"fuse": fuse})
    async with own as memory:
        answer = await retrieval_graph(memory).ainvoke({"query": "tea with milk"})
        assert same(answer["result"], await memory.search("tea with milk"))
        assert answer["hits"][-1]["text"] == "tea with milk"


async def test_errors_are_ours(filled: Memory) -> None:
    graph = retrieval_graph(filled)
    for asked in ({"query": "?"}, {}, {"query": "tea", "k": 0}, {"query": "tea", "as_of": "now"}):
        wanted: Any = asked
        with pytest.raises(InvalidInputError):
            await graph.ainvoke(wanted)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[MemoryHome]:
    async with Memory(tmp_path / "m", embedder=WordEmbedder()) as memory:
        await memory.write(TEXTS)
    with MemoryHome(url=tmp_path / "m", embedder=WordEmbedder()) as home:
        yield home


async def test_sync_from_inside_a_running_loop(home: MemoryHome) -> None:
    graph = retrieval_graph(home, k=1)
    assert graph.invoke({"query": "kettle"})["hits"][0]["text"] == "the kettle boils"
    assert len(list(graph.stream({"query": "kettle"}))) == 3
    assert (await graph.ainvoke({"query": "kettle"}))["hits"][0]["text"] == "the kettle boils"
    assert "kettle" in retrieval_tool(home).invoke({"query": "kettle"})


async def test_sync_on_the_memorys_own_loop_is_refused(filled: Memory) -> None:
    graph = retrieval_graph(filled, k=1)
    with pytest.raises(WrongLoopError, match="use the asynchronous method"):
        graph.invoke({"query": "kettle"})
    answer = await asyncio.to_thread(lambda: graph.invoke({"query": "kettle"}))
    assert answer["hits"][0]["text"] == "the kettle boils"
