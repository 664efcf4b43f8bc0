"""Chroma, persistent, in this process: HNSW over cosine with metadata filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import chromadb

from agentmem import Document
from agentmem.backends.base import Vector
from benchmarks.systems.base import Question, VectorSystem

_BATCH = 2_000


class Chroma(VectorSystem):
    """One collection; scopes and filters are metadata."""

    async def open(self) -> None:
        """Open the folder."""
        self._client = chromadb.PersistentClient(path=str(self.folder))
        space: Any = {"hnsw": {"space": "cosine"}}
        self._rows = self._client.get_or_create_collection("memories", configuration=space)

    async def add(self, documents: Sequence[Document], vectors: Vector) -> None:
        """Add with vectors."""
        for start in range(0, len(documents), _BATCH):
            part = documents[start : start + _BATCH]
            self._rows.add(
                ids=[document.key or "" for document in part],
                embeddings=vectors[start : start + _BATCH],
                documents=[document.content for document in part],
                metadatas=[
                    {
                        "collection": document.collection or "default",
                        "user": document.user_id or "",
                        **{n: v for n, v in (document.metadata or {}).items() if n == "gate"},
                    }
                    for document in part
                ],
            )

    async def find(self, question: Question, vector: Vector, k: int) -> list[str]:
        """Query with a filter."""
        terms: list[dict[str, Any]] = [
            {"collection": question.collection},
            {"user": question.user_id or ""},
            *({name: value} for name, value in question.where.items()),
        ]
        found = self._rows.query(query_embeddings=[vector], n_results=k, where={"$and": terms})
        keys: list[str] = found["ids"][0]
        return keys

    async def close(self) -> None:
        """Let go of the folder."""
        self._client.close()


SYSTEM = Chroma
