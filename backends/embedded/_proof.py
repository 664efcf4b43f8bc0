"""Looks for what was purged in every byte of the folder.

Before a purge, fingerprints are taken: pieces of 16 bytes from texts, keys, metadata, vectors and
token codes, as they lie in the files. Pieces that remaining documents hold as well are put aside.
After the purge every file is searched for the others. Long words are looked for in the index's own
form too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from agentmem._terms import analyze
from agentmem._types import Scan
from agentmem.backends._rules import searchable_text
from agentmem.backends.base import Forgotten

LENGTH = 16
_HALF = LENGTH // 2
_BLOCK = 64 << 10
_FEW = 48
_CODE_HEADER = 2

_TEXTS = """
SELECT content, title, source_uri, key, metadata FROM documents {where}
"""
_BLOBS = """
SELECT v.embedding, k.code FROM documents d JOIN chunks c USING (version_row)
LEFT JOIN vectors v USING (chunk_row) LEFT JOIN codes k USING (chunk_row) {where}
UNION ALL
SELECT s.embedding, s.code FROM documents d JOIN staged_chunks s USING (version_row) {where}
"""
_OF_THESE = "WHERE document_id IN (SELECT value FROM json_each(?1))"


class Fingerprints:
    """What must not be found any more.

    Parameters
    ----------
    pieces
        Byte strings of `LENGTH` bytes.
    of_terms
        Those of them that come from index terms.
    """

    def __init__(self, pieces: Iterable[bytes], of_terms: Iterable[bytes] = ()) -> None:
        self._of_terms = frozenset(of_terms)
        self._pieces = frozenset(pieces) | self._of_terms

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self._pieces)

    @cached_property
    def _heads(self) -> NDArray[np.uint64]:
        return np.array(sorted({_head(piece) for piece in self._pieces}), dtype=np.uint64)

    def found_in(self, data: bytes) -> set[bytes]:
        """Return the pieces that occur in `data`."""
        if len(self._pieces) <= _FEW:
            return {piece for piece in self._pieces if piece in data}
        found: set[bytes] = set()
        # Every byte is the start of an 8-byte number in one of eight passes over the data.
        for shift in range(_HALF):
            size = (len(data) - shift) // _HALF * _HALF
            if size <= 0:
                break
            numbers = np.frombuffer(data, dtype="<u8", count=size // _HALF, offset=shift)
            places = np.searchsorted(self._heads, numbers)
            places[places == len(self._heads)] = 0
            for place in np.flatnonzero(self._heads[places] == numbers).tolist():
                start = shift + place * _HALF
                piece = data[start : start + LENGTH]
                if piece in self._pieces:
                    found.add(piece)
        return found

    def without_survivors(self, connection: apsw.Connection) -> Fingerprints:
        """Return the fingerprints without those that remaining documents hold too."""
        left = self
        # Making terms takes longer than all else; words long enough for a piece are rare.
        for data in _survivors(connection, with_terms=bool(self._of_terms)):
            found = left.found_in(data)
            if found:
                left = Fingerprints(left._pieces - found, left._of_terms - found)
        return left


def _head(piece: bytes) -> int:
    return int.from_bytes(piece[:_HALF], "little")


def collect(connection: apsw.Connection, documents: Sequence[Forgotten]) -> Fingerprints:
    """Return fingerprints of documents that are about to be purged."""
    ids = json.dumps([document.document_id for document in documents])
    pieces: set[bytes] = set()
    of_terms: set[bytes] = set()
    for row in connection.execute(_TEXTS.format(where=_OF_THESE), (ids,)):
        for text in _texts_of(row):
            pieces.update(_windows(text.encode("utf-8")))
        for term in set(analyze(searchable_text(row[1], row[0]))):
            of_terms.update(_windows(term.encode("utf-8")))
    where = _OF_THESE.replace("document_id", "d.document_id", 1)
    for vector, code in connection.execute(_BLOBS.format(where=where), (ids,)):
        pieces.update(_windows(vector or b""), _windows((code or b"")[_CODE_HEADER:]))
    return Fingerprints(pieces, of_terms)


def _texts_of(row: Sequence[Any]) -> Iterator[str]:
    content, title, source_uri, key, metadata = row
    yield from (text for text in (content, title, source_uri, key) if text)
    yield from _strings(json.loads(metadata))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _windows(data: bytes) -> Iterator[bytes]:
    """Yield pieces from the start, the middle and the end."""
    last = len(data) - LENGTH
    if last >= 0:
        for start in (0, last // 2, last):
            yield data[start : start + LENGTH]


def _survivors(connection: apsw.Connection, *, with_terms: bool) -> Iterator[bytes]:
    """Yield what remaining documents consist of, in blocks."""
    block, size = [], 0
    for piece in _remaining(connection, with_terms=with_terms):
        block.append(piece)
        size += len(piece)
        if size >= _BLOCK:
            yield b"\n".join(block)
            block, size = [], 0
    if block:
        yield b"\n".join(block)


def _remaining(connection: apsw.Connection, *, with_terms: bool) -> Iterator[bytes]:
    for row in connection.execute(_TEXTS.format(where="")):
        yield from (text.encode("utf-8") for text in row if text)
        if with_terms:
            yield " ".join(set(analyze(searchable_text(row[1], row[0])))).encode("utf-8")
    for blobs in connection.execute(_BLOBS.format(where="")):
        yield from (blob for blob in blobs if blob)


def scan(folder: Path, fingerprints: Fingerprints) -> Scan:
    """Search every file below `folder` for fingerprints."""
    start = time.perf_counter()
    files = size = 0
    found = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        pieces: set[bytes] = set()
        for block in _blocks(path):
            pieces |= fingerprints.found_in(block)
            size += len(block)
        files += 1
        if pieces:
            found.append(f"{path.relative_to(folder)}: {len(pieces)}")
    return Scan(
        files=files,
        bytes=size,
        fingerprints=len(fingerprints),
        found=tuple(found),
        milliseconds=(time.perf_counter() - start) * 1000,
    )


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield a file in blocks that overlap by what could lie across their border."""
    try:
        with path.open("rb") as file:
            tail = b""
            while data := file.read(_BLOCK):
                yield tail + data
                tail = data[-(LENGTH - 1) :]
    except FileNotFoundError:
        return  # removed meanwhile by another process
