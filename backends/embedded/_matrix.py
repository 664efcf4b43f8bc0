"""The resident matrix: the codes of all sentence vectors, one byte a dimension, and their lengths.

Codes are compared with the query's code as they are. NumKong multiplies bytes with the widest
instructions that the machine has, in the calling thread and without holding up others: a fraction
of the time that the same product of floats takes, which are four times the bytes to fetch from RAM.
"""

from __future__ import annotations

from collections.abc import Sequence

import numkong
import numpy as np
from numpy.typing import NDArray

from agentmem.backends.base import Vector
from agentmem.errors import StoreCorruptError
from agentmem.models.vector_codes import Steps, to_steps


class Matrix:
    """Vectors by place; those that were never put are zero.

    Parameters
    ----------
    capacity
        How many vectors there is room for.
    dimensions
        Length of each.
    """

    def __init__(self, capacity: int, dimensions: int) -> None:
        self._steps: Steps = np.zeros((capacity, dimensions), dtype=np.int8)
        # 1 / length of each row; 0 for a row of zeros.
        self._scales: Vector = np.zeros(capacity, dtype=np.float32)

    def __len__(self) -> int:
        """Return how many vectors there is room for."""
        return len(self._steps)

    def enlarged(self, capacity: int) -> Matrix:
        """Return a copy with room for `capacity` vectors."""
        larger = Matrix(capacity, self._steps.shape[1])
        larger._steps[: len(self)] = self._steps
        larger._scales[: len(self)] = self._scales
        return larger

    def only(self, places: NDArray[np.int64], capacity: int) -> Matrix:
        """Return a copy of the vectors at `places`, in that order, with room for `capacity`."""
        fewer = Matrix(capacity, self._steps.shape[1])
        fewer._steps[: len(places)] = self._steps[places]
        fewer._scales[: len(places)] = self._scales[places]
        return fewer

    def put(self, places: NDArray[np.int64], codes: Sequence[bytes]) -> None:
        """Set the vectors at `places`, a code for each.

        Raises
        ------
        StoreCorruptError
            A code has not the length of the others.
        """
        steps = read_steps(codes, self._steps.shape[1])
        squares = np.einsum("ij,ij->i", steps, steps, dtype=np.float32)
        self._steps[places] = steps
        self._scales[places] = np.where(squares > 0, 1 / np.sqrt(np.maximum(squares, 1)), 0)

    def clear(self, places: NDArray[np.int64]) -> None:
        """Set the vectors at `places` to zero."""
        self._steps[places] = 0
        self._scales[places] = 0

    def steps(self, places: NDArray[np.int64]) -> Steps:
        """Return the codes at `places`, int8 of shape (places, dimensions)."""
        return self._steps[places]

    def similarities(
        self, places: NDArray[np.int64], rows: int, vector: Vector
    ) -> NDArray[np.float32]:
        """Return cosine similarities in single precision.

        Parameters
        ----------
        places
            Whose; ascending and below `rows`.
        rows
            Number of vectors in use.
        vector
            float32 of shape (dimensions,), L2-normalised.
        """
        code = to_steps(vector)
        scale = np.float32(1 / max(float(np.linalg.norm(code.astype(np.float32))), 1.0))
        # Reading the matrix once in order beats gathering scattered rows from about a quarter on.
        if len(places) * 4 >= rows:
            values = _products(self._steps[:rows], code) * (self._scales[:rows] * scale)
            return values if len(places) == rows else values[places]
        return _products(self._steps[places], code) * (self._scales[places] * scale)


def _products(steps: Steps, code: Steps) -> NDArray[np.float32]:
    if not len(steps):
        return np.zeros(0, dtype=np.float32)
    products = np.asarray(numkong.cdist(code[None], steps, "dot"))
    values: NDArray[np.float32] = products.reshape(len(steps)).astype(np.float32)
    return values


def read_steps(codes: Sequence[bytes], dimensions: int) -> Steps:
    """Return stored codes as int8 of shape (codes, dimensions).

    Raises
    ------
    StoreCorruptError
        A code has another length.
    """
    if any(len(code) != dimensions for code in codes):
        raise damaged_vectors()
    return np.frombuffer(b"".join(codes), dtype=np.int8).reshape(len(codes), dimensions)


def damaged_vectors() -> StoreCorruptError:
    """Return the error of vectors that have not the model's length."""
    return StoreCorruptError(
        "some stored vectors are damaged; run verify(repair=True) to make them anew"
    )
