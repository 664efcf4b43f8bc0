"""Embeds texts with a model inside the database, one round trip for a batch.

The texts travel as one JSON list. The database reads a text as VARCHAR2, so what goes beyond the
first characters is cut off; a model of 256 tokens reads no further anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentmem.backends.base import Vector
from agentmem.backends.oracle._connection import Row
from agentmem.backends.oracle._names import VARCHAR_BYTES
from agentmem.backends.oracle._values import Bind, json_bind, to_vector


def embed_statement(model: str, texts: Sequence[str]) -> tuple[str, dict[str, Bind]]:
    """Return the query for the vectors of `texts`, in order. `model` is a checked name."""
    sql = f"""SELECT VECTOR_EMBEDDING({model} USING t.content AS DATA) AS embedding
FROM JSON_TABLE(:texts, '$[*]' COLUMNS
  (place FOR ORDINALITY, content VARCHAR2({VARCHAR_BYTES:d}) PATH '$')) t
ORDER BY t.place"""
    return sql, {"texts": json_bind([_cut(text) for text in texts])}


def _cut(text: str) -> str:
    data = text.encode("utf-8")
    return text if len(data) <= VARCHAR_BYTES else data[:VARCHAR_BYTES].decode("utf-8", "ignore")


def read_vectors(rows: Sequence[Row]) -> Vector:
    """Return the vectors, float32 of shape (texts, dimensions)."""
    return np.array([to_vector(row[0]) for row in rows], dtype=np.float32)
