"""Sentence vectors as small codes: one byte a dimension.

A vector is divided by its largest magnitude and rounded to whole steps from -127 to 127; the steps
are the code. Only the direction of a vector counts, so its length need not be kept. Passages are
rounded before an engine stores them and queries before they are compared: every engine then holds
the same vectors, and the same text has the similarity 1.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentmem.models.base import Floats

Steps: TypeAlias = NDArray[np.int8]

_STEPS = 127.0
_TINY = 1e-9


def to_steps(vectors: Floats) -> Steps:
    """Return the code of each vector.

    Parameters
    ----------
    vectors
        float32 of shape (..., dimensions), of any length.

    Returns
    -------
    NDArray[int8]
        Of the same shape. The code of what `from_steps` returns is the code it came from.
    """
    largest = np.maximum(np.abs(vectors).max(axis=-1, keepdims=True), _TINY)
    steps: Steps = np.rint(vectors / largest * _STEPS).astype(np.int8)
    return steps


def from_steps(steps: Steps) -> Floats:
    """Return the vectors that codes stand for, float32 of the same shape, L2-normalised."""
    vectors = steps.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    units: Floats = vectors / np.maximum(lengths, _TINY)
    return units


def rounded(vectors: Floats) -> Floats:
    """Return `vectors` as they are once they have been stored."""
    return from_steps(to_steps(vectors))
