"""Checks a chain of stages, prints it, and runs a search through it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields

from agentmem._types import SearchResult, StageTrace, Trace
from agentmem.errors import PipelineError
from agentmem.pipeline._stage import SearchRequest, SearchState, Stage, count, need

Watch = Callable[[str], AbstractContextManager[Callable[[StageTrace], object]]]

_FIELDS = frozenset(field.name for field in fields(SearchState))
_RESULT = frozenset({"plan", "hits", "citations", "context"})
# The field that tells how many candidates a search holds at a point of the chain, newest first.
_COUNTED = ("hits", "ranked", "fused", "candidates")


class Pipeline:
    """A chain of stages, checked when it is made.

    Parameters
    ----------
    stages
        In the order in which they run.
    watch
        Context manager around each stage; it gets the stage's name, and gives a function to be
        called with the stage's trace.

    Raises
    ------
    PipelineError
        A stage needs what no stage before it adds, two stages share a name, a name of a field is
        unknown, or the chain does not produce a result.
    """

    def __init__(self, stages: Iterable[Stage], *, watch: Watch | None = None) -> None:
        self._stages = tuple(stages)
        self._watch = watch or _unwatched
        _check(self._stages)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages in order."""
        return self._stages

    def replaced(self, **stages: Stage) -> Pipeline:
        """Return a pipeline in which the stages named are replaced.

        Parameters
        ----------
        **stages
            The new stage under the name of the one that it replaces.

        Raises
        ------
        PipelineError
            There is no stage of that name, or the new chain does not fit together.
        """
        names = [stage.name for stage in self._stages]
        unknown = stages.keys() - set(names)
        if unknown:
            raise PipelineError(
                f"there is no stage {min(unknown)!r} to replace; the stages are {', '.join(names)}"
            )
        chosen = [stages.get(stage.name, stage) for stage in self._stages]
        return Pipeline(chosen, watch=self._watch)

    async def run(self, request: SearchRequest) -> SearchResult:
        """Run one search through all stages."""
        search = self.begin(request)
        await search.advance()
        return search.result()

    def begin(self, request: SearchRequest) -> Search:
        """Return a search that has not passed any stage yet."""
        return Search(self._stages, self._watch, request)

    def __str__(self) -> str:
        """Return a line for each stage: where it runs, what it needs and adds, its settings."""
        return "\n".join(_line(number, stage) for number, stage in enumerate(self._stages, 1))


class Search:
    """One search on its way through the stages. `Pipeline.begin` makes it.

    Attributes
    ----------
    state
        What the stages passed so far have found.
    """

    def __init__(self, stages: Sequence[Stage], watch: Watch, request: SearchRequest) -> None:
        self.state = SearchState(request=request)
        self._stages = stages
        self._watch = watch
        self._traces: list[StageTrace] = []

    async def advance(self, through: str | None = None) -> None:
        """Run the stages up to and with the one called `through`, or all of them.

        Stages that were passed already do not run again. A stage that failed or was cancelled was
        not passed.

        Raises
        ------
        PipelineError
            There is no stage of that name.
        """
        names = [stage.name for stage in self._stages]
        if through is not None and through not in names:
            raise PipelineError(
                f"there is no stage {through!r} to go through; the stages are {', '.join(names)}"
            )
        last = len(names) if through is None else names.index(through) + 1
        for stage in self._stages[len(self._traces) : last]:
            with self._watch(stage.name) as tell:
                trace = await _timed(stage, self.state)
                _check_added(stage, self.state)
                tell(trace)
            self._traces.append(trace)

    def result(self) -> SearchResult:
        """Return what was found.

        Raises
        ------
        PipelineError
            Not all stages were passed.
        """
        state = self.state
        return SearchResult(
            hits=tuple(need(state.hits, "hits")),
            context=need(state.context, "context"),
            citations=tuple(need(state.citations, "citations")),
            tokens=state.tokens,
            left_out=tuple(state.left_out),
            plan=need(state.plan, "plan"),
            trace=Trace(
                stages=tuple(self._traces),
                explanations=None if state.explanations is None else tuple(state.explanations),
            ),
            degraded=tuple(state.degraded),
        )


def _unwatched(name: str) -> AbstractContextManager[Callable[[StageTrace], object]]:
    return nullcontext(_unheard)


def _unheard(trace: StageTrace) -> None:
    """Tell nobody."""


async def _timed(stage: Stage, state: SearchState) -> StageTrace:
    state.details = {}
    count_in = _counted(state)
    start = time.perf_counter()
    await stage.run(state)
    return StageTrace(
        name=stage.name,
        runs=stage.runs,
        milliseconds=(time.perf_counter() - start) * 1000,
        count_in=count_in,
        count_out=_counted(state),
        details=state.details,
    )


def _counted(state: SearchState) -> int | None:
    for name in _COUNTED:
        number = count(getattr(state, name))
        if number is not None:
            return number
    return None


def _check(stages: Sequence[Stage]) -> None:
    known = {"request"}
    names: set[str] = set()
    for stage in stages:
        if stage.name in names:
            raise PipelineError(f"two stages are called {stage.name!r}; names must differ")
        names.add(stage.name)
        strange = (stage.needs | stage.adds) - _FIELDS
        if strange:
            raise PipelineError(
                f"stage {stage.name!r} speaks of {min(strange)!r}, which a search does not have; "
                f"the fields are {', '.join(sorted(_FIELDS))}"
            )
        missing = stage.needs - known
        if missing:
            raise PipelineError(
                f"stage {stage.name!r} needs {', '.join(sorted(missing))}, which no stage before "
                "it adds; put a stage that adds it in front"
            )
        known |= stage.adds
    if not known >= _RESULT:
        lacking = ", ".join(sorted(_RESULT - known))
        raise PipelineError(f"the pipeline ends without {lacking}; add a stage that adds it")


def _check_added(stage: Stage, state: SearchState) -> None:
    for name in stage.adds:
        if getattr(state, name) is None:
            raise PipelineError(f"stage {stage.name!r} declares that it adds {name!r} but did not")


def _line(number: int, stage: Stage) -> str:
    settings = ", ".join(f"{name}={value!r}" for name, value in stage.describe().items())
    flow = f"{', '.join(sorted(stage.needs))} -> {', '.join(sorted(stage.adds))}"
    return f"{number}. {stage.name:<10} [{stage.runs}] {flow}  ({settings})"
