"""Checks the arguments of the facade's calls and builds what the layers below take."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any, TypeAlias

from agentmem._clock import check_as_of, from_micros, to_micros
from agentmem._filters import Filter, parse_filter
from agentmem._prepare import (
    MAX_KEY_BYTES,
    check_collection,
    check_collections,
    check_name,
    check_user,
)
from agentmem._types import StoredDocument
from agentmem.backends.base import Micros, Owner, Selection, StoredRow
from agentmem.errors import InvalidInputError
from agentmem.pipeline import SearchRequest
from agentmem.pipeline._diversity import check_diversify
from agentmem.pipeline.understand import check_query

Where: TypeAlias = Filter | Mapping[str, Any]

MAX_HITS = 4096
MAX_PAGE = 1000


def search_request(
    query: object,
    *,
    tenant: str,
    user_id: str | None,
    collections: Iterable[str] | None,
    where: Where | None,
    now: datetime,
    as_of: datetime | date | None,
    k: int,
    token_budget: int | None,
    diversify_by: str | None,
    explain: bool,
) -> SearchRequest:
    """Return the checked arguments of a search."""
    return SearchRequest(
        query=check_query(query),
        tenant=tenant,
        user_id=check_user(user_id),
        collections=check_collections(collections),
        where=parse_filter(where),
        now=now,
        as_of=check_as_of(as_of),
        k=check_number(k, "k", MAX_HITS),
        token_budget=(
            None if token_budget is None else check_number(token_budget, "token_budget", None)
        ),
        diversify_by=check_diversify(diversify_by),
        explain=explain,
    )


def check_number(value: object, name: str, most: int | None) -> int:
    """Return a whole number from 1 to `most`.

    Raises
    ------
    InvalidInputError
        It is none.
    """
    if type(value) is not int or value < 1 or (most is not None and value > most):
        limit = "1 or more" if most is None else f"1 to {most}"
        raise InvalidInputError(f"{name} must be a whole number, {limit}, not {value!r}")
    return value


def check_deadline(value: object) -> None:
    """Check a number of seconds.

    Raises
    ------
    InvalidInputError
        It is neither None nor a number above 0.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise InvalidInputError(f"deadline must be a number of seconds above 0, not {value!r}")


def check_ids(ids: object) -> tuple[str, ...]:
    """Return ids, each once, in order.

    Raises
    ------
    InvalidInputError
        It is neither a str nor an iterable of str.
    """
    if isinstance(ids, str):
        return (ids,)
    if not isinstance(ids, Iterable) or isinstance(ids, (bytes, Mapping)):
        raise InvalidInputError(f"ids must be a str or a list of str, not {type(ids).__name__}")
    names = tuple(dict.fromkeys(ids))
    for name in names:
        if not isinstance(name, str):
            raise InvalidInputError(f"an id must be a str, not {type(name).__name__}")
    return names


def storable(ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return those ids that could be in a store: the engines' ids are ASCII."""
    return tuple(name for name in ids if name.isascii() and "\0" not in name)


def visible_selection(
    tenant: str,
    now: datetime,
    *,
    user_id: str | None,
    collections: Iterable[str] | None = None,
    where: Where | None = None,
    as_of: datetime | date | None = None,
    ids: tuple[str, ...] | None = None,
    deleted: bool = False,
) -> Selection:
    """Return the selection of what a caller may see."""
    moment = check_as_of(as_of)
    return Selection(
        tenant=tenant,
        owner=Owner("visible", check_user(user_id)),
        now=to_micros(now),
        ids=None if ids is None else storable(ids),
        collections=check_collections(collections),
        where=parse_filter(where),
        as_of=None if moment is None else to_micros(moment),
        deleted=deleted,
    )


def moved_selection(
    tenant: str,
    now: datetime,
    *,
    user_id: str | None,
    collections: Iterable[str] | None,
    where: Where | None,
) -> Selection:
    """Return the selection of what an export or a copy moves: also what is forgotten or expired."""
    user = check_user(user_id)
    return Selection(
        tenant=tenant,
        owner=Owner("every") if user is None else Owner("own", user),
        now=to_micros(now),
        collections=check_collections(collections),
        where=parse_filter(where),
        deleted=None,
        expired=True,
    )


def key_selection(
    tenant: str, now: datetime, key: object, user_id: str | None, collection: str | None
) -> Selection:
    """Return the selection of the one document with a key."""
    return Selection(
        tenant=tenant,
        owner=Owner("own", check_user(user_id)),
        now=to_micros(now),
        key=check_name(key, "key", MAX_KEY_BYTES),
        collections=(check_collection(collection),),
    )


def forget_selection(
    tenant: str,
    now: datetime,
    *,
    ids: tuple[str, ...] | None,
    key: str | None,
    user_id: str | None,
    collection: str | None,
    where: Where | None,
    everything: bool,
    purge: bool,
) -> Selection:
    """Return the selection of what is to be forgotten.

    A purge also covers what was forgotten before; both cover expired documents.

    Raises
    ------
    InvalidInputError
        Nothing is named, or `everything` is not alone.
    """
    named = [ids, key, user_id, collection, where]
    if everything and any(value is not None for value in named):
        raise InvalidInputError("everything=True stands alone; leave the other conditions out")
    if not everything and all(value is None for value in named):
        raise InvalidInputError(
            "say what to forget: ids, key, user_id, collection or where, or everything=True"
        )
    user = check_user(user_id)
    owner = Owner("visible" if ids is not None else "own", user)
    if key is not None:
        key = check_name(key, "key", MAX_KEY_BYTES)
        collection = check_collection(collection)
    return Selection(
        tenant=tenant,
        owner=Owner("every") if everything else owner,
        now=to_micros(now),
        ids=None if ids is None else storable(ids),
        key=key,
        collections=None if collection is None else (check_collection(collection),),
        where=parse_filter(where),
        deleted=None if purge else False,
        expired=True,
    )


def to_document(row: StoredRow) -> StoredDocument:
    """Return what the caller sees of a stored version."""
    return StoredDocument(
        id=row.document_id,
        version=row.version,
        key=row.key,
        content=row.content,
        title=row.title,
        source_uri=row.source_uri,
        user_id=row.user_id,
        collection=row.collection,
        metadata=row.metadata,
        created_at=from_micros(row.created_at),
        valid_from=_moment(row.valid_from),
        valid_until=_moment(row.valid_until),
        expires_at=_moment(row.expires_at),
        deleted_at=_moment(row.deleted_at),
    )


def _moment(micros: Micros | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def encode_cursor(row: StoredRow) -> str:
    """Return the cursor of the page that ends with `row`."""
    place = json.dumps([row.first_created_at, row.document_id])
    return base64.urlsafe_b64encode(place.encode("ascii")).decode("ascii")


def decode_cursor(cursor: object) -> tuple[Micros, str] | None:
    """Return where a page starts.

    Raises
    ------
    InvalidInputError
        The cursor was not made by `list`.
    """
    if cursor is None:
        return None
    try:
        moment, name = json.loads(base64.urlsafe_b64decode(str(cursor).encode("ascii")))
    except (binascii.Error, UnicodeError, ValueError, TypeError):
        moment, name = None, None
    if type(moment) is not int or not isinstance(name, str) or not name.isascii():
        raise InvalidInputError(
            f"cursor is {cursor!r}; give the cursor of the page before, as it is"
        )
    return moment, name
