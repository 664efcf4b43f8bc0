"""Checks what a caller writes, and turns it into what an engine stores.

Nothing here touches a store or a model: a document that passes can be written, and one that does
not is refused with its position before anything has happened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from agentmem._clock import check_moment, to_micros
from agentmem._filters import canonical_json, check_metadata, encode_metadata
from agentmem._types import Document
from agentmem.errors import InvalidDocumentError, InvalidInputError, InvalidScopeError

DEFAULT_COLLECTION = "default"
MAX_CONTENT_BYTES = 16 * 1024 * 1024
MAX_NAME_BYTES = 512
MAX_KEY_BYTES = 1024
MAX_TITLE_BYTES = 4000

_HASH_BYTES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A document that can be written, with its times in microseconds."""

    content: str
    key: str | None
    title: str | None
    source_uri: str | None
    user_id: str | None
    collection: str
    metadata: Mapping[str, Any]
    valid_from: int | None
    valid_until: int | None
    expires_at: int | None
    identity: str
    fingerprint: str


def prepare(document: Document, defaults: Document, now: datetime, position: int) -> Prepared:
    """Return `document` completed by `defaults` and checked.

    Raises
    ------
    InvalidDocumentError
        It cannot be written; the message names the field and `position` the document.
    """
    try:
        return _prepare(_merged(document, defaults), now)
    except InvalidInputError as error:
        where = f"document {position}: {error}"
        raise InvalidDocumentError(where, position=position) from error


def _merged(document: Document, defaults: Document) -> Document:
    if not isinstance(document, Document):
        raise InvalidInputError(
            f"a document must be a str or a Document, not {type(document).__name__}"
        )
    missing = {
        name: getattr(defaults, name)
        for name in Document.__dataclass_fields__
        if name != "content" and getattr(document, name) is None
    }
    return replace(document, **missing)


def _prepare(document: Document, now: datetime) -> Prepared:
    content = check_text(document.content, "content", MAX_CONTENT_BYTES)
    if not content.strip():
        raise InvalidInputError("content is blank; there is nothing to remember")
    metadata = {} if document.metadata is None else document.metadata
    check_metadata(metadata)
    valid_from = check_moment(document.valid_from, "valid_from")
    valid_until = check_moment(document.valid_until, "valid_until")
    expires_at = check_moment(document.expires_at, "expires_at")
    if valid_from is not None and valid_until is not None and valid_until <= valid_from:
        raise InvalidInputError(
            f"valid_until ({valid_until.isoformat()}) is not after valid_from "
            f"({valid_from.isoformat()}); the document would never be valid"
        )
    if expires_at is not None and expires_at <= now:
        raise InvalidInputError(
            f"expires_at ({expires_at.isoformat()}) is not in the future; "
            "the document would never be visible"
        )
    return _finish(
        document,
        content=content,
        metadata=dict(metadata),
        times=(_micros(valid_from), _micros(valid_until), _micros(expires_at)),
    )


def _finish(
    document: Document,
    *,
    content: str,
    metadata: Mapping[str, Any],
    times: tuple[int | None, int | None, int | None],
) -> Prepared:
    key = _optional(document.key, "key", MAX_KEY_BYTES)
    title = _optional(document.title, "title", MAX_TITLE_BYTES)
    source_uri = _optional(document.source_uri, "source_uri", MAX_TITLE_BYTES)
    return Prepared(
        content=content,
        key=key,
        title=title,
        source_uri=source_uri,
        user_id=check_user(document.user_id),
        collection=check_collection(document.collection),
        metadata=metadata,
        valid_from=times[0],
        valid_until=times[1],
        expires_at=times[2],
        identity=identity_of(key, content),
        fingerprint=fingerprint_of(content, title, source_uri, metadata, times),
    )


def identity_of(key: str | None, content: str) -> str:
    """Return what tells a document apart within its user and collection."""
    return f"hash:{_digest(content)}" if key is None else f"key:{key}"


def fingerprint_of(
    content: str,
    title: str | None,
    source_uri: str | None,
    metadata: Mapping[str, Any],
    times: tuple[int | None, int | None, int | None],
) -> str:
    """Return a hash over everything that makes a version; `times` are validity and expiry."""
    whole = [content, title, source_uri, encode_metadata(metadata), *times]
    return _digest(canonical_json(whole))


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8"), digest_size=_HASH_BYTES).hexdigest()


def _optional(value: object, name: str, limit: int) -> str | None:
    return None if value is None else check_name(value, name, limit)


def check_text(value: object, name: str, limit: int) -> str:
    """Return `value` when it is a text that every engine can store.

    Raises
    ------
    InvalidInputError
        It is no str, holds a NUL or a lone surrogate, or is longer than `limit` bytes.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a str, not {type(value).__name__}")
    if "\0" in value:
        place = value.index("\0")
        raise InvalidInputError(f"{name} holds a NUL character at position {place}; remove it")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{name} holds a lone surrogate at position {error.start}, which is no character; "
            "decode the text with errors='replace'"
        ) from None
    if size > limit:
        raise InvalidInputError(f"{name} has {size:,} bytes; the most is {limit:,}")
    return value


def check_name(value: object, name: str, limit: int = MAX_NAME_BYTES) -> str:
    """Return `value` when it is a text as `check_text` wants it and is not blank."""
    text = check_text(value, name, limit)
    if not text.strip():
        raise InvalidInputError(f"{name} is {value!r}; leave it out or give it a value")
    return text


def check_user(value: object) -> str | None:
    """Return a user id, or None for shared documents.

    Raises
    ------
    InvalidScopeError
        It is blank, no str, or too long. An empty id is refused rather than read as "everybody".
    """
    return None if value is None else _scope_name(value, "user_id")


def check_collection(value: object) -> str:
    """Return a collection's name, the default one for None.

    Raises
    ------
    InvalidScopeError
        It is blank, no str, or too long.
    """
    return DEFAULT_COLLECTION if value is None else _scope_name(value, "collection")


def check_tenant(value: object) -> str:
    """Return a tenant's name.

    Raises
    ------
    InvalidScopeError
        It is blank, no str, or too long.
    """
    return _scope_name(value, "tenant")


def check_collections(value: object) -> tuple[str, ...] | None:
    """Return names of collections; None means all, and an empty list means none.

    Raises
    ------
    InvalidScopeError
        It is a str, not iterable, or holds a name that cannot be used.
    """
    if value is None:
        return None
    if isinstance(value, str):
        raise InvalidScopeError(
            f"collections must be a list of names, not a str; write [{value!r}]"
        )
    if not isinstance(value, Iterable):
        raise InvalidScopeError(f"collections must be a list of names, not {type(value).__name__}")
    return tuple(dict.fromkeys(_scope_name(name, "collection") for name in value))


def _scope_name(value: object, name: str) -> str:
    try:
        return check_name(value, name)
    except InvalidInputError as error:
        raise InvalidScopeError(str(error)) from None
