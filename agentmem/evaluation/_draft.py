"""Reads the log of searches, from which a question set can be drafted (`Settings.search_log`)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmem.errors import InvalidInputError

_SCOPE = ("user_id", "collections", "where", "as_of")


@dataclass(frozen=True, slots=True)
class Logged:
    """A search that was made, and how often; `scope` are the fields of a question."""

    query: str
    scope: dict[str, Any]
    times: int


def read_log(path: Path) -> list[Logged]:
    """Return the different searches of a log, the most frequent first.

    Searches are the same when their words are, whatever their case and spacing, in one scope. A
    last line that was cut short is passed over.

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
        scope = {name: record[name] for name in _SCOPE if record.get(name) is not None}
        name = json.dumps([" ".join(record["query"].casefold().split()), scope], sort_keys=True)
        counts[name] += 1
        first.setdefault(name, (record["query"], scope))
    return [Logged(*first[name], times) for name, times in counts.most_common()]


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    good = isinstance(record, dict) and isinstance(record.get("query"), str)
    return record if good else None
