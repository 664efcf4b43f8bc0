"""Stage 1: what is asked.

A plan is made by rules, without a model and without I/O. A caller's async callable, typically one
call of a fast model, may change it; when that fails or is late, the default plan stands and the
result says so.
"""

from __future__ import annotations

import asyncio
import inspect
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, TypeAlias, get_args

from agentmem._terms import analyze, fold, has_terms, query_terms
from agentmem._types import Intent, Plan, TimePreference, TimeWindow
from agentmem.errors import ConfigurationError, InvalidQueryError
from agentmem.pipeline._diversity import check_diversify
from agentmem.pipeline._stage import Runs, SearchRequest, SearchState
from agentmem.pipeline.understand._features import (
    find_codes,
    find_entities,
    find_intent,
    find_phrases,
)
from agentmem.pipeline.understand._preference import find_preference
from agentmem.pipeline.understand._times import find_window

Understanding: TypeAlias = Callable[
    [Plan, SearchRequest], Awaitable[Plan | Mapping[str, Any] | None]
]
Synonyms: TypeAlias = Mapping[str, Sequence[str]]

MAX_QUERY_BYTES = 1 << 20
# Beyond this many characters the rules run in a thread: they take about a millisecond for 1,000.
_LONG = 2_000
_TEXTS = frozenset({"terms", "expansions", "phrases", "codes", "entities"})
_FIELDS = frozenset(field.name for field in fields(Plan)) - {"query", "made_by"}


class Understand:
    """Makes the plan of a search.

    Parameters
    ----------
    understand
        Async callable of the caller; gets the default plan and the request, returns a plan, a
        mapping of the fields to change, or None. Words for `terms` and `expansions` are turned into
        index form here.
    timeout
        Seconds that it may take.
    synonyms
        Words or phrases, and what else they are called; each adds the other names to a query that
        holds the word.

    Raises
    ------
    ConfigurationError
        `understand` is not async.
    """

    name = "understand"
    runs: Runs = "client"
    needs = frozenset({"request"})
    adds = frozenset({"plan"})

    def __init__(
        self,
        understand: Understanding | None = None,
        *,
        timeout: float = 2.0,
        synonyms: Synonyms | None = None,
    ) -> None:
        if understand is not None and not _is_async(understand):
            raise ConfigurationError(
                "understand must be an async callable (async def); a blocking one would hold up "
                "every other search"
            )
        self._understand = understand
        self._timeout = timeout
        self._synonyms = [
            (tuple(analyze(word)), tuple(t for name in names for t in query_terms(name)))
            for word, names in (synonyms or {}).items()
        ]

    async def run(self, state: SearchState) -> None:
        """Set `state.plan`."""
        if len(state.request.query) > _LONG:
            plan = await asyncio.to_thread(self._default_plan, state.request)
        else:
            plan = self._default_plan(state.request)
        if self._understand is not None:
            plan = await self._ask(self._understand, plan, state)
        state.plan = plan
        state.details.update(
            terms=len(plan.terms), expansions=len(plan.expansions), intent=plan.intent
        )

    def describe(self) -> Mapping[str, Any]:
        """Return the settings."""
        return {"understand": self._understand is not None, "synonyms": len(self._synonyms)}

    def _default_plan(self, request: SearchRequest) -> Plan:
        query = request.query
        terms = query_terms(query)
        return Plan(
            query=query,
            text=unicodedata.normalize("NFC", query).strip(),
            terms=terms,
            phrases=find_phrases(query),
            codes=find_codes(query),
            entities=find_entities(query),
            expansions=self._expansions(query, terms),
            intent=find_intent(query),
            time_window=find_window(query, request.now),
            time_preference=find_preference(query),
            token_budget=request.token_budget,
            diversify_by=request.diversify_by,
        )

    def _expansions(self, query: str, terms: Sequence[str]) -> tuple[str, ...]:
        if not self._synonyms:
            return ()
        text = f" {' '.join(analyze(query))} "
        added = (
            name
            for word, names in self._synonyms
            if word and f" {' '.join(word)} " in text
            for name in names
        )
        return tuple(name for name in dict.fromkeys(added) if name not in terms)

    async def _ask(self, understand: Understanding, plan: Plan, state: SearchState) -> Plan:
        try:
            async with asyncio.timeout(self._timeout):
                answer = await understand(plan, state.request)
            return _merged(plan, answer)
        except TimeoutError:
            problem = f"it took longer than {self._timeout:g} s"
        except Exception as error:  # whatever the caller's code raises, the search goes on
            problem = (
                f"{type(error).__name__}: {error}" if _is_ours(error) else type(error).__name__
            )
        state.degraded.append(f"the caller's understand was not used ({problem})")
        return plan


