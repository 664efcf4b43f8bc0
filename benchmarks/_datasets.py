"""Reads evaluation sets: corpus.jsonl and queries.jsonl in one folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentmem import Document


class DataError(Exception):
    """A data set cannot be read."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question with the ids of the documents that answer it."""

    id: str
    text: str
    scope: str
    category: str
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Documents to write and questions to ask, each within its scope."""

    name: str
    documents: list[Document] = field(repr=False)
    queries: list[Query] = field(repr=False)


def load_dataset(
    folder: Path,
    *,
    questions: Path | None = None,
    categories: set[str] | None = None,
    limit: int | None = None,
) -> Dataset:
    """Read a set.

    Parameters
    ----------
    folder
        Holds corpus.jsonl with `id`, `conversation`, `text` and optionally `session`, `turn`,
        `timestamp`, `speaker`; and queries.jsonl with `id`, `conversation`, `question`, `relevant`
        and optionally `category` and `category_name`.
    questions
        Another file of questions than queries.jsonl.
    categories
        Keep only questions of these categories.
    limit
        Keep every n-th question so that at most this many are left.
    """
    documents = [_document(record) for record in _records(folder / "corpus.jsonl")]
    known = {document.key for document in documents}
    queries = []
    for record in _records(questions or folder / "queries.jsonl"):
        relevant = frozenset(name for name in record["relevant"] if name in known)
        category = str(record.get("category", ""))
        if relevant and (categories is None or category in categories):
            queries.append(_query(record, relevant))
    if limit is not None and len(queries) > limit:
        queries = queries[:: -(-len(queries) // limit)]
    if not queries:
        raise DataError(f"{folder} has no question with a known answer; check --categories")
    return Dataset(folder.resolve().name, documents, queries)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)
    except FileNotFoundError:
        raise DataError(f"{path} is missing; --data names a folder with both files") from None


def _document(record: dict[str, Any]) -> Document:
    """Return a document as an agent would write it: a turn of a conversation with its speaker."""
    is_turn = record.get("session") is not None
    text = f"{record['speaker']}: {record['text']}" if is_turn else record["text"]
    names = ("session", "turn", "speaker")
    return Document(
        text,
        key=record["id"],
        collection=record["conversation"],
        metadata={name: record[name] for name in names if record.get(name) is not None},
        valid_from=_moment(record.get("timestamp")),
    )


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _query(record: dict[str, Any], relevant: frozenset[str]) -> Query:
    category = record.get("category_name") or record.get("category") or ""
    return Query(record["id"], record["question"], record["conversation"], str(category), relevant)
