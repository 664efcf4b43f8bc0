"""The pass over all vectors: the product of a large matrix and a vector.

`numpy.einsum` computes in the thread that calls it. A BLAS library shares such a product among
threads that wait for each other, so that one whose core is busy, with another search or another
process, holds up all. Here the threads that help take block by block, and nobody waits for them:
a block that a helper has taken and not finished is computed again.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from agentmem.backends.base import Vector

_BLOCK = 4_096
_SHARED_FROM = 32_768
_MOST_HELPERS = 3


class Products:
    """Computes products, with the help of the machine's other cores where it pays."""

    def __init__(self) -> None:
        helpers = min((os.cpu_count() or 1) - 1, _MOST_HELPERS)
        self._helpers = helpers
        self._pool = ThreadPoolExecutor(max(helpers, 1), thread_name_prefix="agentmem-pass")

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def of(self, matrix: Vector, vector: Vector) -> Vector:
        """Return the product of each row with `vector`, float32 of shape (rows,)."""
        if len(matrix) < _SHARED_FROM:
            return _product(matrix, vector)
        starts = range(0, len(matrix), _BLOCK)
        left, parts = deque(starts), dict[int, Vector]()

        def work() -> None:
            while left:
                try:
                    start = left.popleft()
                except IndexError:  # somebody else has taken the last one
                    return
                parts[start] = _product(matrix[start : start + _BLOCK], vector)

        helpers = [self._pool.submit(work) for _ in range(self._helpers)]
        work()
        for helper in helpers:
            helper.cancel()
        return np.concatenate(
            [
                parts[start] if start in parts else _product(matrix[start : start + _BLOCK], vector)
                for start in starts
            ]
        )


def _product(matrix: Vector, vector: Vector) -> Vector:
    values: Vector = np.einsum("ij,j->i", matrix, vector)
    return values
