"""Makes of a memory of today what an earlier release would have left, for tests of migrations."""

from __future__ import annotations

from pathlib import Path

import apsw
import numpy as np

from agentmem.models.base import Floats
from agentmem.models.token_codes import _rotation, decode
from agentmem.models.vector_codes import from_steps

_ADDED = {2: "receipts", 3: "staged_chunks"}


def downgrade(folder: Path, version: int) -> None:
    """Give the database at `folder` the schema and the codes of a version before 4."""
    with apsw.Connection(str(folder / "memory.db")) as connection:
        for later, table in _ADDED.items():
            if later > version:
                connection.execute(f"DROP TABLE {table}")
        vectors = list(connection.execute("SELECT chunk_row, embedding FROM vectors"))
        connection.executemany(
            "UPDATE vectors SET embedding = ?2 WHERE chunk_row = ?1",
            [(row, former_vector(code)) for row, code in vectors],
        )
        codes = list(connection.execute("SELECT chunk_row, code FROM codes"))
        connection.executemany(
            "UPDATE codes SET code = ?2 WHERE chunk_row = ?1",
            [(row, former_code(token_vectors(code))) for row, code in codes],
        )
        connection.pragma("user_version", version)
    connection.close()


def former_vector(code: bytes) -> bytes:
    """Return a vector as it was stored before: float32, little-endian."""
    return bytes(from_steps(np.frombuffer(code, dtype=np.int8)).astype("<f4").tobytes())


def token_vectors(code: bytes) -> Floats:
    """Return what a token code stands for, in the model's own dimensions."""
    found = decode([code])
    turned = found.steps / np.linalg.norm(found.steps, axis=1, keepdims=True)
    vectors: Floats = turned @ _rotation(turned.shape[1]).T
    return vectors


def former_code(vectors: Floats) -> bytes:
    """Return token vectors as they were stored before: half a byte a dimension, then scales."""
    steps = np.rint(vectors / np.abs(vectors).max(axis=1, keepdims=True) * 7)
    halves = (steps + 8).astype(np.uint8)
    scales = (1 / np.linalg.norm(steps, axis=1)).astype("<f2")
    packed = halves[:, 0::2] | (halves[:, 1::2] << 4)
    return b"".join((bytes((1, vectors.shape[1] // 2)), packed.tobytes(), scales.tobytes()))
