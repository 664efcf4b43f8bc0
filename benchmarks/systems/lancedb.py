"""LanceDB in this process: vectors and its own full-text index, fused by its reciprocal ranks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import lancedb
from lancedb.rerankers import RRFReranker

from agentmem import Document
from agentmem.backends.base import Vector
from benchmarks.systems.base import Question, VectorSystem


class LanceDB(VectorSystem):
    """One table; hybrid search with a prefilter."""

    async def open(self) -> None:
        """Open the folder."""
        self._database: Any = lancedb.connect(str(self.folder))
        self._table: Any = None
        self._reranker = RRFReranker()

    async def add(self, documents: Sequence[Document], vectors: Vector) -> None:
        """Append rows."""
        rows = [
            {
                "key": document.key,
                "text": document.content,
                "collection": document.collection or "default",
                "user": document.user_id or "",
                "gate": int((document.metadata or {}).get("gate", 0)),
                "vector": vector,
            }
            for document, vector in zip(documents, vectors, strict=True)
        ]
        if self._table is None:
            self._table = self._database.create_table("memories", rows)
        else:
            self._table.add(rows)

    async def settle(self) -> None:
        """Build the full-text index and indexes of the filters, and merge what was appended."""
        self._table.create_fts_index("text", replace=True)
        for column in ("collection", "user", "gate"):
            self._table.create_scalar_index(column, index_type="BITMAP", replace=True)
        self._table.wait_for_index(["text_idx"], timeout=timedelta(minutes=10))
        self._table.optimize()

    async def find(self, question: Question, vector: Vector, k: int) -> list[str]:
        """Search both ways and fuse."""
        words = "".join(c if c.isalnum() else " " for c in question.text)
        terms = {"collection": question.collection, "user": question.user_id or ""}
        wanted = " AND ".join(f"{name} = {_literal(v)}" for name, v in terms.items())
        wanted += "".join(f" AND {name} = {value}" for name, value in question.where.items())
        query = self._table.search(query_type="hybrid", vector_column_name="vector")
        query = query.vector(vector).text(words).where(wanted, prefilter=True)
        found = query.distance_type("cosine").rerank(self._reranker).limit(k).to_arrow()
        keys: list[str] = found["key"].to_pylist()
        return keys

    async def close(self) -> None:
        """Let go of the table."""
        self._table = None


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SYSTEM = LanceDB
