"""The least that any system of this kind must do for a question, measured alone in one process.

The embedding of the question, one pass over a matrix of all vectors as they are held in RAM, and
one BM25 query. Nothing is fused, reranked, read or rendered.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import tantivy

from agentmem import Document
from agentmem._terms import analyze
from agentmem.backends.embedded._matrix import Matrix
from agentmem.models.vector_codes import Steps, rounded, to_steps
from benchmarks.systems.base import Answer, Question, System

_FOUND = 100


class Floor(System):
    """Vectors in one matrix, words in one index."""

    async def open(self) -> None:
        """Start empty."""
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("terms", tokenizer_name="plain", index_option="freq")
        builder.add_integer_field("row", stored=True, indexed=True, fast=True)
        self._schema = builder.build()
        self._index = tantivy.Index(self._schema, path=str(self.folder))
        plain = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
        self._index.register_tokenizer("plain", plain)
        self._parts: list[Steps] = []
        self._keys: list[str] = []

    async def write(self, documents: Sequence[Document]) -> None:
        """Embed and keep."""
        encoding = await self.embedder.embed_passages([d.content for d in documents])
        writer = self._index.writer(50_000_000, 1)
        for row, document in enumerate(documents, start=len(self._keys)):
            entry = tantivy.Document()
            entry.add_integer("row", row)
            entry.add_text("terms", " ".join(analyze(document.content)))
            writer.add_document(entry)
        writer.commit()
        writer.wait_merging_threads()
        self._parts.append(to_steps(encoding.vectors))
        self._keys += [document.key or "" for document in documents]

    async def settle(self) -> None:
        """Put the vectors into one matrix."""
        codes = [code.tobytes() for part in self._parts for code in part]
        self._parts.clear()
        self._matrix = Matrix(len(codes), self.embedder.dimensions)
        self._places = np.arange(len(codes))
        self._matrix.put(self._places, codes)
        self._index.reload()

    async def search(self, question: Question, k: int) -> Answer:
        """Do the three things one after the other."""
        start = time.perf_counter()
        vector = (await self.embedder.embed_query(question.text)).vectors[0]
        embedded = time.perf_counter()
        similarities = self._matrix.similarities(self._places, len(self._places), rounded(vector))
        compared = time.perf_counter()
        terms = [
            (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "terms", term, "freq"))
            for term in dict.fromkeys(analyze(question.text))
        ]
        query = tantivy.Query.boolean_query(terms)
        self._index.searcher().search(query, _FOUND, count=False)
        end = time.perf_counter()
        nearest = np.argpartition(-similarities, min(k, len(self._keys) - 1))[:k]
        nearest = nearest[np.argsort(-similarities[nearest])]
        return Answer(
            [self._keys[row] for row in nearest],
            {
                "embed": (embedded - start) * 1000,
                "vectors": (compared - embedded) * 1000,
                "words": (end - compared) * 1000,
                "total": (end - start) * 1000,
            },
        )

    async def close(self) -> None:
        """Drop the index."""
        del self._index


SYSTEM = Floor
