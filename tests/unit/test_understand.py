"""Stage 1: the default plan, synonyms, and the caller's own understanding."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem import ConfigurationError, Memory, Plan
from agentmem.pipeline._stage import SearchRequest, SearchState
from agentmem.pipeline.understand import Understand
from tests.support import START, MakeMemory


def request(query: str, **changes: Any) -> SearchRequest:
    values: dict[str, Any] = {
        "query": query, "tenant": "t", "user_id": None, "collections": None, "where": None,
        "now": START, "as_of": None, "k": 8, "token_budget": None, "diversify_by": None,
        "explain": False,
    }  # fmt: skip
    return SearchRequest(**{**values, **changes})


async def plan(query: str, stage: Understand | None = None, **changes: Any) -> Plan:
    state = SearchState(request=request(query, **changes))
    await (stage or Understand()).run(state)
    assert state.plan is not None
    return state.plan


async def degraded(stage: Understand, query: str = "the heron") -> tuple[Plan, list[str]]:
    state = SearchState(request=request(query))
    await stage.run(state)
    assert state.plan is not None
    return state.plan, state.degraded


async def test_the_default_plan() -> None:
    made = await plan('What did Anna Müller say about "blue paint" and ERR-4711 in May 2023?')
    assert made.phrases == ("blue paint",)
    assert made.codes == ("ERR-4711", "2023")
    assert made.entities == ("Anna Müller", "ERR-4711") or made.entities == ("Anna Müller",)
    assert made.time_window is not None
    assert made.time_window.text == "in May 2023"
    assert {"anna", "muller", "blue", "err4711"} <= set(made.terms)
    assert "what" not in made.terms
    assert made.made_by == "default"


@pytest.mark.parametrize(
    ("query", "intent"),
    [
        ("How do I reset the router?", "procedure"),
        ("When did she move?", "time"),
        ("How long does it take?", "time"),
        ("Which books did we read?", "list"),
        ("How many chickens are there?", "list"),
        ("Is the bus better than the train?", "comparison"),
        ("What does he prefer for breakfast?", "preference"),
        ("Who is the landlord?", "fact"),
        ("heron mill", "other"),
    ],
)
async def test_the_kind_of_question(query: str, intent: str) -> None:
    assert (await plan(query)).intent == intent


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("Where does Maria Silva live?", ("Maria Silva",)),
        ("Did Tom's car break in Porto?", ("Tom's", "Porto")),
        ("what is it", ()),
        ("On Monday with Ida", ("Ida",)),
        ("Is NASA near?", ("NASA",)),
    ],
)
async def test_names(query: str, names: tuple[str, ...]) -> None:
    assert (await plan(query)).entities == names


async def test_synonyms_expand_words_and_phrases() -> None:
    stage = Understand(synonyms={"Car": ["automobile"], "living room": ["lounge", "parlour"]})
    assert (await plan("our CARS", stage)).expansions == ("automobil",)
    assert (await plan("the living rooms", stage)).expansions == ("loung", "parlour")
    assert (await plan("a living, and a room", stage)).expansions == ()


async def test_synonyms_find_more(make_memory: MakeMemory) -> None:
    from agentmem import Settings

    settings = Settings(url="local://:memory:", synonyms={"sofa": ["couch"]})
    from tests.support import WordEmbedder

    async with Memory(settings, embedder=WordEmbedder()) as memory:
        await memory.write(["the couch is red", "the table is blue"])
        result = await memory.search("sofa", explain=True)
        found = [e.text for e in result.trace.explanations or () if e.scores.lexical_rank]
        assert found == ["the couch is red"]


async def test_the_callers_understanding_may_change_fields() -> None:
    async def understand(given: Plan, request: SearchRequest) -> dict[str, Any]:
        return {"text": "heron", "terms": ["Herons flying"], "token_budget": 50}

    made = await plan("the bird", Understand(understand))
    assert (made.text, made.terms, made.token_budget) == ("heron", ("heron", "fli"), 50)
    assert (made.query, made.made_by) == ("the bird", "caller")


async def test_none_keeps_the_default_plan() -> None:
    async def understand(given: Plan, request: SearchRequest) -> None:
        return None

    made, problems = await degraded(Understand(understand))
    assert (made.made_by, problems) == ("default", [])


@pytest.mark.parametrize(
    "answer",
    [
        7, "text", {"unknown": 1}, {"terms": "x"}, {"terms": [1]}, {"text": ""}, {"text": 7},
        {"intent": "x"}, {"token_budget": 0}, {"token_budget": True}, {"diversify_by": "no way!"},
        {"time_window": "may"}, {"query": "other"},
    ],
    ids=repr,
)  # fmt: skip
async def test_a_malformed_answer_is_not_used_and_said(answer: Any) -> None:
    async def understand(given: Plan, request: SearchRequest) -> Any:
        return answer

    made, problems = await degraded(Understand(understand))
    assert made.made_by == "default"
    assert len(problems) == 1
    assert "heron" not in problems[0]


async def test_a_failing_or_late_understanding_is_not_used_and_said() -> None:
    async def fails(given: Plan, request: SearchRequest) -> None:
        raise RuntimeError("secret: the heron")

    async def sleeps(given: Plan, request: SearchRequest) -> None:
        await asyncio.sleep(30)

    made, problems = await degraded(Understand(fails))
    assert made.terms == ("heron",)
    assert problems == ["the caller's understand was not used (RuntimeError)"]
    made, problems = await degraded(Understand(sleeps, timeout=0.01))
    assert made.terms == ("heron",)
    assert "longer than 0.01 s" in problems[0]


async def test_cancelling_is_not_swallowed() -> None:
    started = asyncio.Event()

    async def sleeps(given: Plan, request: SearchRequest) -> None:
        started.set()
        await asyncio.sleep(30)

    task = asyncio.create_task(degraded(Understand(sleeps)))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_fallback_shows_in_the_result(make_memory: MakeMemory) -> None:
    async def fails(given: Plan, request: SearchRequest) -> None:
        raise ValueError

    async with make_memory(understand=fails) as memory:
        await memory.write("the heron")
        result = await memory.search("heron")
        assert len(result.hits) == 1
        assert result.degraded == ("the caller's understand was not used (ValueError)",)


def test_a_blocking_understanding_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="async"):
        Understand(lambda plan, request: None)  # type: ignore[arg-type, return-value]


@given(st.text(max_size=200))
async def test_any_query_gets_a_plan(query: str) -> None:
    made = await plan(query)
    assert all(term and not term.isspace() for term in made.terms)
