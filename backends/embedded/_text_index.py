"""The tantivy index: derived from SQLite, brought up to date before each search.

Each chunk is one tantivy document with three fields: its `chunk_row`, its `scope_id` and its terms.
Nothing is stored, and tantivy never parses a text: `agentmem._terms` makes the terms. A small file
beside the index says which change of SQLite it has reached; after a crash the missing tail is
indexed again, which does no harm because a chunk is deleted before it is added.

tantivy allows one writer for each folder. The lock is held for one batch and waited for up to the
lock timeout; whoever holds it may be doing the very work that this process was about to do.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import tantivy
from numpy.typing import NDArray

from agentmem._terms import analyze
from agentmem.backends._rules import searchable_text
from agentmem.backends.embedded._allocator import large_blocks_given_back
from agentmem.backends.embedded._errors import index_errors
from agentmem.backends.embedded._schema import counter
from agentmem.errors import StoreError, StoreFullError, StoreLockedError

_LOG = logging.getLogger(__name__)

FOLDER = "text"
_STATE = "agentmem.json"
_TOKENIZER = "agentmem"
_HEAP_BYTES = 32_000_000
_BATCH = 20_000
_POLL_SECONDS = 0.01
_CHANGED = """
SELECT c.chunk_row, d.scope_id, d.deleted_at IS NULL, d.title,
       substr(d.content, c.start + 1, c.stop - c.start)
