"""What several tests share: a clock to set, a fast embedder, and ways to make memories."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np

from agentmem import Memory, SearchResult
from agentmem.models.base import Encoding, TokenVectors

START = datetime(2025, 6, 15, 12, tzinfo=UTC)
MakeMemory = Callable[..., Memory]


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **amount: float) -> None:
        self.now += timedelta(**amount)


class WordEmbedder:
    """Vectors from a hash of each word: texts are near when they share words. Fast and exact."""

    dimensions = 64
    token_dimensions = 64
    max_tokens = 512

    def __init__(self, name: str = "words") -> None:
        self.id = name

    async def embed_passages(self, texts: Sequence[str]) -> Encoding:
        vectors = np.array([self._vector(text) for text in texts], dtype=np.float32)
        tokens = tuple(self._tokens(text) for text in texts)
        return Encoding(vectors.reshape(len(texts), self.dimensions), tokens)

    async def embed_query(self, text: str) -> Encoding:
        return await self.embed_passages([text])

    def count_tokens(self, text: str) -> int:
        return len(self.token_offsets(text))

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]

    async def close(self) -> None:
        pass

    def _vector(self, text: str) -> Any:
        words = re.findall(r"\w+", text.lower()) or [text]
        total = sum(
            (_direction(word, self.dimensions) for word in words), np.zeros(self.dimensions)
        )
        return total / max(float(np.linalg.norm(total)), 1e-9)

    def _tokens(self, text: str) -> TokenVectors:
        words = re.findall(r"\w+", text.lower())
        vectors = [_direction(word, self.token_dimensions) for word in words]
        return TokenVectors(
            # Ids of ordinary tokens: the first ones stand for special tokens without weight.
            np.arange(len(words), dtype=np.int32) + 2000,
            np.array(vectors, dtype=np.float32).reshape(len(words), self.token_dimensions),
        )


@lru_cache(maxsize=1 << 14)
def _direction(word: str, dimensions: int) -> Any:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
    vector = np.random.default_rng(seed).normal(size=dimensions)
    return vector / np.linalg.norm(vector)


def texts(result: SearchResult) -> list[str]:
    """Return the texts of the hits."""
    return [hit.text for hit in result.hits]
