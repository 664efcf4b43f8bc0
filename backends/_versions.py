"""What makes a version, and when each version of a document is in force.

Pure functions shared by the engines, so that both store the same ids and the same windows.

A version rules from its `valid_from` on (without one: from the moment it was written) until its
`valid_until`, or until any later version rules, whichever comes first. Two windows are stored:

* ``visible_*`` serves searches for now. An open `valid_from` means "always", so that a reader whose
  clock runs behind the writer's still sees what was acknowledged.
* ``as_of_*`` serves searches for another time. An open `valid_from` means the time of writing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentmem.backends.base import FOREVER, NEVER, Micros, begin_of

_ID_BYTES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWindow:
    """The two half-open intervals in which a version is in force, in microseconds."""

    version: int
    visible_from: Micros
    visible_until: Micros
    as_of_from: Micros
    as_of_until: Micros


def document_id(
    tenant: str,
    user_id: str | None,
    collection: str,
    identity: str,
    created_at: Micros,
    attempt: int = 0,
) -> str:
    """Return the id of a new document: 24 characters ``a-z2-7``.

    The id is a hash of what the document is and when it was first written, so that the same history
    gives the same ids on every engine. `attempt` counts up when the id is taken, which happens only
    when a document is forgotten and written again within one microsecond.
    """
    name = json.dumps([tenant, user_id, collection, identity, created_at, attempt])
    digest = hashlib.blake2b(name.encode("utf-8"), digest_size=_ID_BYTES).digest()
    return base64.b32encode(digest).decode("ascii").lower()


def chunk_id(document: str, version: int, chunk_index: int) -> str:
    """Return the id of a chunk."""
    return f"{document}:{version}:{chunk_index}"


def succeed(
    earlier: Sequence[StoredWindow],
    *,
    version: int,
    created_at: Micros,
    valid_from: Micros | None,
    valid_until: Micros | None,
) -> tuple[StoredWindow, list[StoredWindow]]:
    """Return the window of a new version, and those earlier windows that it shortens."""
    end = FOREVER if valid_until is None else valid_until
    new = StoredWindow(
        version=version,
        visible_from=NEVER if valid_from is None else valid_from,
        visible_until=end,
        as_of_from=begin_of(valid_from, created_at),
        as_of_until=end,
    )
    shortened = (
        replace(
            window,
            visible_until=min(window.visible_until, new.visible_from),
            as_of_until=min(window.as_of_until, new.as_of_from),
        )
        for window in earlier
    )
    changed = [after for before, after in zip(earlier, shortened, strict=True) if before != after]
    return new, changed
