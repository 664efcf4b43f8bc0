"""LangGraph's in-memory store with an index: what its agents get when nothing else is chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from agentmem import Document
from agentmem.backends.base import Vector
from benchmarks.systems.base import Question, VectorSystem


class LangGraph(VectorSystem):
    """A namespace for each scope. It embeds by itself, so it is handed vectors that are ready."""

    async def open(self) -> None:
        """Start empty; it keeps nothing on disk."""
        self._ready: dict[str, list[float]] = {}
        self._store = InMemoryStore(
            index={
                "dims": self.embedder.dimensions,
                "embed": self._looked_up,
                "fields": ["text"],
            }
        )

    def _looked_up(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._ready[text] for text in texts]

    async def add(self, documents: Sequence[Document], vectors: Vector) -> None:
        """Put items."""
        self._ready = {
            document.content: vector.tolist()
            for document, vector in zip(documents, vectors, strict=True)
        }
        for part in _without_repeats(documents):
            self._store.batch(
                [
                    PutOp(
                        namespace=(document.collection or "default", document.user_id or "-"),
                        key=document.key or "",
                        value={
                            "text": document.content,
                            "gate": (document.metadata or {}).get("gate", 0),
                        },
                    )
                    for document in part
                ]
            )

    async def find(self, question: Question, vector: Vector, k: int) -> list[str]:
        """Search one namespace."""
        self._ready = {question.text: vector.tolist()}
        found = self._store.search(
            (question.collection, question.user_id or "-"),
            query=question.text,
            filter=dict(question.where) or None,
            limit=k,
        )
        return [item.key for item in found]

    async def close(self) -> None:
        """Forget everything."""
        del self._store


def _without_repeats(documents: Sequence[Document]) -> list[list[Document]]:
    """Return batches in which no text comes twice: the store refuses those."""
    batches: list[list[Document]] = []
    seen: Counter[str] = Counter()
    for document in documents:
        number = seen[document.content]
        seen[document.content] += 1
        if number == len(batches):
            batches.append([])
        batches[number].append(document)
    return batches


SYSTEM = LangGraph
