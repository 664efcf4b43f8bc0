"""Retrieval quality of each stage on a set of questions."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from agentmem import Explanation, Memory, SearchResult
from benchmarks._datasets import Dataset, Query
from benchmarks._measures import HEADERS, RANKINGS, measure, percentiles
from benchmarks._record import Record

_DEEP = 100
_SHOWN = 10


@dataclass(slots=True)
class Outcome:
    """Rankings and times of all questions."""

    rankings: dict[str, dict[str, list[str]]] = field(
        default_factory=lambda: {name: {} for name in RANKINGS}
    )
    timings: list[tuple[str, str, float]] = field(default_factory=list)


async def run_quality(
    dataset: Dataset, *, reranker: str, out: Path | None, console: Console
) -> Outcome:
    """Write the set into a fresh memory, ask every question and print the tables."""
    with tempfile.TemporaryDirectory(prefix="agentmem-") as folder:
        async with Memory(Path(folder) / "memory", reranker=reranker) as memory:
            await _fill(memory, dataset, console)
            outcome = await _ask(memory, dataset, console)
    _print_quality(dataset, outcome, console)
    print_timings(outcome.timings, console)
    if out is not None:
        _keep(dataset, outcome, reranker, out)
        console.print(f"Raw results: {out}")
    return outcome


async def _fill(memory: Memory, dataset: Dataset, console: Console) -> None:
    step = 256
    starts = range(0, len(dataset.documents), step)
    for start in track(starts, f"writing {dataset.name}", console=console):
        await memory.write(dataset.documents[start : start + step])


async def _ask(memory: Memory, dataset: Dataset, console: Console) -> Outcome:
    outcome = Outcome()
    for query in track(dataset.queries, "asking", console=console):
        deep = await memory.search(
            query.text, collections=[query.scope], k=_DEEP, token_budget=10**9, explain=True
        )
        keys = await _keys(memory, deep)
        for name, ranking in _rankings(deep, keys).items():
            outcome.rankings[name][query.id] = ranking
        shown = await memory.search(query.text, collections=[query.scope], k=_SHOWN)
        outcome.timings += [(query.id, s.name, s.milliseconds) for s in shown.trace.stages]
        outcome.timings.append((query.id, "total", shown.trace.milliseconds))
    return outcome


async def _keys(memory: Memory, result: SearchResult) -> dict[str, str]:
    """Return the key of each candidate's document, by document id."""
    keys = {hit.document_id: hit.key or "" for hit in result.hits}
    for candidate in result.trace.explanations or ():
        if candidate.document_id not in keys:
            document = await memory.get(candidate.document_id)
            keys[candidate.document_id] = (document.key or "") if document else ""
    return keys


def _rankings(result: SearchResult, keys: dict[str, str]) -> dict[str, list[str]]:
    """Return the order of documents after each stage, each where its best chunk stands."""
    candidates = list(result.trace.explanations or ())
    near = [c for c in candidates if c.scores.vector_rank is not None]
    found = [c for c in candidates if c.scores.lexical_rank is not None]
    return {
        "vector": _documents(sorted(near, key=lambda c: c.scores.vector_rank or 0), keys),
        "lexical": _documents(
            sorted(found, key=lambda c: (c.scores.lexical_rank or 0, c.id)), keys
        ),
        "fused": _documents(sorted(candidates, key=lambda c: (-c.scores.fusion, c.id)), keys),
        "full": _documents(candidates, keys),
    }


def _documents(candidates: Sequence[Explanation], keys: dict[str, str]) -> list[str]:
    return list(dict.fromkeys(keys[c.document_id] for c in candidates))


def _print_quality(dataset: Dataset, outcome: Outcome, console: Console) -> None:
    table = Table(title=f"{dataset.name}: {len(dataset.queries)} questions")
    table.add_column("ranking")
    for header in HEADERS:
        table.add_column(header, justify="right")
    for name, values in scores(dataset.queries, outcome).items():
        table.add_row(name, *(f"{value:.3f}" for value in values))
    console.print(table)
    groups = defaultdict(list)
    for query in dataset.queries:
        groups[query.category].append(query)
    if len(groups) > 1:
        _print_categories(groups, outcome, console)


def _print_categories(groups: dict[str, list[Query]], outcome: Outcome, console: Console) -> None:
    table = Table(title="full pipeline by category")
    table.add_column("category")
    table.add_column("questions", justify="right")
    for header in HEADERS:
        table.add_column(header, justify="right")
    for category, queries in sorted(groups.items()):
        values = scores(queries, outcome)["full"]
        table.add_row(category, str(len(queries)), *(f"{value:.3f}" for value in values))
    console.print(table)


def scores(queries: Sequence[Query], outcome: Outcome) -> dict[str, tuple[float, ...]]:
    """Return the measures of each ranking over `queries`."""
    relevant = {query.id: query.relevant for query in queries}
    return {
        name: measure(relevant, {q: r for q, r in ranked.items() if q in relevant})
        for name, ranked in outcome.rankings.items()
    }


def print_timings(timings: Sequence[tuple[str, str, float]], console: Console) -> None:
    """Print median, 95th percentile and share of each stage."""
    by_stage = defaultdict(list)
    for _, stage, milliseconds in timings:
        by_stage[stage].append(milliseconds)
    whole = sum(by_stage["total"])
    table = Table(title=f"search, k={_SHOWN}, all six stages, milliseconds")
    for header in ("stage", "p50", "p95", "share"):
        table.add_column(header, justify="left" if header == "stage" else "right")
    for stage, values in by_stage.items():
        median, high = percentiles(values)
        share = "" if stage == "total" else f"{sum(values) / whole:.0%}"
        table.add_row(stage, f"{median:.2f}", f"{high:.2f}", share)
    console.print(table)


def _keep(dataset: Dataset, outcome: Outcome, reranker: str, out: Path) -> None:
    settings = {"reranker": reranker, "k": _SHOWN}
    with Record(out, kind="quality", dataset=dataset.name, settings=settings) as record:
        record.add_rankings(
            (q.id, q.category, name, ranked[q.id], sorted(q.relevant))
            for name, ranked in outcome.rankings.items()
            for q in dataset.queries
        )
        record.add_timings(outcome.timings)
