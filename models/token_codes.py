"""Token vectors as small codes: two bits a dimension, stored with the chunk.

Each vector is turned by a fixed rotation (`rotate`), which spreads what it holds evenly over the
dimensions, scaled to a fixed size, and cut into blocks of four dimensions. A block becomes the
nearest of the 256 points of `_lattice`, which lose an eighth less than two bits for each coordinate
by itself. Conway and Sloane, "Sphere Packings, Lattices and Groups", chapters 2 and 4; a lattice's
points as the codes of a rotated vector as in Tseng and others, "QuIP#", ICML 2024. A code is

    1 byte   version of the format
    1 byte   dimensions / 4
    then for each token dimensions / 4 bytes, each the number of a point in lexicographic order

Only the direction of a token vector counts, so its length is not kept. The figures are in
docs/decisions/late-interaction.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numkong
import numpy as np
from numpy.typing import NDArray

from agentmem.errors import ModelError
from agentmem.models import _lattice
from agentmem.models.base import Floats

_VERSION = 2
_HEADER = 2
BLOCK = _lattice.SIZE
"""Dimensions that a byte of a code stands for."""

_MOST = 255 * BLOCK
_TINY = 1e-9
# Steps for a coordinate of root mean square 1: of all scales the one with the least mean square
# error for normally distributed coordinates, which a rotation makes of most vectors.
_SCALE = 1 / 0.425
# Cosine of a vector and what its code stands for; it varies little from vector to vector. Products
# are divided by it, which makes them unbiased: Gao and Long, "RaBitQ", SIGMOD 2024.
_KEPT = 0.949
# OpenBLAS computes a product of up to this many multiplications in the calling thread; it shares a
# larger one among threads that wait for each other, which takes far longer on a busy machine.
_ALONE = 262_144
# Tokens that are encoded at a time.
_AT_ONCE = 4_096

_LEAST, _GREATEST = -127, 127


@dataclass(frozen=True, slots=True)
class _Tables:
    """What bytes of a code stand for.

    Attributes
    ----------
    pairs
        Steps of two bytes at once, seen as one number: fetched in one piece.
    squares
        Sum of the squares of the same steps.
    """

    pairs: NDArray[np.uint64]
    squares: NDArray[np.int8]


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    points = _lattice.POINTS.astype(np.int8)
    pairs = np.empty((256, 256, 2, BLOCK), dtype=np.int8)
    # The first byte of a pair is the low one of the 16-bit number, on the machines that there are.
    pairs[:, :, 0], pairs[:, :, 1] = points[None, :], points[:, None]
    squares = _lattice.SQUARES.astype(np.int8)
    return _Tables(
        pairs.reshape(-1, 2 * BLOCK).view(np.uint64).ravel(),
        (squares[None, :] + squares[:, None]).ravel(),
    )


@dataclass(frozen=True, slots=True)
class Decoded:
    """Token vectors of several texts, one after the other.

    Attributes
    ----------
    steps
        int8 of shape (all tokens, dimensions), rotated and not normalised.
    scales
        float32 of shape (all tokens,): times a row's product with a rotated unit vector, these
        estimate the cosine of the two without bias.
    lengths
        int64 of shape (texts,): tokens of each text.
    """

    steps: NDArray[np.int8]
    scales: Floats
    lengths: NDArray[np.int64]


def rotate(vectors: Floats) -> Floats:
    """Return vectors as they are compared with `Decoded.steps`, of the same shape and lengths."""
    rotation = _rotation(vectors.shape[1])
    turned = np.empty_like(vectors)
    height = max(1, _ALONE // rotation.size)
    for start in range(0, len(vectors), height):
        part = slice(start, start + height)
        turned[part] = vectors[part] @ rotation
    return turned


def to_bytes(vectors: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Return vectors as they are compared with `Decoded.steps`, one byte a dimension.

    Returns
    -------
    tuple
        Steps, int8 of the shape of `vectors`, and the size of a step, float32 of shape (vectors,).
    """
    turned = rotate(vectors)
    sizes = np.maximum(np.abs(turned).max(axis=1), _TINY) / np.float32(_GREATEST)
    steps = np.rint(turned / sizes[:, None]).clip(_LEAST, _GREATEST).astype(np.int8)
    return steps, sizes.astype(np.float32)


def products(steps: NDArray[np.int8], others: NDArray[np.int8]) -> NDArray[np.int32]:
    """Return `steps @ others.T` without rounding, computed in the calling thread alone.

    Parameters
    ----------
    steps, others
        int8 of shape (rows, dimensions); many and few.
    """
    return np.asarray(numkong.dots_packed(steps, numkong.dots_pack(others)))


