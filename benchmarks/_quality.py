"""Retrieval quality of each stage on a set of questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from agentmem import Explanation, Memory, SearchResult, Settings
from benchmarks._datasets import Dataset, Query
from benchmarks._measures import HEADERS, RANKINGS, measure, percentiles
from benchmarks._record import Record
from benchmarks._stores import Store, opened_store

_DEEP = 100
_SHOWN = 10
# The union of two pools of 100: fusion that keeps so many cuts nothing.
_UNCUT = 200

Ranking = list[tuple[str, float | None]]
"""Keys of documents with the score that ordered them, best first."""


@dataclass(slots=True)
class Outcome:
    """Rankings and times of all questions."""

    rankings: dict[str, dict[str, Ranking]] = field(
        default_factory=lambda: {name: {} for name in RANKINGS}
    )
    timings: list[tuple[str, str, float]] = field(default_factory=list)


async def run_quality(
    dataset: Dataset, *, reranker: str, store: Store, out: Path | None, console: Console
) -> Outcome:
    """Write the set into a fresh memory, ask every question and print the tables.

    For another store than the embedded one, the vector rankings of both are compared as well.
    """
    outcome = await _measured(dataset, reranker, store, console)
    if store is Store.STANDIN:
        console.print("Store: the tests' stand-in, which is not Oracle; its times mean nothing.")
    _print_quality(dataset, outcome, console)
    print_timings(outcome.timings, console)
    if store is not Store.EMBEDDED:
        embedded = await _measured(dataset, reranker, Store.EMBEDDED, console)
        _compare(outcome, embedded, console)
    if out is not None:
        _keep(dataset, outcome, reranker, store, out)
        console.print(f"Raw results: {out}")
    return outcome


def _clock() -> datetime:
    """Stand still, so that the same set gets the same ids, which break ties, on every store."""
    return datetime(2026, 1, 1, tzinfo=UTC)


async def _measured(dataset: Dataset, reranker: str, store: Store, console: Console) -> Outcome:
    async with opened_store(store) as place:
        async with Memory(Settings(**place, reranker=reranker), clock=_clock) as memory:
            await _fill(memory, dataset, console)
            # What fusion cuts is not explained; a second view on the same store, which cuts
            # nothing, gives each pool its whole ranking.
            pools = Settings(**place, fused=_UNCUT, reranker="none")
            async with Memory(pools, clock=_clock) as uncut:
                outcome = await _ask(memory, uncut, dataset, console)
            if store is Store.ORACLE:
                await memory.forget(everything=True, purge=True)
    return outcome


def _compare(outcome: Outcome, embedded: Outcome, console: Console) -> None:
    """Print for how many questions the vector pool has the same documents in the same order."""
    name = "vector"
    mine, theirs = outcome.rankings[name], embedded.rankings[name]
    same = sum([k for k, _ in mine[q]] == [k for k, _ in theirs[q]] for q in theirs)
    console.print(f"The vector ranking is that of the embedded store for {same} of {len(theirs)}.")


async def _fill(memory: Memory, dataset: Dataset, console: Console) -> None:
    step = 256
    starts = range(0, len(dataset.documents), step)
    for start in track(starts, f"writing {dataset.name}", console=console):
        await memory.write(dataset.documents[start : start + step])


async def _ask(memory: Memory, uncut: Memory, dataset: Dataset, console: Console) -> Outcome:
    outcome = Outcome()
    keys: dict[str, str] = {}
    for query in track(dataset.queries, "asking", console=console):
        scope = [query.scope]
        shown = await memory.search(query.text, collections=scope, k=_SHOWN)
        outcome.timings += [(query.id, s.name, s.milliseconds) for s in shown.trace.stages]
        outcome.timings.append((query.id, "total", shown.trace.milliseconds))
        for view, rank in ((uncut, _before_reranking), (memory, _after_reranking)):
            deep = await view.search(
                query.text, collections=scope, k=_DEEP, token_budget=10**9, explain=True
            )
            await _learn_keys(keys, memory, deep)
            for name, ranking in rank(deep, keys).items():
                outcome.rankings[name][query.id] = ranking
    return outcome


async def _learn_keys(keys: dict[str, str], memory: Memory, result: SearchResult) -> None:
    """Add the key of each candidate's document to `keys`, by document id."""
    keys.update((hit.document_id, hit.key or "") for hit in result.hits)
    for candidate in result.trace.explanations or ():
        if candidate.document_id not in keys:
            document = await memory.get(candidate.document_id)
            keys[candidate.document_id] = (document.key or "") if document else ""


def _before_reranking(result: SearchResult, keys: Mapping[str, str]) -> dict[str, Ranking]:
    """Return the order of documents in each pool and after fusion."""
    candidates = list(result.trace.explanations or ())
    near = [c for c in candidates if c.scores.vector_rank is not None]
    found = [c for c in candidates if c.scores.lexical_rank is not None]
    near.sort(key=lambda c: c.scores.vector_rank or 0)
    found.sort(key=lambda c: (c.scores.lexical_rank or 0, c.id))
    candidates.sort(key=lambda c: (-c.scores.fusion, c.id))
    return {
        "vector": _documents([(c, c.scores.similarity) for c in near], keys),
        "lexical": _documents([(c, c.scores.lexical_score) for c in found], keys),
        "fused": _documents([(c, c.scores.fusion) for c in candidates], keys),
    }


def _after_reranking(result: SearchResult, keys: Mapping[str, str]) -> dict[str, Ranking]:
    """Return the order of documents of the full pipeline."""
    final = {hit.id: hit.score for hit in result.hits}
    candidates = result.trace.explanations or ()
    return {"full": _documents([(c, final.get(c.id)) for c in candidates], keys)}


def _documents(
    candidates: Sequence[tuple[Explanation, float | None]], keys: Mapping[str, str]
) -> Ranking:
    """Return each document once, where its best chunk stands."""
    best: dict[str, float | None] = {}
    for candidate, score in candidates:
        best.setdefault(keys[candidate.document_id], score)
    return list(best.items())


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
        name: measure(
            relevant,
            {q: [key for key, _ in ranking] for q, ranking in ranked.items() if q in relevant},
        )
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


def _keep(dataset: Dataset, outcome: Outcome, reranker: str, store: Store, out: Path) -> None:
    settings = {"reranker": reranker, "k": _SHOWN, "backend": store.value}
    with Record(out, kind="quality", dataset=dataset.name, settings=settings) as record:
        record.add_rankings(
            (
                query.id,
                query.category,
                name,
                [key for key, _ in rankings[query.id]],
                sorted(query.relevant),
                [score for _, score in rankings[query.id]],
            )
            for name, rankings in outcome.rankings.items()
            for query in dataset.queries
        )
        record.add_timings(outcome.timings)
