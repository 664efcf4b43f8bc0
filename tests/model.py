"""A memory as plain Python: what the engines must do, in the fewest words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Visible = Callable[["Doc"], bool]


@dataclass(slots=True)
class Version:
    number: int
    content: str
    metadata: dict[str, Any]
    created_at: datetime
    valid_from: datetime | None
    valid_until: datetime | None
    expires_at: datetime | None

    def same(self, other: Version) -> bool:
        mine = (self.content, self.metadata, self.valid_from, self.valid_until, self.expires_at)
        return mine == (
            other.content, other.metadata, other.valid_from, other.valid_until, other.expires_at,
        )  # fmt: skip


@dataclass(slots=True)
class Doc:
    id: str
    first: datetime
    user: str | None
    collection: str
    key: str | None
    versions: list[Version] = field(default_factory=list)
    deleted: bool = False

    @property
    def head(self) -> Version:
        return self.versions[-1]

    @property
    def identity(self) -> tuple[str | None, str, str]:
        name = self.key if self.key is not None else f"text {self.head.content}"
        return self.user, self.collection, name

    def in_force(self, at: datetime, *, now: bool) -> Version | None:
        """Return the version that rules at an instant; for `now` an open start means always."""

        def start(version: Version) -> datetime | None:
            return version.valid_from or (None if now else version.created_at)

        ruling = None
        for version in self.versions:
            begins = start(version)
            if begins is None or begins <= at:
                ended = version.valid_until is not None and version.valid_until <= at
                ruling = None if ended else version
        return ruling


class Model:
    """The documents of one tenant."""

    def __init__(self) -> None:
        self.docs: list[Doc] = []

    def write(
        self, doc: Doc, version: Version, given_id: str | None
    ) -> tuple[str | None, int, str]:
        """Return id, version and status; a new document takes the id that the engine gave."""
        doc.versions = [version]
        live = [d for d in self.docs if not d.deleted and d.identity == doc.identity]
        if not live:
            doc.id = given_id or ""
            self.docs.append(doc)
            return doc.id, 1, "created"
        found = live[0]
        if found.head.same(version):
            return found.id, found.head.number, "unchanged"
        version.number = found.head.number + 1
        found.versions.append(version)
        return found.id, version.number, "updated"

    def select(self, fits: Visible, now: datetime, *, expired: bool = False) -> list[Doc]:
        found = [
            d
            for d in self.docs
            if fits(d) and (expired or d.head.expires_at is None or d.head.expires_at > now)
        ]
        return sorted(found, key=lambda d: (d.first, d.id))

    def forget(self, found: Iterable[Doc], *, purge: bool) -> None:
        for doc in found:
            doc.deleted = True
        if purge:
            gone = {doc.id for doc in found}
            self.docs = [d for d in self.docs if d.id not in gone]

    def restore(self, found: list[Doc]) -> Doc | None:
        """Bring documents back, or return the one that cannot and change nothing."""
        taken = {d.identity for d in self.docs if not d.deleted}
        for doc in found:
            if doc.identity in taken:
                return doc
            taken.add(doc.identity)
        for doc in found:
            doc.deleted = False
        return None

    def searchable(
        self, user: str | None, collections: list[str] | None, now: datetime, as_of: datetime | None
    ) -> dict[str, Version]:
        """Return the versions that a search may show, by chunk id."""
        found = {}
        for doc in self.docs:
            at = now if as_of is None else as_of
            version = doc.in_force(at, now=as_of is None)
            if (
                not doc.deleted
                and doc.user in (None, user)
                and (collections is None or doc.collection in collections)
                and version is not None
                and (version.expires_at is None or version.expires_at > now)
            ):
                found[f"{doc.id}:{version.number}:0"] = version
        return found
