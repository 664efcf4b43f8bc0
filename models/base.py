"""What the memory asks of a model. Implement these protocols to bring your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
TokenIds: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """One vector for each token of a text, without the special tokens.

    Attributes
    ----------
    ids
        int32 of shape (tokens,): ids in the model's vocabulary.
    vectors
        float32 of shape (tokens, token_dimensions), L2-normalised.
    weights
        float32 of shape (tokens,), not negative: how rare each token is, for a query whose model
        knows; else None.
    unknown
        Share of the tokens, 0 to 1, that stand for what the vocabulary does not hold, for a query
        whose model knows.
    """

    ids: TokenIds
    vectors: Floats
    weights: Floats | None = None
    unknown: float = 0.0


@dataclass(frozen=True, slots=True)
class Encoding:
    """What an embedder made of some texts.

    Attributes
    ----------
    vectors
        float32 of shape (texts, dimensions), L2-normalised.
    tokens
        Token vectors of each text, or None when the model has none.
    """

    vectors: Floats
    tokens: tuple[TokenVectors, ...] | None = None


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors.

    Attributes
    ----------
    id
        Name of the model with a digest of its content. Vectors of different ids never meet.
    dimensions, token_dimensions
        Length of sentence and token vectors; the latter is None without token vectors.
    max_tokens
        Longest text, in tokens, that the model reads; the rest is cut off.
    """

    @property
    def id(self) -> str: ...  # noqa: D102 - described above

    @property
    def dimensions(self) -> int: ...  # noqa: D102 - described above

    @property
    def token_dimensions(self) -> int | None: ...  # noqa: D102 - described above

    @property
    def max_tokens(self) -> int: ...  # noqa: D102 - described above

    async def embed_passages(self, texts: Sequence[str]) -> Encoding:
        """Return the encoding of texts to be stored."""
        ...

    async def embed_query(self, text: str) -> Encoding:
        """Return the encoding of one query."""
        ...

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`, without special tokens and without a limit."""
        ...

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the character span of each token of `text`, in order."""
        ...

    async def close(self) -> None:
        """Release what the model holds."""
        ...


@dataclass(frozen=True, slots=True)
class RerankCandidate:
    """What a reranker sees of a chunk.

    Attributes
    ----------
    text
        The chunk with its document's title; empty unless the reranker needs ``"text"``.
    codes
        Token codes stored with the chunk, when the reranker needs ``"codes"``, or needs ``"late"``
        and the engine computes no late-interaction scores.
    before, after
        Then also those of the chunks that stand before it and behind it, the nearest first.
    text_before
        Text of the nearest before it; empty where none stands there, or text is not needed.
    late
        Late-interaction score, computed by the engine, when the reranker needs ``"late"``.
    """

    id: str
    text: str
    codes: bytes | None
    before: tuple[bytes, ...] = ()
    text_before: str = ""
    after: tuple[bytes, ...] = ()
    late: float | None = None


@runtime_checkable
class Reranker(Protocol):
    """Scores query and chunk together.

    Attributes
    ----------
    id
        Name of the model.
    needs
        What it reads of a candidate: ``"codes"``, ``"text"``, and ``"late"`` for the score of
        late interaction or what it is computed from.
    """

    @property
    def id(self) -> str: ...  # noqa: D102 - described above

    @property
    def needs(self) -> frozenset[str]: ...  # noqa: D102 - described above

    async def rerank(
        self, query: str, encoding: Encoding | None, candidates: Sequence[RerankCandidate]
    ) -> list[float]:
        """Return one score per candidate, in order; higher is better.

        `encoding` is the embedder's encoding of the query, None when that failed.
        """
        ...

    async def close(self) -> None:
        """Release what the model holds."""
        ...


@runtime_checkable
class RefiningReranker(Reranker, Protocol):
    """A reranker with a second, slower look at the candidates that its first one put in front."""

    async def refine(
        self, query: str, candidates: Sequence[RerankCandidate], seconds: float
    ) -> list[float]:
        """Return what to add to the score of each of the first candidates, 0 or more.

        Parameters
        ----------
        candidates
            In the order of their scores, the best first.
        seconds
            How long it may take; as many candidates are looked at as fit.
        """
        ...
