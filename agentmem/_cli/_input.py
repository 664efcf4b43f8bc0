"""Reads what is to be written: texts, files, standard input, JSON lines, folders of Markdown."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

from agentmem import Document
from agentmem.errors import InvalidInputError

_TIMES = ("valid_from", "valid_until", "expires_at")
_NAMES = frozenset(field.name for field in fields(Document))
_TEXTS = (".md", ".markdown", ".txt")
STANDARD_INPUT = "-"


def moment(text: str | None, what: str) -> datetime | None:
    """Return an instant written as ISO 8601; one without a time zone is in local time.

    Raises
    ------
    InvalidInputError
        It cannot be read.
    """
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        raise InvalidInputError(
            f"{what} is {text!r}, which is no time; write 2025-06-01 or 2025-06-01T12:30:00+02:00"
        ) from None


def json_object(text: str | None, what: str) -> dict[str, Any] | None:
    """Return a JSON object.

    Raises
    ------
    InvalidInputError
        The text is no JSON object.
    """
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{what} is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise InvalidInputError(f"{what} must be a JSON object, not {type(value).__name__}")
    return value


def documents(texts: Iterable[str], paths: Iterable[Path]) -> Iterator[str | Document]:
    """Yield texts as they are and the documents in files; ``-`` stands for standard input."""
    for text in texts:
        yield sys.stdin.read() if text == STANDARD_INPUT else text
    for path in paths:
        yield from _in_path(path)


def _in_path(path: Path) -> Iterator[str | Document]:
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.suffix.lower() in _TEXTS and p.is_file())
        if not found:
            raise InvalidInputError(f"the folder {str(path)!r} holds no {', '.join(_TEXTS)} files")
        for inner in found:
            yield _from_file(inner, key=str(inner.relative_to(path)))
    elif path.suffix.lower() in (".jsonl", ".ndjson"):
        yield from _from_lines(path)
    else:
        yield _from_file(path, key=None)


def _from_file(path: Path, key: str | None) -> Document:
    """Return a file as one document. In a folder its path is its key: writing again updates it."""
    return Document(_read(path), key=key, title=path.stem, source_uri=path.absolute().as_uri())


def _from_lines(path: Path) -> Iterator[Document]:
    for number, line in enumerate(_read(path).splitlines(), start=1):
        if line.strip():
            where = f"line {number} of {str(path)!r}"
            yield to_document(json_object(line, where) or {}, where)


def to_document(row: Mapping[str, Any], where: str) -> Document:
    """Return a document from its JSON form: the fields of `Document`, times in ISO 8601.

    Raises
    ------
    InvalidInputError
        A field is unknown or cannot be read; the message says `where`.
    """
    unknown = sorted(row.keys() - _NAMES)
    if unknown:
        raise InvalidInputError(
            f"{where} has the unknown field {unknown[0]!r}; known are {', '.join(sorted(_NAMES))}"
        )
    if not isinstance(row.get("content"), str):
        raise InvalidInputError(f"{where} has no text in 'content'")
    values = dict(row)
    for name in _TIMES:
        if values.get(name) is not None:
            values[name] = moment(str(values[name]), f"{name} in {where}")
    return Document(**values)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{str(path)!r} is no UTF-8 text; convert it first") from None
    except OSError as error:
        raise InvalidInputError(f"{str(path)!r} cannot be read: {error.strerror}") from None
