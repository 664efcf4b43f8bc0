"""What moving documents gives back: `MoveResult` with its `Comparison`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """What an export, an import or a copy did.

    Attributes
    ----------
    documents, versions, chunks
        What was read.
    stored
        Documents that are new in the destination.
    present
        Documents whose id was there already; they were left alone.
    embedded
        Versions whose vectors were made anew.
    comparison
        How source and destination compare afterwards; None for an export or import.
    """

    documents: int
    versions: int
    chunks: int
    stored: int
    present: int
    embedded: int
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A destination held against its source.

    Attributes
    ----------
    source, destination
        Documents of each, within what was copied.
    missing, different
        Ids of documents that the destination lacks, or has with other versions.
    checksum
        Hash over ids, versions and contents of the source, the same for an equal destination.
    searches, agreeing
        Sampled searches, and how many found the same chunks in the vector pool on both sides.
        None when the models differ.
    """

    source: int
    destination: int
    missing: tuple[str, ...]
    different: tuple[str, ...]
    checksum: str
    searches: int
    agreeing: int | None

    @property
    def ok(self) -> bool:
        """Whether nothing is missing or different."""
        return not self.missing and not self.different