class _MalformedAnswerError(Exception):
    """The caller's understand returned something that is no plan."""


def _is_ours(error: Exception) -> bool:
    return isinstance(error, _MalformedAnswerError)


def _is_async(function: object) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004 - the method itself is looked at
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _merged(plan: Plan, answer: object) -> Plan:
    if answer is None:
        return plan
    if isinstance(answer, Plan):
        changes = {
            name: getattr(answer, name)
            for name in _FIELDS
            if getattr(answer, name) != getattr(plan, name)
        }
    elif isinstance(answer, Mapping):
        changes = dict(answer)
    else:
        raise _MalformedAnswerError(f"it returned a {type(answer).__name__}")
    checked = {name: _checked(name, value) for name, value in changes.items()}
    return replace(plan, **checked, made_by="caller")


def _checked(name: str, value: Any) -> Any:
    if name not in _FIELDS:
        raise _MalformedAnswerError(f"a plan has no field {name!r}")
    if name in _TEXTS:
        return _texts(name, value)
    good = {
        "text": isinstance(value, str) and bool(value.strip()),
        "intent": value in get_args(Intent),
        "time_window": value is None or _is_window(value),
        "time_preference": value is None or value in get_args(TimePreference),
        "token_budget": value is None or (type(value) is int and value > 0),
        "diversify_by": value is None or isinstance(value, str),
    }[name]
    if not good:
        raise _MalformedAnswerError(f"{name} cannot be {type(value).__name__} of that value")
    return check_diversify(value) if name == "diversify_by" else value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _MalformedAnswerError(f"{name} must be a list of texts")
    if not all(isinstance(text, str) for text in value):
        raise _MalformedAnswerError(f"{name} must hold texts only")
    if name in ("terms", "expansions"):
        return tuple(dict.fromkeys(term for text in value for term in query_terms(text)))
    return tuple(value)


def _is_window(value: object) -> bool:
    return isinstance(value, TimeWindow) and all(
        moment is None or (isinstance(moment, datetime) and moment.utcoffset() is not None)
        for moment in (value.start, value.end)
    )


def check_query(query: object) -> str:
    """Return `query` when it can be searched for.

    NUL and lone surrogates, which no text holds on purpose, become spaces.

    Raises
    ------
    InvalidQueryError
        It is no str, is too long, or holds nothing to search for.
    """
    if not isinstance(query, str):
        raise InvalidQueryError(f"a query must be a str, not {type(query).__name__}")
    cleaned = query.encode("utf-8", "replace").decode("utf-8") if not query.isascii() else query
    cleaned = cleaned.replace("\0", " ")
    if len(cleaned.encode("utf-8")) > MAX_QUERY_BYTES:
        raise InvalidQueryError(
            f"the query has more than {MAX_QUERY_BYTES:,} bytes; ask with the part that matters"
        )
    if not has_terms(cleaned):
        shown = "empty" if not fold(cleaned).strip() else "only punctuation"
        raise InvalidQueryError(f"the query is {shown}; there is nothing to search for")
    return cleaned
