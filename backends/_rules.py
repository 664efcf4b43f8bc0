"""Rules that every engine follows alike: what is indexed, and what is refused in which words."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.backends.base import Forgotten, ModelIdentity
from agentmem.errors import ConfirmationError, ConflictError, ModelMismatchError


def searchable_text(title: str | None, text: str) -> str:
    """Return the text of a chunk as it is embedded and indexed: with the document's title."""
    return text if title is None else f"{title}\n{text}"


def check_number(documents: Sequence[Forgotten], at_most: int | None) -> None:
    """Raise when a forget covers more documents than it may.

    Raises
    ------
    ConfirmationError
        It does.
    """
    if at_most is not None and len(documents) > at_most:
        raise ConfirmationError(
            f"this would forget {len(documents):,} documents, more than forget_limit "
            f"({at_most:,}); look at them with dry_run=True, then pass confirm=True",
            documents=len(documents),
        )


def other_model(
    stored: str, dimensions: int | str, model: ModelIdentity, remedy: str
) -> ModelMismatchError:
    """Return the error of a store whose vectors another model has made."""
    return ModelMismatchError(
        f"this memory was written with the embedder {stored!r} ({dimensions} dimensions), but "
        f"{model.embedder!r} ({model.dimensions} dimensions) is configured; configure the first "
        f"one, or {remedy}"
    )


def taken(document_id: str) -> ConflictError:
    """Return the error of a document that cannot be loaded beside what is there."""
    return ConflictError(
        f"document {document_id!r} cannot be brought in: its key or text belongs to another "
        "document here; forget that one first, or use another tenant or collection"
    )
