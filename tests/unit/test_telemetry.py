"""What OpenTelemetry and the log are told, and what they are not."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import context, metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from agentmem import Memory, Settings
from agentmem._telemetry import Telemetry, find_telemetry
from agentmem.errors import InvalidQueryError, StoreError
from tests.support import WordEmbedder

STAGES = ("understand", "scope", "candidates", "fuse", "rerank", "budget")
SECRET = "xylophone"


class Listener:
    """An SDK that keeps what it is told."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    def telemetry(self, *, content: bool = False) -> Telemetry:
        return Telemetry(
            "embedded",
            content=content,
            tracer=self.tracers.get_tracer("agentmem"),
            meter=self.meters.get_meter("agentmem"),
        )

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def close(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


def memory_with(monkeypatch: pytest.MonkeyPatch, telemetry: Telemetry, **settings: Any) -> Memory:
    monkeypatch.setattr("agentmem._build.find_telemetry", lambda *_, **__: telemetry)
    return Memory(Settings(url="local://:memory:", **settings), embedder=WordEmbedder())


async def test_a_span_for_each_call_and_stage(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory_with(monkeypatch, listener.telemetry()) as memory:
        with listener.tracers.get_tracer("app").start_as_current_span("turn") as turn:
            await memory.write(["tide", "moon"])
            result = await memory.search("tide", k=1)
            await memory.forget(everything=True)
    spans = listener.spans()
    assert spans.keys() == {
        "turn",
        "agentmem.write",
        "agentmem.search",
        "agentmem.forget",
        *(f"agentmem.stage.{name}" for name in STAGES),
    }
    search = spans["agentmem.search"]
    assert search.parent is not None
    assert search.parent.span_id == turn.get_span_context().span_id
    for name in STAGES:
        parent = spans[f"agentmem.stage.{name}"].parent
        assert parent is not None
        assert parent.span_id == search.context.span_id
    told = dict(search.attributes or {})
    assert told == {
        "agentmem.operation": "search",
        "agentmem.engine": "embedded",
        "agentmem.hits": 1,
        "agentmem.candidates": 2,
        "agentmem.tokens": result.tokens,
        "agentmem.degraded": (),
    }
    assert dict(spans["agentmem.write"].attributes or {})["agentmem.created"] == 2
    assert dict(spans["agentmem.stage.rerank"].attributes or {})["agentmem.count_out"] == 2
    assert dict(spans["agentmem.forget"].attributes or {})["agentmem.documents"] == 2


async def test_every_method_that_does_something_is_watched() -> None:
    unwatched = {"open", "close", "begin", "now"}
    methods = {
        name: method
        for kind in Memory.__mro__
        for name, method in vars(kind).items()
        if not name.startswith("_") and callable(method)
    }
    assert {n for n, m in methods.items() if not hasattr(m, "__wrapped__")} == unwatched
    assert len(methods) > 15


async def test_measurements(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    async with memory_with(monkeypatch, listener.telemetry()) as memory:
        await memory.write(["tide", "moon"], user_id="ada", collection="c")
        await memory.search("tide", user_id="ada")
        await memory.forget(everything=True, purge=True)
        with pytest.raises(InvalidQueryError):
            await memory.search(" ")
    points = listener.points()
    calls = {
        (p.attributes["agentmem.operation"], p.attributes.get("error.type")): p.count
        for p in points["agentmem.call.duration"]
    }
    assert calls == {
        ("write", None): 1,
        ("search", None): 1,
        ("forget", None): 1,
        ("search", "InvalidQueryError"): 1,
    }
    assert {p.attributes["agentmem.stage"] for p in points["agentmem.stage.duration"]} == set(
        STAGES
    )
    assert points["agentmem.search.candidates"][0].sum == 2
    assert points["agentmem.search.tokens"][0].sum > 0
    written = {p.attributes["agentmem.status"]: p.value for p in points["agentmem.documents"]}
    assert written == {"created": 2, "purged": 2}
    labels = {key for found in points.values() for p in found for key in p.attributes}
    assert labels == {
        "agentmem.operation",
        "agentmem.engine",
        "agentmem.stage",
        "agentmem.status",
        "error.type",
    }


@pytest.mark.parametrize("content", [False, True])
async def test_content_is_told_only_when_asked_for(
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    content: bool,
) -> None:
    caplog.set_level(logging.DEBUG, "agentmem")
    telemetry = listener.telemetry(content=content)
    async with memory_with(monkeypatch, telemetry) as memory:
        await memory.write(SECRET, user_id=SECRET, key=SECRET, metadata={"a": SECRET})
        await memory.search(SECRET, user_id=SECRET, collections=[SECRET], where={"a": SECRET})
        await memory.history(SECRET, user_id=SECRET)
        with pytest.raises(InvalidQueryError):
            await memory.write(SECRET, user_id=SECRET) and await memory.search("", user_id=SECRET)
        with pytest.raises(StoreError):
            await memory_fails(memory, monkeypatch)
    told = " ".join(span.to_json() for span in listener.exporter.get_finished_spans())
    assert (SECRET in told) is content
    assert "agentmem.search" in told
    assert SECRET not in str(listener.points())
    records = " ".join(str(vars(record)) for record in caplog.records)
    assert SECRET not in records
    assert "search: " in records


async def memory_fails(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> Any:
        raise StoreError(f"could not read {SECRET}")

    monkeypatch.setattr(memory._open_parts().backend, "candidates", broken)
    await memory.search("x")


async def test_an_error_marks_its_spans(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory_with(monkeypatch, listener.telemetry()) as memory:
        with pytest.raises(StoreError):
            await memory_fails(memory, monkeypatch)
    for name in ("agentmem.search", "agentmem.stage.candidates"):
        span = listener.spans()[name]
        assert span.status.status_code is StatusCode.ERROR
        assert dict(span.attributes or {})["error.type"] == "StoreError"
        assert span.events == ()
    assert context.get_current() == context.Context()


async def test_the_log_is_told_of_each_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agentmem.calls")
    settings = Settings(url="local://:memory:", telemetry=False)
    async with Memory(settings, embedder=WordEmbedder()) as memory:
        await memory.write("tide")
        await memory.search("tide")
    write, search = (vars(r) for r in caplog.records if r.name == "agentmem.calls")
    assert write["agentmem_created"] == 1
    assert search["agentmem_hits"] == 1
    assert search["agentmem_milliseconds"] > 0
    assert search["agentmem_engine"] == "embedded"
    assert search["message"].startswith("search: ")


def test_it_is_awake_when_somebody_listens(listener: Listener, monkeypatch: Any) -> None:
    assert not find_telemetry("embedded", wanted=True, content=False).awake()
    for module, provider in ((trace, "get_tracer_provider"), (metrics, "get_meter_provider")):
        with monkeypatch.context() as patch:
            made = listener.tracers if module is trace else listener.meters
            patch.setattr(module, provider, lambda made=made: made)
            assert find_telemetry("embedded", wanted=True, content=False).awake()
            assert not find_telemetry("embedded", wanted=False, content=True).awake()


def test_without_the_package_nothing_is_told_and_nothing_breaks() -> None:
    code = """
import asyncio, sys
sys.modules["opentelemetry"] = None
from agentmem import Memory
from tests.support import WordEmbedder

async def main():
    async with Memory("local://:memory:", embedder=WordEmbedder()) as memory:
        await memory.write("tide")
        print(len((await memory.search("tide")).hits), memory._telemetry.awake())

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]


def test_importing_and_opening_load_no_sdk() -> None:
    code = (
        "import sys, agentmem; from agentmem import Memory; "
        "print(any('opentelemetry' in name for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert trace.get_tracer_provider() is not None
