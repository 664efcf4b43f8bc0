"""What the schema was set up for: model, dimensions, indexes. Written once, by the set-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from agentmem.backends._rules import other_model
from agentmem.backends.base import ModelIdentity
from agentmem.backends.oracle._names import SCHEMA_VERSION
from agentmem.errors import StoreCorruptError, StoreVersionError

VectorIndex = Literal["none", "ivf", "hnsw"]
Lexer = Literal["terms", "basic", "world", "chinese", "japanese", "korean"]

READ = "SELECT name, value FROM mem_meta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Choices that the tables were made with.

    Attributes
    ----------
    embedder, dimensions, token_dimensions
        The model of the vectors; `token_dimensions` None without token codes.
    vector_index
        Kind of the vector index, or ``"none"`` for exact search.
    lexer
        ``"terms"`` when the text index holds our own terms, else a lexer of Oracle.
    """

    embedder: str
    dimensions: int
    token_dimensions: int | None
    vector_index: VectorIndex = "none"
    lexer: Lexer = "terms"

    def rows(self) -> dict[str, str]:
        """Return the rows of the table."""
        return {
            "schema_version": str(SCHEMA_VERSION),
            "embedder": self.embedder,
            "dimensions": str(self.dimensions),
            "token_dimensions": str(self.token_dimensions or 0),
            "vector_index": self.vector_index,
            "lexer": self.lexer,
        }


def read_meta(rows: Mapping[str, str]) -> Meta:
    """Return the choices that the table holds.

    Raises
    ------
    StoreVersionError
        The tables were made by a newer release.
    StoreCorruptError
        The rows are incomplete.
    """
    try:
        version = int(rows["schema_version"])
        if version > SCHEMA_VERSION:
            raise StoreVersionError(
                f"the tables have schema version {version}, this release knows up to "
                f"{SCHEMA_VERSION}; upgrade agentmem to open them"
            )
        index, lexer = rows["vector_index"], rows["lexer"]
        if index not in get_args(VectorIndex) or lexer not in get_args(Lexer):
            raise ValueError
        return Meta(
            embedder=rows["embedder"],
            dimensions=int(rows["dimensions"]),
            token_dimensions=int(rows["token_dimensions"]) or None,
            vector_index=cast(VectorIndex, index),
            lexer=cast(Lexer, lexer),
        )
    except (KeyError, ValueError):
        raise StoreCorruptError(
            "mem_meta does not say what the tables were made for; run 'agentmem oracle init' again"
        ) from None


def check_model(meta: Meta, model: ModelIdentity) -> None:
    """Compare the configured model with that of the tables.

    Raises
    ------
    ModelMismatchError
        They differ.
    """
    same_size = model.dimensions in (0, meta.dimensions)
    if meta.embedder == model.embedder and same_size:
        return
    raise other_model(
        meta.embedder,
        meta.dimensions,
        model,
        "'agentmem copy' the memory into a schema set up for the other one, which embeds again",
    )
