"""Keeps the searches of a memory in a file, when `Settings.search_log` names one.

One JSON object a line: when, the question, its scope, the ids of the hits, milliseconds. It is
written behind the answer, never holds the loop up, and never makes a search fail.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path

from agentmem._filters import to_json
from agentmem._types import SearchResult
from agentmem.pipeline import SearchRequest

_LOG = logging.getLogger(__name__)


class SearchLog:
    """Appends to one file, which several processes may share."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._warned = False

    async def add(self, request: SearchRequest, result: SearchResult) -> None:
        """Append a search; a file that cannot be written is told of once in the log."""
        line = json.dumps(_record(request, result), ensure_ascii=False) + "\n"
        try:
            await asyncio.to_thread(self._append, line.encode("utf-8"))
        except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
            if not self._warned:
                self._warned = True
                _LOG.warning("searches cannot be logged to %s: %s", self._path, error)

    def _append(self, line: bytes) -> None:
        # One write to a file opened for appending: lines of two processes do not mix.
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)


def _record(request: SearchRequest, result: SearchResult) -> dict[str, object]:
    return {
        "at": request.now.isoformat(),
        "tenant": request.tenant,
        "query": request.query,
        "user_id": request.user_id,
        "collections": None if request.collections is None else list(request.collections),
        "where": None if request.where is None else to_json(request.where),
        "as_of": None if request.as_of is None else request.as_of.isoformat(),
        "hits": [hit.document_id for hit in result.hits],
        "milliseconds": round(result.trace.milliseconds, 3),
    }
