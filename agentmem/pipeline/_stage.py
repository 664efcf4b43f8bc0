"""What a stage is, and the state that stages share.

A stage names what it needs and what it adds; both are field names of `SearchState`. The runner in
`agentmem.pipeline._run` checks the chain before the first query and times every stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from agentmem._filters import Filter
from agentmem._types import Citation, Explanation, Hit, LeftOut, Plan
from agentmem.backends.base import Candidate, Scope
from agentmem.errors import PipelineError
from agentmem.models.base import Encoding

T = TypeVar("T")
Runs: TypeAlias = Literal["client", "engine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search as the caller asked for it, already validated.

    Times are aware datetimes in UTC; `now` is read from the clock once per search.
    """

    query: str
    tenant: str
    user_id: str | None
    collections: tuple[str, ...] | None
    where: Filter | None
    now: datetime
    as_of: datetime | None
    k: int
    token_budget: int | None
    diversify_by: str | None
    explain: bool


@dataclass(slots=True, kw_only=True)
class SearchState:
    """The blackboard of one search. Stages read what they need and set what they add."""

    request: SearchRequest
    plan: Plan | None = None
    scope: Scope | None = None
    encoding: Encoding | None = None
    candidates: list[Candidate] | None = None
    fused: list[Candidate] | None = None
    ranked: list[Candidate] | None = None
    hits: list[Hit] | None = None
    citations: list[Citation] | None = None
    context: str | None = None
    tokens: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    explanations: list[Explanation] | None = None
    degraded: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    """Numbers that the running stage wants in its trace; the runner empties it between stages."""


@runtime_checkable
class Stage(Protocol):
    """One of the six stages.

    Attributes
    ----------
    name
        Name in the trace, such as ``"fuse"``.
    runs
        Whether the work is done in this process or by the engine.
    needs, adds
        Fields of `SearchState` that must be set before, and that are set after.
    """

    name: str
    runs: Runs
    needs: frozenset[str]
    adds: frozenset[str]

    async def run(self, state: SearchState) -> None:
        """Do the stage's work on `state`."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Return the stage's settings, for printing."""
        ...


def need(value: T | None, field: str) -> T:
    """Return `value`, which a stage declared to need.

    Raises
    ------
    PipelineError
        It is not set: a stage before did not add what it declared.
    """
    if value is None:
        raise PipelineError(f"the search has no {field!r} here; a stage did not set what it adds")
    return value


def count(items: Sequence[object] | None) -> int | None:
    """Return how many items there are, or None when the field is not set."""
    return None if items is None else len(items)
