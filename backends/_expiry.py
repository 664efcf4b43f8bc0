"""What an engine needs to know to let a stored version expire at another time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExpiry:
    """Another expiry for the newest version of a document.

    Attributes
    ----------
    before
        The fingerprint that the version must still have; another writer may have been faster.
    fingerprint
        The one that it has with the new expiry.
    expires_at
        Microseconds, or None for never.
    """

    document_id: str
    version: int
    before: str
    fingerprint: str
    expires_at: int | None