FROM documents d JOIN chunks c USING (version_row)
WHERE d.text_change > ? ORDER BY c.chunk_row
"""


@dataclass(frozen=True, slots=True)
class _Open:
    """An index that is open, with the generation and change it stands for."""

    index: tantivy.Index
    schema: tantivy.Schema
    generation: int
    change: int
    path: Path | None


class TextIndex:
    """BM25 over the chunks of one memory.

    Parameters
    ----------
    folder
        The memory's folder; None keeps the index in RAM.
    lock_timeout
        Seconds to wait for another process that writes the index.
    read_only
        Use the index on disk while it is up to date, and else one in RAM.
    tune_allocator
        Give the memory of each commit back; see `Settings.tune_allocator`.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        lock_timeout: float,
        read_only: bool = False,
        tune_allocator: bool = True,
    ) -> None:
        self._read_only = read_only
        self._commit = large_blocks_given_back if tune_allocator else nullcontext
        self._folder = None if folder is None else folder / FOLDER
        self._lock_timeout = lock_timeout
        self._lock = threading.Lock()
        self._held: _Open | None = None

    def search(
        self,
        connection: apsw.Connection,
        terms: Sequence[str],
        limit: int,
        *,
        scope_ids: Sequence[int] | None = None,
        chunk_rows: Sequence[int] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return chunk rows and BM25 scores of the best `limit` chunks.

        `scope_ids` and `chunk_rows` narrow the search; None means all. The connection's open
        transaction decides what must be in the index by now.
        """
        held = self.catch_up(connection)
        with index_errors():
            searcher = held.index.searcher()
            query = _query(held.schema, terms, scope_ids, chunk_rows)
            found = searcher.search(query, limit, count=False)
            addresses = [address for _, address in found.hits]
            rows = searcher.fast_field_values("chunk_row", addresses)
        scores = np.fromiter((score for score, _ in found.hits), dtype=np.float64)
        return np.array(rows, dtype=np.int64), scores

    def rows(self, connection: apsw.Connection) -> list[int]:
        """Return the `chunk_row` of every chunk in the index."""
        held = self.catch_up(connection)
        with index_errors():
            searcher = held.index.searcher()
            if not searcher.num_docs:
                return []
            found = searcher.search(tantivy.Query.all_query(), searcher.num_docs, count=False)
            addresses = [address for _, address in found.hits]
            values = searcher.fast_field_values("chunk_row", addresses)
            return [value for value in values if isinstance(value, int)]

    def catch_up(self, connection: apsw.Connection) -> _Open:
        """Bring the index to the state that `connection`'s open transaction sees."""
        generation = counter(connection, "generation")
        change = counter(connection, "change")
        with self._lock:
            held = self._held
            if held is None or held.generation != generation:
                held = self._open(generation)
            if held.change < change and self._read_only and held.path is not None:
                held = _in_ram(generation)
            if held.change < change:
                held = self._update(connection, held, change)
            self._held = held
            return held

    def close(self) -> None:
        """Let go of the index."""
        with self._lock:
            self._held = None

    def _open(self, generation: int) -> _Open:
        path = self._path(generation)
        if self._read_only and (path is None or not self._stored_change(path)):
            return _in_ram(generation)
        schema = _schema()
        try:
            index = _open_folder(schema, path)
        except ValueError:
            return _in_ram(generation) if self._read_only else self._made_anew(generation)
        return _Open(index, schema, generation, self._stored_change(path), path)

    def _made_anew(self, generation: int) -> _Open:
        """Return an empty index in place of a damaged one: nothing in it is the only copy."""
        _LOG.warning("the text index is damaged and is being rebuilt")
        path = self._path(generation)
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        schema = _schema()
        with index_errors():
            return _Open(_open_folder(schema, path), schema, generation, 0, path)

    def _update(self, connection: apsw.Connection, held: _Open, change: int) -> _Open:
        try:
            held = self._write_tail(connection, held, change)
        except StoreError as error:
            if isinstance(error, StoreFullError | StoreLockedError):
                raise
            # A crash in the middle of a commit can leave files behind that block the next one.
            held = self._write_tail(connection, self._made_anew(held.generation), change)
        with index_errors():
            held.index.reload()
        return held

    def _write_tail(self, connection: apsw.Connection, held: _Open, change: int) -> _Open:
        """Index what is missing, or wait until another process has done so."""
        path = held.path
        give_up = time.monotonic() + self._lock_timeout
        reached = held.change
        while reached < change:
            reached = max(held.change, self._stored_change(path))
            if reached >= change or self._try_to_write(connection, held, reached, change):
                return replace(held, change=max(reached, change))
            if time.monotonic() > give_up:
                raise StoreLockedError(
                    "could not search: another process kept the text index locked for "
                    f"{self._lock_timeout:g} s; try again, or raise lock_timeout"
                )
            time.sleep(_POLL_SECONDS)
        return held

    def _try_to_write(
        self, connection: apsw.Connection, held: _Open, reached: int, change: int
    ) -> bool:
        """Index the rows that changed after `reached`; False when another process is writing."""
        stored = connection.execute(_CHANGED, (reached,))
        batch = list(islice(stored, _BATCH))
        if not batch:
            return True
        with index_errors(), self._commit():
            try:
                writer = held.index.writer(_HEAP_BYTES, 1)
            except ValueError as error:
                if "lock" in str(error).lower():
                    return False
                raise
            fresh = held.index.searcher().num_docs == 0
            while batch:
                _add(writer, batch, fresh)
                batch = list(islice(stored, _BATCH))
            opstamp = writer.commit()
            writer.wait_merging_threads()
        self._store_change(held, change, opstamp)
        return True

    def _path(self, generation: int) -> Path | None:
        return None if self._folder is None else self._folder / str(generation)

    def _stored_change(self, path: Path | None) -> int:
        """Return the change that the index on disk has reached, 0 when that cannot be trusted."""
        if path is None:
            return 0
        try:
            state = json.loads((path / _STATE).read_bytes())
            index = json.loads((path / "meta.json").read_bytes())
            # A state that is ahead of the index belongs to files that are no longer there.
            return int(state["change"]) if index["opstamp"] >= state["opstamp"] else 0
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return 0

    def _store_change(self, held: _Open, change: int, opstamp: int) -> None:
        path = held.path
        if path is None or self._folder is None:
            return
        temporary = path / f"{_STATE}.{os.getpid()}"
        temporary.write_text(json.dumps({"change": change, "opstamp": opstamp}))
        temporary.replace(path / _STATE)
        for other in self._folder.iterdir():
            if other.name.isdecimal() and int(other.name) < held.generation:
                shutil.rmtree(other, ignore_errors=True)


def _in_ram(generation: int) -> _Open:
    """Return an empty index that leaves no trace on disk."""
    schema = _schema()
    return _Open(_open_folder(schema, None), schema, generation, 0, None)


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("terms", stored=False, tokenizer_name=_TOKENIZER, index_option="freq")
    builder.add_integer_field("chunk_row", stored=False, indexed=True, fast=True)
    builder.add_integer_field("scope_id", stored=False, indexed=True)
    return builder.build()


def _open_folder(schema: tantivy.Schema, path: Path | None) -> tantivy.Index:
    if path is None:
        index = tantivy.Index(schema)
    else:
        path.mkdir(parents=True, exist_ok=True)
        index = tantivy.Index(schema, path=str(path), reuse=True)
    whitespace = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    index.register_tokenizer(_TOKENIZER, whitespace)
    return index


def _add(writer: tantivy.IndexWriter, rows: Iterable[tuple[Any, ...]], fresh: bool) -> None:
    for chunk_row, scope_id, alive, title, text in rows:
        if not fresh:
            writer.delete_documents_by_term("chunk_row", chunk_row)
        if alive:
            document = tantivy.Document()
            document.add_integer("chunk_row", chunk_row)
            document.add_integer("scope_id", scope_id)
            document.add_text("terms", " ".join(analyze(searchable_text(title, text))))
            writer.add_document(document)


def _query(
    schema: tantivy.Schema,
    terms: Sequence[str],
    scope_ids: Sequence[int] | None,
    chunk_rows: Sequence[int] | None,
) -> tantivy.Query:
    words = tantivy.Query.boolean_query(
        [
            (tantivy.Occur.Should, tantivy.Query.term_query(schema, "terms", term, "freq"))
            for term in terms
        ]
    )
    must = [(tantivy.Occur.Must, words)]
    for field, allowed in (("scope_id", scope_ids), ("chunk_row", chunk_rows)):
        if allowed is not None:
            one_of = tantivy.Query.term_set_query(schema, field, list(allowed))
            must.append((tantivy.Occur.Must, tantivy.Query.const_score_query(one_of, 0.0)))
    return tantivy.Query.boolean_query(must)
