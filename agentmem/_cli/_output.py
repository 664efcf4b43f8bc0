"""Prints results: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from agentmem import SearchResult, StoredDocument
from agentmem._cli._console import console

_SHOWN = 160


def to_json(value: Any) -> Any:
    """Return a result in JSON's types; times are ISO 8601."""
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): to_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def print_json(value: Any) -> None:
    """Print a result as JSON."""
    typer.echo(json.dumps(to_json(value), ensure_ascii=False, indent=2))


def print_hits(result: SearchResult) -> None:
    """Print hits with their place, score and source."""
    table = Table(show_lines=False)
    for name in ("#", "score", "text"):
        table.add_column(name)
    table.add_column("document", no_wrap=True)
    table.add_column("when", no_wrap=True)
    for number, hit in enumerate(result.hits, start=1):
        table.add_row(
            str(number),
            f"{hit.score:.3f}",
            escape(_short(hit.text)),
            f"{hit.document_id}:{hit.version}",
            f"{hit.created_at:%Y-%m-%d}",
        )
    console.print(table if result.hits else "Nothing was found.")
    for sentence in result.degraded:
        console.print(f"[yellow]degraded:[/] {escape(sentence)}")


def print_stages(result: SearchResult) -> None:
    """Print the six stages with their times and counts, and the fate of each candidate."""
    table = Table(title="stages")
    for name in ("stage", "runs in", "ms", "in", "out", "details"):
        table.add_column(name)
    for stage in result.trace.stages:
        table.add_row(
            stage.name,
            stage.runs,
            f"{stage.milliseconds:.1f}",
            _count(stage.count_in),
            _count(stage.count_out),
            escape(", ".join(f"{name}={value}" for name, value in stage.details.items())),
        )
    console.print(table)
    fates = Table(title="candidates")
    for name in ("vector", "words", "late", "rerank", "kept", "why", "text"):
        fates.add_column(name)
    for entry in result.trace.explanations or ():
        fates.add_row(
            _count(entry.scores.vector_rank),
            _count(entry.scores.lexical_rank),
            _count(entry.scores.late_rank),
            "" if entry.scores.rerank is None else f"{entry.scores.rerank:.3f}",
            "yes" if entry.kept else "no",
            escape(entry.reason),
            escape(_short(entry.text, 60)),
        )
    console.print(fates)


def print_documents(documents: Sequence[StoredDocument]) -> None:
    """Print documents, one in a row."""
    table = Table()
    table.add_column("id", no_wrap=True)
    for name in ("version", "key", "collection", "user", "when", "text"):
        table.add_column(name)
    for document in documents:
        table.add_row(
            document.id,
            str(document.version),
            escape(document.key or ""),
            escape(document.collection),
            escape(document.user_id or ""),
            f"{document.created_at:%Y-%m-%d %H:%M}",
            escape(_short(document.content)),
        )
    console.print(table if documents else "There are no such documents.")


def print_pairs(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one in a row."""
    table = Table(show_header=False)
    table.add_column("name")
    table.add_column("value")
    for name, value in pairs:
        table.add_row(name, escape("" if value is None else str(value)))
    console.print(table)


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


def _short(text: str, limit: int = _SHOWN) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"
