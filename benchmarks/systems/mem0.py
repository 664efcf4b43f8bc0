"""mem0 without its language model: texts are stored as they are, on its default store, Qdrant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings
from mem0 import Memory
from mem0.configs.base import MemoryConfig

from agentmem import Document
from agentmem.backends.base import Vector
from benchmarks.systems.base import Question, VectorSystem


class _Ready(Embeddings):
    """Vectors that are made before they are asked for."""

    def __init__(self) -> None:
        self.vectors: dict[str, list[float]] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.vectors[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.vectors[text]


class Mem0(VectorSystem):
    """`add` with ``infer=False``, `search` by user and filters."""

    async def open(self) -> None:
        """Open the folder."""
        self._ready = _Ready()
        config: dict[str, Any] = {
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "path": str(self.folder / "qdrant"),
                    "on_disk": True,
                    "collection_name": "memories",
                    "embedding_model_dims": self.embedder.dimensions,
                },
            },
            "embedder": {"provider": "langchain", "config": {"model": self._ready}},
            # It wants one to be there; nothing here ever calls it.
            "llm": {"provider": "openai", "config": {"api_key": "not used"}},
            "history_db_path": str(self.folder / "history.db"),
        }
        self._memory = Memory(MemoryConfig(**config))

    async def add(self, documents: Sequence[Document], vectors: Vector) -> None:
        """Add one text after the other; it has no other way."""
        for document, vector in zip(documents, vectors, strict=True):
            self._ready.vectors = {document.content: vector.tolist()}
            self._memory.add(
                document.content,
                user_id=document.user_id or "-",
                agent_id=document.collection or "default",
                metadata={
                    "key": document.key,
                    "gate": (document.metadata or {}).get("gate", 0),
                },
                infer=False,
            )

    async def find(self, question: Question, vector: Vector, k: int) -> list[str]:
        """Search within a user and an agent."""
        self._ready.vectors = {question.text: vector.tolist()}
        filters = {
            "user_id": question.user_id or "-",
            "agent_id": question.collection,
            **question.where,
        }
        found = self._memory.search(question.text, filters=filters, top_k=k, threshold=0.0)
        return [entry["metadata"]["key"] for entry in found["results"]]

    async def close(self) -> None:
        """Close its stores."""
        self._memory.close()


SYSTEM = Mem0
