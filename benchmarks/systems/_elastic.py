"""The words of the polyglot system in Elasticsearch, through its own client."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from elasticsearch import Elasticsearch
from elasticsearch.helpers import bulk

from agentmem import Document


class ElasticWords:
    """An index of its own on a server, which is deleted in the end.

    Parameters
    ----------
    client
        Connected to the server; closed in the end.
    pool
        Most keys that `find` returns.
    """

    def __init__(self, client: Elasticsearch, pool: int) -> None:
        self._client = client
        self._pool = pool
        self._index = f"agentmem-benchmark-{os.getpid()}"
        text = {"type": "text", "analyzer": "english"}
        properties = {"content": text, "collection": {"type": "keyword"}}
        self._client.indices.create(index=self._index, mappings={"properties": properties})

    def add(self, documents: Sequence[Document]) -> None:
        """Index documents, at once visible; an error of the server's is raised."""
        bulk(
            self._client,
            [
                {
                    "_index": self._index,
                    "_id": document.key,
                    "content": document.content,
                    "collection": document.collection or "default",
                }
                for document in documents
            ],
            refresh=True,
        )

    def find(self, text: str, keys: Sequence[str] | None, collection: str) -> list[str]:
        """Return the best keys, among `keys` when they are given."""
        scope: list[dict[str, Any]] = [{"term": {"collection": collection}}]
        if keys is not None:
            scope.append({"ids": {"values": list(keys)}})
        query = {"bool": {"must": {"match": {"content": text}}, "filter": scope}}
        found = self._client.search(index=self._index, query=query, size=self._pool, source=False)
        return [hit["_id"] for hit in found["hits"]["hits"]]

    def remove(self, key: str) -> None:
        """Delete a document."""
        self._client.delete(index=self._index, id=key, refresh=True)

    def holds(self, key: str) -> bool:
        """Return whether a document is there."""
        return bool(self._client.exists(index=self._index, id=key))

    def close(self) -> None:
        """Delete the index and disconnect."""
        self._client.indices.delete(index=self._index)
        self._client.close()
