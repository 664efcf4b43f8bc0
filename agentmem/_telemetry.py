"""Tells OpenTelemetry and the log what the memory does: a span for each call and each stage.

Without the package ``opentelemetry-api``, and without a log that wants to know, nothing is done.
Without an SDK behind that package spans are empty. No content is told: names, numbers and kinds of
errors only, unless `Settings.telemetry_content` asks for queries, users and messages.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from agentmem._types import ForgetResult, SearchResult, StageTrace, WriteResult

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span, Tracer

_LOG = logging.getLogger("agentmem.calls")
_NAME = "agentmem"
# Most calls take milliseconds; a long write or repair takes minutes.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)

P = ParamSpec("P")
T = TypeVar("T")
Attributes = dict[str, str | int | float | bool | tuple[str, ...]]


class Telemetry:
    """Watches the calls of one memory.

    Parameters
    ----------
    engine
        Name of the storage engine, part of every span and measurement.
    content
        Whether queries, users and messages of errors may be told.
    tracer, meter
        Where spans and measurements go; None for nowhere.
    heard
        Whether anything listens behind them at this moment.
    """

    def __init__(
        self,
        engine: str,
        *,
        content: bool = False,
        tracer: Tracer | None = None,
        meter: Meter | None = None,
        heard: Callable[[], bool] = lambda: True,
    ) -> None:
        self._engine = engine
        self._content = content
        self._tracer = tracer
        self._instruments = None if meter is None else _Instruments(meter)
        self._heard = heard
        self._listening = False  # as it was when the last call began; asking costs too much

    def awake(self) -> bool:
        """Return whether anybody wants to know about a call that begins now."""
        self._listening = self._tracer is not None and self._heard()
        return self._listening or _LOG.isEnabledFor(logging.DEBUG)

    @contextmanager
    def call(self, operation: str, asked: Mapping[str, object]) -> Iterator[Callable[[Any], None]]:
        """Watch one call; the block hands its result to the function that it gets."""
        facts: Attributes = {"agentmem.operation": operation, "agentmem.engine": self._engine}
        result: list[Any] = []
        start = time.perf_counter()
        kind: str | None = None
        with self._span(f"{_NAME}.{operation}", facts) as span:
            if span is not None and self._content:
                span.set_attributes(_personal(asked))
            try:
                yield result.append
            except BaseException as error:
                kind = type(error).__name__
                raise
            finally:
                seconds = time.perf_counter() - start
                told = describe(result[0]) if result else {}
                if span is not None:
                    span.set_attributes(told)
                self._measure(operation, seconds, kind, result)
                _log(operation, seconds, kind, facts | told)

    def stage(self, name: str) -> AbstractContextManager[Callable[[StageTrace], object]]:
        """Watch one stage of a search; the block hands over its trace."""
        return self._stage(name) if self._listening else _UNWATCHED

    @contextmanager
    def _stage(self, name: str) -> Iterator[Callable[[StageTrace], None]]:
        traces: list[StageTrace] = []
        with self._span(f"{_NAME}.stage.{name}", {"agentmem.stage": name}) as span:
            yield traces.append
            if not traces:
                return
            trace = traces[0]
            if span is not None:
                span.set_attributes(
                    {
                        f"agentmem.{field}": count
                        for field in ("count_in", "count_out")
                        if (count := getattr(trace, field)) is not None
                    }
                )
            if self._instruments is not None:
                seconds = trace.milliseconds / 1000
                self._instruments.stage.record(
                    seconds, {"agentmem.stage": name, "agentmem.engine": self._engine}
                )

    @contextmanager
    def _span(self, name: str, attributes: Attributes) -> Iterator[Span | None]:
        """Open a span; what it says of an error is our kind of it, and the message when allowed."""
        if self._tracer is None:
            yield None
            return
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span if span.is_recording() else None
            except BaseException as error:
                self._fail(span, error)
                raise

    def _fail(self, span: Span, error: BaseException) -> None:
        from opentelemetry.trace import StatusCode

        span.set_attribute("error.type", type(error).__name__)
        span.set_status(StatusCode.ERROR, str(error) if self._content else None)

    def _measure(
        self, operation: str, seconds: float, error: str | None, result: list[Any]
    ) -> None:
        if self._instruments is None:
            return
        labels: Attributes = {"agentmem.operation": operation, "agentmem.engine": self._engine}
        if error is not None:
            labels["error.type"] = error
        self._instruments.duration.record(seconds, labels)
        if result:
            self._instruments.count(result[0], self._engine)


def _unheard(trace: StageTrace) -> None:
    """Tell nobody."""


_UNWATCHED = nullcontext(_unheard)


class _Instruments:
    """The measurements. No label grows with the data: no tenant, user or collection."""

    def __init__(self, meter: Meter) -> None:
        self.duration = meter.create_histogram(
            "agentmem.call.duration",
            "s",
            "Time of a call.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.stage = meter.create_histogram(
            "agentmem.stage.duration",
            "s",
            "Time of a stage of a search.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._hits = meter.create_histogram("agentmem.search.hits", "{hit}", "Hits of a search.")
        self._candidates = meter.create_histogram(
            "agentmem.search.candidates", "{chunk}", "Candidates that a search looked at."
        )
        self._tokens = meter.create_histogram(
            "agentmem.search.tokens", "{token}", "Tokens of a context."
        )
        self._degraded = meter.create_counter(
            "agentmem.search.degraded", "{search}", "Searches that did not work as configured."
        )
        self._documents = meter.create_counter(
            "agentmem.documents", "{document}", "Documents written and forgotten."
        )

    def count(self, result: object, engine: str) -> None:
        """Count what a call has done."""
        labels = {"agentmem.engine": engine}
        if isinstance(result, SearchResult):
            self._hits.record(len(result.hits), labels)
            self._candidates.record(_candidates(result), labels)
            self._tokens.record(result.tokens, labels)
            if result.degraded:
                self._degraded.add(1, labels)
        elif isinstance(result, WriteResult):
            for status in ("created", "updated", "unchanged"):
                if number := getattr(result, status):
                    self._documents.add(number, labels | {"agentmem.status": status})
        elif isinstance(result, ForgetResult) and not result.dry_run:
            status = "purged" if result.purged else "forgotten"
            self._documents.add(len(result.documents), labels | {"agentmem.status": status})


def describe(result: object) -> Attributes:
    """Return what may be told of a result: numbers, and what was degraded."""
    if isinstance(result, SearchResult):
        return {
            "agentmem.hits": len(result.hits),
            "agentmem.candidates": _candidates(result),
            "agentmem.tokens": result.tokens,
            "agentmem.degraded": result.degraded,
        }
    if isinstance(result, WriteResult):
        return {
            "agentmem.documents": len(result.documents),
            "agentmem.created": result.created,
            "agentmem.updated": result.updated,
            "agentmem.unchanged": result.unchanged,
        }
    if isinstance(result, ForgetResult):
        return {
            "agentmem.documents": len(result.documents),
            "agentmem.purged": result.purged,
            "agentmem.dry_run": result.dry_run,
        }
    return {}


def _candidates(result: SearchResult) -> int:
    counts = [s.count_out for s in result.trace.stages if s.name == "candidates"]
    return counts[0] or 0 if counts else 0


def _personal(asked: Mapping[str, object]) -> Attributes:
    """Return the arguments that tell who asks for what."""
    wanted = ("query", "user_id", "collection", "key", "tenant")
    return {f"agentmem.{n}": str(asked[n]) for n in wanted if asked.get(n) is not None}


def _log(operation: str, seconds: float, error: str | None, facts: Attributes) -> None:
    if _LOG.isEnabledFor(logging.DEBUG):
        milliseconds = round(seconds * 1000, 3)
        fields: dict[str, object] = {n.replace(".", "_"): value for n, value in facts.items()}
        fields |= {"agentmem_milliseconds": milliseconds, "agentmem_error": error}
        ending = "" if error is None else f", {error}"
        _LOG.debug("%s: %.1f ms%s", operation, milliseconds, ending, extra=fields)


def find_telemetry(engine: str, *, wanted: bool, content: bool) -> Telemetry:
    """Return what watches a memory: through OpenTelemetry where its API is installed."""
    if not wanted:
        return Telemetry(engine)
    try:
        from opentelemetry import metrics, trace
    except ModuleNotFoundError:
        return Telemetry(engine)
    release = version("agentmem")
    return Telemetry(
        engine,
        content=content,
        tracer=trace.get_tracer(_NAME, release),
        meter=metrics.get_meter(_NAME, release),
        heard=lambda: any(
            not _is_empty(provider())
            for provider in (trace.get_tracer_provider, metrics.get_meter_provider)
        ),
    )


def _is_empty(provider: object) -> bool:
    """Return whether a provider is one that the API itself brings, which does nothing."""
    return type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


class Watched(Protocol):
    """Something with calls that can be watched."""

    @property
    def _telemetry(self) -> Telemetry | None: ...

    @property
    def _tenant(self) -> str: ...


W = TypeVar("W", bound=Watched)


def watched(
    method: Callable[Concatenate[W, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[W, P], Coroutine[Any, Any, T]]:
    """Tell of each call of a method, under its name."""
    operation = method.__name__.rstrip("_")

    @functools.wraps(method)
    async def call(self: W, /, *values: P.args, **named: P.kwargs) -> T:
        telemetry = self._telemetry
        if telemetry is None or not telemetry.awake():
            return await method(self, *values, **named)
        asked = {"tenant": self._tenant, **named}
        if operation == "search" and values:
            asked["query"] = values[0]
        with telemetry.call(operation, asked) as tell:
            result = await method(self, *values, **named)
            tell(result)
            return result

    return call