@lru_cache(maxsize=8)
def _rotation(dimensions: int) -> Floats:
    """Return an orthogonal matrix: random signs, the same for ever, then a cosine transform."""
    bits = np.frombuffer(hashlib.shake_256(b"agentmem").digest(dimensions), dtype=np.uint8) & 1
    signs = 1.0 - 2.0 * bits
    rows, columns = np.arange(dimensions)[:, None] + 0.5, np.arange(dimensions)
    cosines = np.cos(np.pi / dimensions * rows * columns) * np.sqrt(2.0 / dimensions)
    cosines[:, 0] *= np.sqrt(0.5)
    matrix: Floats = (signs[:, None] * cosines).astype(np.float32)
    return matrix


def encode(texts: Sequence[Floats]) -> list[bytes]:
    """Return the code of each text's token vectors.

    Parameters
    ----------
    texts
        float32 of shape (tokens, dimensions) each; dimensions a multiple of 4 and at most 1,020,
        the same for all.

    Raises
    ------
    ModelError
        The dimensions differ, or do not fit the format.
    """
    if not texts:
        return []
    dimensions = texts[0].shape[1]
    if any(vectors.shape[1] != dimensions for vectors in texts):
        raise ModelError("the model gives token vectors whose dimensions differ from text to text")
    if dimensions % BLOCK or not 0 < dimensions <= _MOST:
        raise ModelError(
            f"token vectors of {dimensions} dimensions cannot be stored; it must be a multiple of "
            f"{BLOCK}, at most {_MOST}"
        )
    numbers = b"".join(_numbers(part) for part in _pieces(texts))
    first, width = header(dimensions), dimensions // BLOCK
    ends = np.cumsum([len(vectors) * width for vectors in texts]).tolist()
    return [first + numbers[start:end] for start, end in pairwise([0, *ends])]


def _pieces(texts: Sequence[Floats]) -> Iterator[Floats]:
    """Yield the token vectors of all texts in order, some thousand at a time."""
    some: list[Floats] = []
    tokens = 0
    for vectors in texts:
        if tokens > _AT_ONCE:
            yield np.concatenate(some)
            some, tokens = [], 0
        some.append(vectors)
        tokens += len(vectors)
    yield np.concatenate(some)


def _numbers(vectors: Floats) -> bytes:
    turned = rotate(vectors)
    sizes = np.sqrt(np.mean(turned * turned, axis=1, keepdims=True))
    turned *= _SCALE / np.maximum(sizes, _TINY)
    return _lattice.nearest(turned.reshape(-1, BLOCK)).tobytes()


def header(dimensions: int) -> bytes:
    """Return what every code of token vectors with so many dimensions begins with."""
    return bytes((_VERSION, dimensions // BLOCK))


def decode(codes: Sequence[bytes]) -> Decoded:
    """Return the token vectors of several texts.

    Raises
    ------
    ModelError
        A code is damaged, or the codes differ in dimensions.
    """
    if not codes:
        return Decoded(
            np.zeros((0, 0), dtype=np.int8),
            np.zeros(0, dtype=np.float32),
            np.zeros(0, dtype=np.int64),
        )
    width = _width(codes)
    lengths = np.array([(len(code) - _HEADER) // width for code in codes], dtype=np.int64)
    joined = b"".join(code[_HEADER:] for code in codes)
    return Decoded(*_steps(joined, width), lengths)


def _steps(joined: bytes, width: int) -> tuple[NDArray[np.int8], Floats]:
    """Return `Decoded.steps` and `Decoded.scales` of tokens that have `width` bytes each."""
    tables = _tables()
    even = joined + bytes(len(joined) % 2)
    # As wide as numpy counts: else it converts them twice, and takes each time fresh memory for it.
    pairs = np.frombuffer(even, dtype=np.uint16).astype(np.intp)
    steps = tables.pairs.take(pairs).view(np.int8)[: len(joined) * BLOCK].reshape(-1, width * BLOCK)
    if width % 2:  # a pair may reach into the next token
        sums = np.einsum("ij,ij->i", steps, steps, dtype=np.float32)
    else:
        squares = tables.squares.take(pairs).reshape(-1, width // 2)
        ones = np.ones((1, width // 2), dtype=np.int8)
        sums = products(squares, ones)[:, 0].astype(np.float32)
    scales: Floats = (1 / (_KEPT * np.sqrt(sums))).astype(np.float32)
    return steps, scales


def is_current(code: bytes) -> bool:
    """Return whether a code has the format of this release."""
    return code[:1] == bytes((_VERSION,))


def _width(codes: Sequence[bytes]) -> int:
    """Return the bytes of a token, the same for all codes."""
    first = codes[0][:_HEADER]
    for code in codes:
        if len(code) < _HEADER or code[0] != _VERSION or code[1] == 0:
            raise ModelError("stored token codes are damaged or from another release; run verify()")
        if code[:_HEADER] != first or (len(code) - _HEADER) % code[1]:
            raise ModelError("stored token codes are damaged; run verify()")
    return first[1]
