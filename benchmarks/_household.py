"""The project's own question sets: memories of a household, and of people in five languages."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from agentmem import Document, Memory, SearchResult
from benchmarks._datasets import Dataset, Query

_DATA = Path(__file__).parent / "data"
_SHOWN = 5
_TIMES = ("valid_from", "valid_until", "expires_at")


@dataclass(frozen=True, slots=True)
class OwnSet:
    """Files of memories, and the file of questions on them, below ``benchmarks/data``."""

    memories: tuple[str, ...]
    questions: str


OWN_SETS = {
    "household": OwnSet(("household/memories.jsonl",), "household/questions.jsonl"),
    "household-times": OwnSet(("household/memories.jsonl",), "household/times.jsonl"),
    "languages": OwnSet(
        ("household/memories.jsonl", "languages/memories.jsonl"), "languages/questions.jsonl"
    ),
}


class SetClock:
    """A clock that shows what it is set to."""

    def __init__(self) -> None:
        self.now = datetime(2025, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the time it is set to."""
        return self.now


@dataclass(frozen=True, slots=True)
class Question:
    """A question, how it is asked, and which memories answer it."""

    id: str
    text: str
    kind: str
    arguments: dict[str, Any]
    asked_at: datetime
    relevant: frozenset[str]
    never: frozenset[str]
    answer: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with what came back, as references to memories."""

    question: Question
    found: list[str]
    result: SearchResult

    @property
    def hit(self) -> bool:
        """Whether a right memory is among the first five."""
        return bool(self.question.relevant.intersection(self.found[:_SHOWN]))

    @property
    def wrong(self) -> list[str]:
        """What must never be returned and was."""
        return sorted(self.question.never.intersection(self.found))


def load_questions(name: str = "household") -> list[Question]:
    """Return the questions of a set of `OWN_SETS`."""
    return [_question(record) for record in _records(OWN_SETS[name].questions)]


def _memories(name: str) -> list[dict[str, Any]]:
    """Return the memories of a set in the order of writing."""
    records = [record for path in OWN_SETS[name].memories for record in _records(path)]
    return sorted(records, key=itemgetter("written_at"))


def _question(record: dict[str, Any]) -> Question:
    arguments: dict[str, Any] = {
        name: record[name] for name in ("user_id", "collections", "where") if name in record
    }
    if "as_of" in record:
        text = record["as_of"]
        moment = datetime.fromisoformat(text)
        arguments["as_of"] = moment.date() if "T" not in text else moment
    return Question(
        id=record["id"],
        text=record["question"],
        kind=record["kind"],
        arguments=arguments,
        asked_at=datetime.fromisoformat(record["asked_at"]),
        relevant=frozenset(record["relevant"]),
        never=frozenset(record.get("not", ())),
        answer=record["answer"],
    )


def as_dataset() -> Dataset:
    """Return texts and questions for measurements that only need texts."""
    documents = [Document(record["content"]) for record in _memories("household")]
    questions = load_questions()
    queries = [Query(q.id, q.text, "default", q.kind, q.relevant) for q in questions]
    return Dataset("household", documents, queries)


def _records(path: str) -> list[dict[str, Any]]:
    with (_DATA / path).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


async def fill(
    memory: Memory, clock: SetClock, console: Console | None = None, *, name: str = "household"
) -> dict[tuple[str, int], str]:
    """Write all memories at their times; return their references by document id and version."""
    references = {}
    records = _memories(name)
    for record in track(records, "writing", console=console, disable=console is None):
        clock.now = datetime.fromisoformat(record["written_at"])
        names = ("key", "title", "source_uri", "user_id", "collection", "metadata")
        fields: dict[str, Any] = {name: record.get(name) for name in names}
        fields |= {name: datetime.fromisoformat(record[name]) for name in _TIMES if name in record}
        written = (await memory.write(Document(record["content"], **fields))).documents[0]
        references[written.id, written.version] = record["ref"]
    return references


async def ask(
    memory: Memory,
    clock: SetClock,
    questions: Sequence[Question],
    references: dict[tuple[str, int], str],
    *,
    explain: bool = False,
) -> list[Answered]:
    """Ask every question at its time."""
    answered = []
    for question in questions:
        clock.now = question.asked_at
        result = await memory.search(question.text, k=10, explain=explain, **question.arguments)
        found = [references[hit.document_id, hit.version] for hit in result.hits]
        answered.append(Answered(question, found, result))
    return answered


def print_by_kind(answered: Sequence[Answered], console: Console) -> None:
    """Print how many questions of each kind are answered in the first five hits."""
    groups: dict[str, list[Answered]] = defaultdict(list)
    for entry in answered:
        groups[entry.question.kind].append(entry)
    table = Table(title=f"{len(answered)} questions, answer among the first {_SHOWN}")
    for header in ("kind", "questions", "answered", "must not appear, but did"):
        table.add_column(header, justify="left" if header == "kind" else "right")
    for kind, entries in sorted(groups.items()):
        table.add_row(*_row(kind, entries))
    table.add_section()
    table.add_row(*_row("all", answered))
    console.print(table)


def _row(kind: str, entries: Sequence[Answered]) -> tuple[str, str, str, str]:
    good, wrong = sum(e.hit for e in entries), sum(bool(e.wrong) for e in entries)
    return kind, str(len(entries)), f"{good} ({good / len(entries):.0%})", str(wrong)
