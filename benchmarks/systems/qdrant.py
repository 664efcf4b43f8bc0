"""Qdrant's local mode: the client's own storage in this process, exact, with payload filters."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from qdrant_client import QdrantClient, models

from agentmem import Document
from agentmem.backends.base import Vector
from benchmarks.systems.base import Question, VectorSystem

_NAME = "memories"
_BATCH = 500


class Qdrant(VectorSystem):
    """One collection; scopes and filters are payload."""

    async def open(self) -> None:
        """Open the folder."""
        self._client = QdrantClient(path=str(self.folder))
        if not self._client.collection_exists(_NAME):
            size = self.embedder.dimensions
            vectors = models.VectorParams(size=size, distance=models.Distance.COSINE)
            self._client.create_collection(_NAME, vectors_config=vectors)

    async def add(self, documents: Sequence[Document], vectors: Vector) -> None:
        """Upload points."""
        for start in range(0, len(documents), _BATCH):
            part = documents[start : start + _BATCH]
            points = [
                models.PointStruct(
                    id=str(uuid.uuid5(uuid.NAMESPACE_OID, document.key or "")),
                    vector=vector.tolist(),
                    payload={
                        "key": document.key,
                        "text": document.content,
                        "collection": document.collection or "default",
                        "user": document.user_id or "",
                        "gate": (document.metadata or {}).get("gate", 0),
                    },
                )
                for document, vector in zip(part, vectors[start : start + _BATCH], strict=True)
            ]
            self._client.upsert(_NAME, points)

    async def find(self, question: Question, vector: Vector, k: int) -> list[str]:
        """Query with a filter."""
        wanted = {
            "collection": question.collection,
            "user": question.user_id or "",
            **question.where,
        }
        conditions = [
            models.FieldCondition(key=name, match=models.MatchValue(value=value))
            for name, value in wanted.items()
        ]
        found = self._client.query_points(
            _NAME, vector.tolist(), query_filter=models.Filter(must=list(conditions)), limit=k
        )
        return [str((point.payload or {})["key"]) for point in found.points]

    async def close(self) -> None:
        """Close the folder."""
        self._client.close()


SYSTEM = Qdrant
