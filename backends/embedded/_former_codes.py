"""Reads the vectors and token codes of schema versions before 4, for the migration."""

from __future__ import annotations

from typing import Any

import apsw
import numpy as np

from agentmem.models import token_codes
from agentmem.models.base import Floats
from agentmem.models.vector_codes import to_steps

_HEADER = 2
_SCALE = 2
_ZERO = 8


def offer(connection: apsw.Connection) -> None:
    """Make `smaller_vector` and `smaller_code` known to SQL; of damaged bytes they make none."""
    connection.create_scalar_function("smaller_vector", _vector, 1, deterministic=True)
    connection.create_scalar_function("smaller_code", _code, 1, deterministic=True)


def withdraw(connection: apsw.Connection) -> None:
    """Take them away."""
    connection.create_scalar_function("smaller_vector", None, 1)
    connection.create_scalar_function("smaller_code", None, 1)


def _vector(*values: Any) -> bytes:
    """Return the code of a vector of float32, little-endian."""
    (former,) = values
    if not former or len(former) % 4:
        return b""
    return to_steps(np.frombuffer(former, dtype="<f4")).tobytes()


def _code(*values: Any) -> bytes:
    """Return the code of what a code of the first version stands for."""
    vectors = _first_version(values[0])
    if vectors is None or vectors.shape[1] % 4:
        return b""
    (code,) = token_codes.encode([vectors])
    return code


def _first_version(code: bytes) -> Floats | None:
    """Return token vectors, not normalised; None when the code is damaged.

    After the header, version and dimensions / 2, come the tokens: half a byte a dimension, low half
    first, holding a step + 8. What scales them stands behind all tokens and does not matter here.
    """
    width = code[1] if len(code) >= _HEADER else 0
    if not width or code[0] != 1 or (len(code) - _HEADER) % (width + _SCALE):
        return None
    tokens = (len(code) - _HEADER) // (width + _SCALE)
    packed = np.frombuffer(code, dtype=np.uint8, count=tokens * width, offset=_HEADER)
    halves = np.stack([packed & 15, packed >> 4], axis=1).astype(np.float32) - _ZERO
    return halves.reshape(tokens, 2 * width)
