"""What a measured system must do: take documents, answer questions, say what time went where."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentmem import Document
from agentmem.backends.base import Vector
from agentmem.models.base import Embedder


@dataclass(frozen=True, slots=True)
class Question:
    """A question within its scope.

    Attributes
    ----------
    text
        The words.
    collection, user_id
        Where to look, and who asks.
    where
        Equalities that the metadata of a document must fulfil.
    """

    text: str
    collection: str
    user_id: str | None = None
    where: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """Keys of documents, best first, and milliseconds by part.

    `rankings` holds further orders of the same question by name, where a system has several.
    """

    keys: list[str]
    milliseconds: dict[str, float]
    rankings: dict[str, list[str]] = field(default_factory=dict)


class System(ABC):
    """A system under measurement, used by one task at a time.

    Parameters
    ----------
    folder
        An empty folder for its files.
    embedder
        Makes vectors of passages and questions; the same for all systems.
    settings
        From the suite.
    """

    def __init__(self, folder: Path, embedder: Embedder, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.embedder = embedder
        self.settings = settings

    @abstractmethod
    async def open(self) -> None:
        """Get ready."""

    @abstractmethod
    async def write(self, documents: Sequence[Document]) -> None:
        """Store documents; their keys are unique, their collections are scopes."""

    async def settle(self) -> None:  # noqa: B027 - most systems have nothing to do
        """Finish what goes on behind the writes, such as building an index."""

    @abstractmethod
    async def search(self, question: Question, k: int) -> Answer:
        """Return the best `k` documents."""

    async def explain(self, question: Question, depth: int) -> Answer:
        """Return deep rankings for measuring quality; time does not matter."""
        return await self.search(question, depth)

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything."""


class VectorSystem(System):
    """A store of somebody else's with our vectors; embedding and storing are timed apart."""

    async def write(self, documents: Sequence[Document]) -> None:
        """Embed, then store."""
        encoding = await self.embedder.embed_passages([d.content for d in documents])
        await self.add(documents, encoding.vectors)

    async def search(self, question: Question, k: int) -> Answer:
        """Embed, then ask the store."""
        start = time.perf_counter()
        vector = (await self.embedder.embed_query(question.text)).vectors[0]
        embedded = time.perf_counter()
        keys = await self.find(question, vector, k)
        end = time.perf_counter()
        return Answer(
            keys,
            {
                "embed": (embedded - start) * 1000,
                "store": (end - embedded) * 1000,
                "total": (end - start) * 1000,
            },
        )

    @abstractmethod
    async def add(self, documents: Sequence[Document], vectors: Vector) -> None:
        """Store documents with their vectors, float32 of shape (documents, dimensions)."""

    @abstractmethod
    async def find(self, question: Question, vector: Vector, k: int) -> list[str]:
        """Return keys of the best `k` documents."""
