"""The 256 points that blocks of four coordinates are rounded to, and the nearest of them.

They are those points with odd coordinates whose sum is a multiple of four and whose squares sum to
at most 36: the 256 shortest of the lattice D4 (doubled) seen from one of its holes. A point is
2k + 1 with a k of D4, whose coordinates are whole and have an even sum. The nearest k is found by
rounding each coordinate and, where the sum comes out odd, rounding the one with the largest error
the other way: Conway and Sloane, "Sphere Packings, Lattices and Groups", chapter 20. Only where
that point is not among the 256 are all of them compared.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from agentmem.models.base import Floats

SIZE = 4
"""Coordinates of a block."""

POINTS = np.array(
    [
        point
        for point in product((-5, -3, -1, 1, 3, 5), repeat=SIZE)
        if sum(point) % 4 == 0 and sum(x * x for x in point) <= 36
    ],
    dtype=np.float32,
)
"""float32 of shape (256, 4), in lexicographic order: a point's place is its number."""

SQUARES = (POINTS * POINTS).sum(axis=1)
"""Sum of each point's squares, float32 of shape (256,)."""

_TOWARDS = np.ascontiguousarray(2 * POINTS.T)
# What a coordinate of k is looked up by: three bits, more than the points need.
_LEAST, _GREATEST = -4, 3
_NONE = -1
# Blocks at a time: what is computed of them stays in the cache.
_AT_ONCE = 16_384
# Blocks that are compared with all points at a time: a product that BLAS computes in one thread.
_COMPARED = 256


def nearest(blocks: Floats) -> NDArray[np.uint8]:
    """Return the number of the nearest point of each block.

    Parameters
    ----------
    blocks
        float32 of shape (blocks, 4).
    """
    numbers = np.empty(len(blocks), dtype=np.int16)
    for start in range(0, len(blocks), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        numbers[part] = _numbers().take(_place(_rounded(blocks[part])))
    outside = np.flatnonzero(numbers == _NONE)
    for start in range(0, len(outside), _COMPARED):
        rows = outside[start : start + _COMPARED]
        # The square of the distance, less the block's own square, with its sign turned.
        numbers[rows] = (blocks[rows] @ _TOWARDS - SQUARES).argmax(axis=1)
    return numbers.astype(np.uint8)


def _rounded(blocks: Floats) -> NDArray[np.int8]:
    """Return the nearest k of each block, int8 of shape (4, blocks), cut to what can be looked up.

    One row a coordinate: everything below is computed along the rows.
    """
    wanted = np.subtract(blocks.T, 1, order="C")
    wanted /= 2
    nearest_whole = np.rint(wanted).clip(_LEAST, _GREATEST)
    wanted -= nearest_whole
    found: NDArray[np.int8] = nearest_whole.astype(np.int8)
    other_way = (wanted >= 0).view(np.int8) * np.int8(2) - np.int8(1)
    errors = np.abs(wanted)
    largest = errors.max(axis=0)
    odd = (np.bitwise_xor.reduce(found, axis=0) & 1).view(np.bool_)
    for coordinate in range(SIZE):
        turned = (errors[coordinate] == largest) & odd
        odd ^= turned  # one coordinate is enough
        found[coordinate] += other_way[coordinate] * turned.view(np.int8)
    return found.clip(_LEAST, _GREATEST)


def _place(found: NDArray[np.int8]) -> NDArray[np.intp]:
    """Return where each k, int8 of shape (4, any), stands in the table of numbers."""
    bits = (found - np.int8(_LEAST)).view(np.uint8)
    first, second = bits[0] << 3 | bits[1], bits[2] << 3 | bits[3]
    place: NDArray[np.intp] = first.astype(np.intp) << 6 | second
    return place


@lru_cache(maxsize=1)
def _numbers() -> NDArray[np.int16]:
    """Return the number of the point of each k, `_NONE` for what is not among the 256."""
    table = np.full((_GREATEST - _LEAST + 1) ** SIZE, _NONE, dtype=np.int16)
    steps = ((POINTS.astype(np.int8) - 1) >> 1).T
    table[_place(steps)] = np.arange(len(POINTS))
    return table
