"""Makes question sets from the log of searches (`Settings.search_log`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmem._filters import parse_filter, to_json
from agentmem.errors import InvalidInputError
from agentmem.evaluation._questions import Question

_SCOPE = ("user_id", "collections", "where", "as_of")


@dataclass(frozen=True, slots=True)
class Logged:
    """A search that was made, and how often; `scope` are the fields of a question."""

    query: str
    scope: dict[str, Any]
    times: int


def read_log(path: Path, *, tenant: str | None = None) -> list[Logged]:
    """Return the different searches of a log, the most frequent first.

    Searches are the same when their words are, whatever their case and spacing, in one scope. A
    last line that was cut short is passed over.

    Parameters
    ----------
    path
        The file that `Settings.search_log` named.
    tenant
        Only searches of this tenant; None takes all.

    Raises
    ------
    InvalidInputError
        The file cannot be read or is no log of searches.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"could not read the log {str(path)!r}: {error}") from error
    counts: Counter[str] = Counter()
    first: dict[str, tuple[str, dict[str, Any]]] = {}
    for number, line in enumerate(lines, start=1):
        record = _record(line)
        if record is None:
            if number == len(lines):
                continue  # the process that wrote it was killed
            raise InvalidInputError(
                f"{path.name}, line {number} is no logged search; give the file that the setting "
                "search_log names"
            )
        if tenant is not None and record.get("tenant", tenant) != tenant:
            continue
        scope = {name: record[name] for name in _SCOPE if record.get(name) is not None}
        name = _name(record["query"], scope)
        counts[name] += 1
        first.setdefault(name, (record["query"], scope))
    return [Logged(*first[name], times) for name, times in counts.most_common()]


def not_in(logged: Iterable[Logged], questions: Iterable[Question]) -> list[Logged]:
    """Return the searches that a question set does not have yet."""
    known = {_name(question.query, question.scope()) for question in questions}
    return [entry for entry in logged if _name(entry.query, entry.scope) not in known]


def question_line(
    entry: Logged, relevant: Sequence[str | Mapping[str, Any]], *, draft: bool = False
) -> str:
    """Return a line of a question set; without an answer it says that nothing answers it."""
    record: dict[str, Any] = {"query": entry.query, "relevant": list(relevant), **entry.scope}
    if draft:
        record["draft"] = True
    if not relevant:
        record["unanswerable"] = True
    return json.dumps(record, ensure_ascii=False) + "\n"


def _name(query: str, scope: Mapping[str, Any]) -> str:
    where = parse_filter(scope.get("where"))
    same = {**scope, "where": None if where is None else to_json(where)}
    return json.dumps([" ".join(query.casefold().split()), same], sort_keys=True)


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    good = isinstance(record, dict) and isinstance(record.get("query"), str)
    return record if good else None
