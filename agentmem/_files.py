"""Reads and writes files of memories with DuckDB: Parquet and JSON lines, and tables of others.

A file of ours has one row for each version of a document: the columns of `COLUMNS`, times in UTC,
metadata as JSON text, and the chunks as a list of structures with vector (float32) and token codes
(base64). Rows stand in list order, versions oldest first.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem._filters import canonical_json, encode_metadata, read_metadata
from agentmem._types import Document
from agentmem.backends.base import ChunkToWrite, DumpedVersion, Micros, StoredRow
from agentmem.errors import InvalidInputError

if TYPE_CHECKING:
    import duckdb

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_CHUNK = (
    "STRUCT(chunk_index INTEGER, span_start INTEGER, span_end INTEGER, tokens INTEGER, "
    "vector FLOAT[], codes VARCHAR)[]"
)
COLUMNS = {
    "document_id": "VARCHAR", "version": "INTEGER", "key": "VARCHAR", "user_id": "VARCHAR",
    "collection": "VARCHAR", "title": "VARCHAR", "source_uri": "VARCHAR", "metadata": "VARCHAR",
    "content": "VARCHAR", "first_created_at": "TIMESTAMP", "created_at": "TIMESTAMP",
    "valid_from": "TIMESTAMP", "valid_until": "TIMESTAMP", "expires_at": "TIMESTAMP",
    "deleted_at": "TIMESTAMP", "embedder": "VARCHAR", "chunks": _CHUNK,
}  # fmt: skip
_FORMATS = {".parquet": "parquet", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}
_READERS = {"parquet": "read_parquet(?)", "csv": "read_csv(?)", "json": "read_json_auto(?)"}
_FIELDS = frozenset(Document.__dataclass_fields__) - {"metadata"}
_TIMES = ("valid_from", "valid_until", "expires_at")
_FETCHED = 256
_MEMORY = "512MB"


def file_format(path: Path, *, foreign: bool) -> str:
    """Return the format that a file's name stands for.

    Raises
    ------
    InvalidInputError
        The name has another ending.
    """
    found = _FORMATS.get(path.suffix.lower())
    if found is None or (found == "csv" and not foreign):
        endings = ", ".join(e for e in _FORMATS if foreign or e != ".csv")
        raise InvalidInputError(f"{str(path)!r} must end in one of {endings}")
    return found


class Writer:
    """Writes versions to a file, which appears under its name only when it is complete."""

    def __init__(self, path: Path, *, embedder: str, vectors: bool) -> None:
        self._format = file_format(path, foreign=False)
        self._path = path
        self._partial = path.with_name(f".{path.name}.partial")
        self._embedder = embedder if vectors else None
        self._vectors = vectors
        # On disk, so that a large memory needs no more RAM than a small one.
        self._scratch = path.with_name(f".{path.name}.duckdb")
        self._scratch.unlink(missing_ok=True)
        self._database = _database(str(self._scratch))
        columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
        self._database.execute(f"CREATE TABLE versions ({columns})")
        self._insert = f"INSERT INTO versions VALUES ({', '.join('?' * len(COLUMNS))})"

    def add(self, documents: Sequence[Sequence[DumpedVersion]]) -> None:
        """Add every version of some documents."""
        rows = [self._row(version) for document in documents for version in document]
        if rows:
            self._database.executemany(self._insert, rows)

    def finish(self) -> None:
        """Write the file."""
        options = "FORMAT parquet" if self._format == "parquet" else "FORMAT json, ARRAY false"
        try:
            self._database.execute(f"COPY versions TO '{_quoted(self._partial)}' ({options})")
            self._partial.replace(self._path)
        finally:
            self.close()

    def close(self) -> None:
        """Give up what is not finished."""
        self._database.close()
        for left in (self._partial, self._scratch, Path(f"{self._scratch}.wal")):
            left.unlink(missing_ok=True)

    def _row(self, version: DumpedVersion) -> list[Any]:
        row = version.row
        chunks = [self._chunk(chunk) for chunk in version.chunks] if self._vectors else []
        return [
            row.document_id, row.version, row.key, row.user_id, row.collection, row.title,
            row.source_uri, canonical_json(encode_metadata(row.metadata)), row.content,
            _time(row.first_created_at), _time(row.created_at), _time(row.valid_from),
            _time(row.valid_until), _time(row.expires_at), _time(row.deleted_at),
            self._embedder, chunks,
        ]  # fmt: skip

    def _chunk(self, chunk: ChunkToWrite) -> dict[str, Any]:
        codes = None if chunk.codes is None else base64.b64encode(chunk.codes).decode("ascii")
        return {
            "chunk_index": chunk.chunk_index,
            "span_start": chunk.start,
            "span_end": chunk.end,
            "tokens": chunk.tokens,
            "vector": chunk.vector.tolist(),
            "codes": codes,
        }


def read_versions(path: Path) -> Iterator[tuple[str | None, list[DumpedVersion]]]:
    """Yield the documents of a file of ours, each with the embedder that made its vectors.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is not one of ours.
    """
    kind = file_format(path, foreign=False)
    columns = json.dumps(COLUMNS).replace('"', "'")
    source = f"read_json(?, format='newline_delimited', columns={columns})"
    rows = _rows(path, "read_parquet(?)" if kind == "parquet" else source, list(COLUMNS))
    try:
        for _, versions in groupby(rows, key=lambda row: row["document_id"]):
            found = list(versions)
            yield found[0]["embedder"], [_version(row) for row in found]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{str(path)!r} is not a file that agentmem has exported ({error})"
        ) from error


def _version(row: Mapping[str, Any]) -> DumpedVersion:
    stored = StoredRow(
        document_id=row["document_id"],
        version=row["version"],
        user_id=row["user_id"],
        collection=row["collection"],
        key=row["key"],
        title=row["title"],
        source_uri=row["source_uri"],
        content=row["content"],
        metadata=read_metadata(row["metadata"]),
        first_created_at=_micros(row["first_created_at"]) or 0,
        created_at=_micros(row["created_at"]) or 0,
        valid_from=_micros(row["valid_from"]),
        valid_until=_micros(row["valid_until"]),
        expires_at=_micros(row["expires_at"]),
        deleted_at=_micros(row["deleted_at"]),
    )
    return DumpedVersion(row=stored, chunks=tuple(map(_chunk, row["chunks"] or ())))


def _chunk(chunk: Mapping[str, Any]) -> ChunkToWrite:
    codes = chunk["codes"]
    return ChunkToWrite(
        chunk_index=chunk["chunk_index"],
        start=chunk["span_start"],
        end=chunk["span_end"],
        tokens=chunk["tokens"],
        vector=np.array(chunk["vector"], dtype=np.float32),
        codes=None if codes is None else base64.b64decode(codes),
    )


def read_table(path: Path, columns: Mapping[str, str]) -> Iterator[Document]:
    """Yield a document for each row of anybody's table.

    Parameters
    ----------
    columns
        For each field of `Document`, or ``metadata.name``, the column that holds it.

    Raises
    ------
    InvalidInputError
        The file or a column cannot be used.
    """
    for field in columns:
        if field not in _FIELDS and not field.startswith("metadata."):
            known = ", ".join(sorted(_FIELDS))
            raise InvalidInputError(
                f"{field!r} is no field of a document; use {known} or metadata.NAME"
            )
    if "content" not in columns:
        raise InvalidInputError("say which column holds the content: {'content': 'column'}")
    names = list(dict.fromkeys(columns.values()))
    source = _READERS[file_format(path, foreign=True)]
    for row in _rows(path, source, names):
        yield _document({field: row[column] for field, column in columns.items()})


def _document(values: Mapping[str, Any]) -> Document:
    metadata = {
        field.removeprefix("metadata."): _plain(value)
        for field, value in values.items()
        if field.startswith("metadata.") and value is not None
    }
    named: dict[str, Any] = {
        field: _instant(value) if field in _TIMES else _text(value)
        for field, value in values.items()
        if field in _FIELDS and value is not None
    }
    return Document(**{"content": "", **named}, metadata=metadata or None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _instant(value: Any) -> Any:
    """Return a time; one without a time zone is UTC, as everywhere in files."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def _plain(value: Any) -> Any:
    """Return a cell as metadata can hold it."""
    if isinstance(value, date):
        return _instant(value)
    if value is None or isinstance(value, (bool, int, float, str, list, dict)):
        return value
    return str(value)


def _rows(path: Path, source: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    import duckdb

    if not path.is_file():
        raise InvalidInputError(f"there is no file {str(path)!r}")
    listed = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    database = _database()
    try:
        result = database.execute(f"SELECT {listed} FROM {source}", (str(path),))
        while rows := result.fetchmany(_FETCHED):
            for row in rows:
                yield dict(zip(names, row, strict=True))
    except duckdb.Error as error:
        first = str(error).splitlines()[0]
        raise InvalidInputError(f"{str(path)!r} cannot be read: {first}") from error
    finally:
        database.close()


def _database(name: str = ":memory:") -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect(
        name,
        config={
            # No extension is ever fetched from the network.
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": _MEMORY,
            "threads": 1,
        },
    )


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _time(moment: Micros | None) -> datetime | None:
    return None if moment is None else _EPOCH + moment * _MICROSECOND


def _micros(moment: datetime | None) -> Micros | None:
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND
