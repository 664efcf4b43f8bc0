"""Reads question sets: one JSON object a line, with what a right answer is.

    {"query": "When does the ferry leave?", "relevant": [{"key": "ferry"}], "user_id": "ada"}

A target is a document's id (also as a plain text), its key in a collection, or a quote that the
text of a right hit contains. `grade` says how right it is, 1 when not given. A question that
nothing answers has no target and says so: {"query": "...", "relevant": [], "unanswerable": true}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from agentmem._filters import Filter, parse_filter, to_json
from agentmem.errors import AgentMemError, InvalidInputError

_FIELDS = frozenset(
    {
        *("id", "query", "relevant", "user_id", "collections", "where", "as_of"),
        *("draft", "unanswerable", "note"),
    }
)
_KINDS = ("id", "key", "quote")


@dataclass(frozen=True, slots=True)
class Target:
    """A right answer: exactly one of id, key and quote."""

    id: str | None = None
    key: str | None = None
    quote: str | None = None
    collection: str = "default"
    grade: int = 1

    def __str__(self) -> str:
        """Return the target as a person would say it."""
        name = next(kind for kind in _KINDS if getattr(self, kind) is not None)
        return f"{name} {getattr(self, name)!r}"


@dataclass(frozen=True, slots=True)
class Question:
    """A query, its scope, and what answers it.

    `draft` says that a person has not looked at the targets yet. A question that nothing answers
    has no targets.
    """

    id: str
    query: str
    relevant: tuple[Target, ...]
    user_id: str | None = None
    collections: tuple[str, ...] | None = None
    where: Filter | None = None
    as_of: datetime | date | None = None
    draft: bool = False

    def scope(self) -> dict[str, Any]:
        """Return where to look, as a line of a question set says it."""
        values = {
            "user_id": self.user_id,
            "collections": None if self.collections is None else list(self.collections),
            "where": None if self.where is None else to_json(self.where),
            "as_of": None if self.as_of is None else self.as_of.isoformat(),
        }
        return {name: value for name, value in values.items() if value is not None}


def load_questions(path: Path) -> list[Question]:
    """Read a question set.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or a line is no question; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"could not read questions from {str(path)!r}: {error}") from error
    questions = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            questions.append(_question(line, f"{path.name}, line {number}", str(number)))
    names = [question.id for question in questions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"{path.name}: two questions have the id {twice!r}; rename one")
    if not questions:
        raise InvalidInputError(f"{str(path)!r} holds no question")
    return questions


def _question(line: str, place: str, number: str) -> Question:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{place} is no JSON ({error})") from None
    if not isinstance(record, dict):
        raise InvalidInputError(f"{place} must be an object, not {type(record).__name__}")
    strange = record.keys() - _FIELDS
    if strange:
        known = ", ".join(sorted(_FIELDS))
        raise InvalidInputError(f"{place} has {min(strange)!r}; the fields are {known}")
    query = record.get("query")
    if not isinstance(query, str) or not query.strip():
        raise InvalidInputError(f"{place} needs a 'query' that is a text")
    try:
        return Question(
            id=str(record.get("id", number)),
            query=query,
            relevant=_targets(record, place),
            user_id=_text(record, "user_id", place),
            collections=_collections(record.get("collections"), place),
            where=parse_filter(record.get("where")),
            as_of=_moment(record.get("as_of"), place),
            draft=_flag(record, "draft", place),
        )
    except InvalidInputError:
        raise
    except AgentMemError as error:
        raise InvalidInputError(f"{place}: {error}") from error


def _targets(record: Mapping[str, Any], place: str) -> tuple[Target, ...]:
    relevant = record.get("relevant")
    nothing = _flag(record, "unanswerable", place)
    if not isinstance(relevant, list) or bool(relevant) == nothing:
        raise InvalidInputError(
            f"{place} needs 'relevant', a list of ids or of objects with id, key or quote; where "
            'nothing answers the question, write "relevant": [], "unanswerable": true'
        )
    return tuple(dict.fromkeys(_target(value, place) for value in relevant))


def _flag(record: Mapping[str, Any], name: str, place: str) -> bool:
    value = record.get(name, False)
    if not isinstance(value, bool):
        raise InvalidInputError(f"{place}: {name} must be true or false, not {value!r}")
    return value


def _target(value: object, place: str) -> Target:
    if isinstance(value, str):
        return Target(id=value)
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{place}: a right answer is an id or an object, not {value!r}")
    strange = value.keys() - {*_KINDS, "collection", "grade"}
    given = [kind for kind in _KINDS if kind in value]
    named = value[given[0]] if len(given) == 1 else None
    if strange or not isinstance(named, str) or not named.strip():
        raise InvalidInputError(
            f"{place}: a right answer has one of id, key and quote, and may have collection and "
            f"grade; this one is {json.dumps(value, ensure_ascii=False)}"
        )
    grade = value.get("grade", 1)
    if not isinstance(grade, int) or isinstance(grade, bool) or grade < 1:
        raise InvalidInputError(f"{place}: grade is {grade!r} and must be a whole number from 1 on")
    fields: dict[str, Any] = {given[0]: named, "grade": grade}
    if "collection" in value:
        fields["collection"] = _text(value, "collection", place) or "default"
    return Target(**fields)


def _text(record: Mapping[str, Any], name: str, place: str) -> str | None:
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidInputError(f"{place}: {name} must be a text, not {value!r}")
    return value


def _collections(value: object, place: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidInputError(f"{place}: collections must be a list of names, not {value!r}")
    return tuple(value)


def _moment(value: object, place: str) -> datetime | date | None:
    if value is None:
        return None
    try:
        text = str(value)
        return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(
            f"{place}: as_of is {value!r}; write 2025-06-01 or 2025-06-01T12:30:00+02:00"
        ) from None
