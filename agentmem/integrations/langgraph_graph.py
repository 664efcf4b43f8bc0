"""A search as a graph of LangGraph: understand, retrieve, budget.

    graph = retrieval_graph(memory, user_id="ada")
    answer = await graph.ainvoke({"query": "How do I get online at the cabin?"})
    print(answer["context"])

The nodes take one search of the memory through its own stages: stage 1, stages 2 to 5, stage 6. So
the result is that of `Memory.search`, and stages of yours run here as well. The graph can be
invoked, streamed and awaited, be a node of another graph, and be a tool of an agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import date, datetime
from typing import Annotated, Any, TypedDict

from agentmem import Filter, Hit, Memory, Plan, SearchResult
from agentmem._filters import encode_metadata, to_json
from agentmem.errors import InvalidQueryError
from agentmem.integrations.home import MemoryHome, Work, as_home, extra
from agentmem.pipeline import Search, need

with extra("langgraph", "langgraph"):
    from langchain_core.runnables import Runnable, RunnableLambda
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
    from langgraph.channels import EphemeralValue, UntrackedValue
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.runtime import get_runtime
    from langgraph.types import Checkpointer

Where = Filter | Mapping[str, Any]
_SCOPE = ("user_id", "collections", "where", "as_of", "k", "token_budget", "diversify_by")
_TOOL = (
    "Search the long-term memory. Ask it before you answer questions about the user, earlier work "
    "or facts that were told before. Returns numbered passages; cite them by their number."
)


class RetrievalContext(TypedDict, total=False):
    """Arguments of a run, for a graph that is given its context by the caller."""

    user_id: str | None
    collections: list[str] | None
    where: Where | None
    as_of: datetime | date | None
    k: int
    token_budget: int | None
    diversify_by: str | None


class RetrievalInput(TypedDict, total=False):
    """What goes into the graph: a query, and what else a search takes.

    Each is asked for once: nothing of it is left for a later run of the same thread.
    """

    query: Annotated[str, EphemeralValue]
    user_id: Annotated[str | None, EphemeralValue]
    collections: Annotated[list[str] | None, EphemeralValue]
    where: Annotated[Where | None, EphemeralValue]
    as_of: Annotated[datetime | date | None, EphemeralValue]
    k: Annotated[int, EphemeralValue]
    token_budget: Annotated[int | None, EphemeralValue]
    diversify_by: Annotated[str | None, EphemeralValue]


class RetrievalOutput(TypedDict, total=False):
    """What comes out of the graph.

    Attributes
    ----------
    context
        The hits as numbered, cited text, ready for a prompt.
    hits
        The hits as plain values, best first; `number` is the one in the context.
    degraded
        What did not work as configured.
    result
        All that the search found. It is not kept in checkpoints.
    """

    context: str
    hits: list[dict[str, Any]]
    degraded: list[str]
    result: Annotated[SearchResult, UntrackedValue]


class RetrievalState(RetrievalInput, RetrievalOutput, total=False):
    """The state between the nodes.

    Attributes
    ----------
    request
        What is asked, after defaults, context and input were put together.
    plan
        What the first node understood, as plain values.
    candidates
        How many candidates the second node found.
    search
        The search on its way. It is not kept in checkpoints; a run that goes on from one makes it
        again.
    """

    request: dict[str, Any]
    plan: dict[str, Any]
    candidates: int
    search: Annotated[Search, UntrackedValue]


RetrievalGraph = CompiledStateGraph[
    RetrievalState, RetrievalContext, RetrievalInput, RetrievalOutput
]


def retrieval_graph(
    memory: Memory | MemoryHome,
    *,
    user_id: str | None = None,
    collections: Iterable[str] | None = None,
    where: Where | None = None,
    as_of: datetime | date | None = None,
    k: int = 8,
    token_budget: int | None = None,
    diversify_by: str | None = None,
    checkpointer: Checkpointer = None,
    name: str = "memory",
) -> RetrievalGraph:
    """Return the graph of a search.

    Arguments given here are defaults. A run's context replaces them (any mapping or object with
    fields of these names), and its input replaces both.

    Parameters
    ----------
    memory
        An open memory, for runs on any event loop and, from other threads, synchronous ones; or a
        `MemoryHome`, for runs from everywhere.
    user_id, collections, where, as_of, k, token_budget, diversify_by
        As in `Memory.search`.
    checkpointer
        As in `StateGraph.compile`.
    name
        Name of the graph.
    """
    home = as_home(memory, None, None)
    defaults = {
        "user_id": user_id,
        "collections": None if collections is None else list(collections),
        "where": where,
        "as_of": as_of,
        "k": k,
        "token_budget": token_budget,
        "diversify_by": diversify_by,
    }
    builder = StateGraph(
        RetrievalState,
        context_schema=RetrievalContext,
        input_schema=RetrievalInput,
        output_schema=RetrievalOutput,
    )
    builder.add_node("understand", _node(home, lambda state: _understand(defaults, state)))
    builder.add_node("retrieve", _node(home, _retrieve))
    builder.add_node("budget", _node(home, _budget))
    builder.add_edge(START, "understand")
    builder.add_edge("understand", "retrieve")
    builder.add_edge("retrieve", "budget")
    builder.add_edge("budget", END)
    return builder.compile(checkpointer=checkpointer, name=name)


def retrieval_tool(
    memory: Memory | MemoryHome,
    *,
    name: str = "search_memory",
    description: str = _TOOL,
    **scope: Any,
) -> BaseTool:
    """Return a tool with which an agent searches the memory.

    A model chooses the query and nothing else; whose memory is searched, and where in it, is up to
    `scope` and to the context of the agent's run. The tool returns the context of the hits, and the
    `SearchResult` as its artifact.

    Parameters
    ----------
    memory
        As for `retrieval_graph`.
    name, description
        What the model sees.
    scope
        Arguments of `retrieval_graph`.
    """
    graph = retrieval_graph(memory, checkpointer=False, name=name, **scope)

    def search(query: str) -> tuple[str, SearchResult]:
        try:
            return _answer(graph.invoke({"query": query}))
        except InvalidQueryError as error:
            raise ToolException(str(error)) from error

    async def asearch(query: str) -> tuple[str, SearchResult]:
        try:
            return _answer(await graph.ainvoke({"query": query}))
        except InvalidQueryError as error:
            raise ToolException(str(error)) from error

    return StructuredTool.from_function(
        search,
        asearch,
        name=name,
        description=description,
        response_format="content_and_artifact",
        handle_tool_error=True,  # a query that cannot be searched is told to the model
    )


Update = dict[str, Any]


def _node(home: MemoryHome, work: Any) -> Runnable[RetrievalState, Update]:
    """Return a node that does its work where the memory lives."""
    return RunnableLambda(
        lambda state: home.run(work(state)),
        afunc=lambda state: home.arun(work(state)),
    )


def _understand(defaults: Mapping[str, Any], state: RetrievalState) -> Work[Update]:
    request = {**defaults, **_of_context(), **_named(state)}
    request["query"] = state.get("query")
    if isinstance(request["where"], Filter):
        request["where"] = to_json(request["where"])

    async def work(memory: Memory) -> Update:
        search = _begin(memory, request)
        await memory.advance(search, "understand")
        plan = need(search.state.plan, "plan")
        return {"request": request, "plan": _plain_plan(plan), "search": search}

    return work


def _retrieve(state: RetrievalState) -> Work[Update]:
    async def work(memory: Memory) -> Update:
        search = state.get("search") or _begin(memory, state["request"])
        await memory.advance(search, "rerank")
        return {"candidates": len(need(search.state.ranked, "ranked")), "search": search}

    return work


def _budget(state: RetrievalState) -> Work[Update]:
    async def work(memory: Memory) -> Update:
        search = state.get("search") or _begin(memory, state["request"])
        await memory.advance(search)
        result = search.result()
        return {
            "context": result.context,
            "hits": [_plain_hit(hit) for hit in result.hits],
            "degraded": list(result.degraded),
            "result": result,
        }

    return work


def _begin(memory: Memory, request: Mapping[str, Any]) -> Search:
    arguments = dict(request)
    return memory.begin(arguments.pop("query"), **arguments)


def _of_context() -> Mapping[str, Any]:
    """Return the arguments that the context of the run holds."""
    context: Any = get_runtime().context
    if isinstance(context, Mapping):
        return _named(context)
    return {name: getattr(context, name) for name in _SCOPE if hasattr(context, name)}


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in _SCOPE if name in values}


def _answer(state: Mapping[str, Any]) -> tuple[str, SearchResult]:
    context: str = state["context"]
    return context or "Nothing was found in the memory.", state["result"]


def _plain_plan(plan: Plan) -> dict[str, Any]:
    """Return a plan in types that every checkpointer stores."""
    plain = {n: list(v) if isinstance(v, tuple) else v for n, v in asdict(plan).items()}
    window = plan.time_window
    if window is not None:
        plain["time_window"] = {
            "start": None if window.start is None else window.start.isoformat(),
            "end": None if window.end is None else window.end.isoformat(),
            "text": window.text,
        }
    return plain


def _plain_hit(hit: Hit) -> dict[str, Any]:
    return {
        "number": hit.citation.number,
        "text": hit.text,
        "title": hit.title,
        "source_uri": hit.source_uri,
        "document_id": hit.document_id,
        "version": hit.version,
        "chunk_index": hit.chunk_index,
        "span": list(hit.span),
        "key": hit.key,
        "user_id": hit.user_id,
        "collection": hit.collection,
        "created_at": hit.created_at.isoformat(),
        "score": hit.score,
        "metadata": encode_metadata(hit.metadata),
    }
