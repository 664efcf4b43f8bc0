"""Sentence vectors as codes, and the matrix that holds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem import StoreCorruptError
from agentmem.backends.embedded._matrix import Matrix
from agentmem.backends.embedded._vectors import best
from agentmem.models.base import Floats
from agentmem.models.vector_codes import from_steps, rounded, to_steps


def unit(rows: int, dimensions: int = 384, seed: int = 0) -> Floats:
    values = np.random.default_rng(seed).normal(size=(rows, dimensions))
    vectors: Floats = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    return vectors


@given(st.integers(1, 600), st.integers(0, 2**32 - 1))
def test_rounding_keeps_directions_and_is_done_once(dimensions: int, seed: int) -> None:
    vectors = unit(3, dimensions, seed)
    stored = rounded(vectors)
    np.testing.assert_allclose(np.linalg.norm(stored, axis=1), 1.0, atol=1e-6)
    assert np.einsum("ij,ij->i", stored, vectors).min() > 0.9998
    np.testing.assert_array_equal(to_steps(stored), to_steps(vectors))
    np.testing.assert_array_equal(to_steps(3 * vectors[0]), to_steps(vectors)[0])


def test_a_vector_of_zeros_stays_one() -> None:
    none = np.zeros((1, 8), dtype=np.float32)
    np.testing.assert_array_equal(rounded(none), none)
    assert from_steps(np.zeros(0, dtype=np.int8)).shape == (0,)


@pytest.mark.parametrize("rows", [1, 255, 256, 257, 1000])
@pytest.mark.parametrize("share", [1.0, 0.3, 0.1])
def test_similarities_are_cosines(rows: int, share: float) -> None:
    vectors, query = rounded(unit(rows)), rounded(unit(1, seed=1))[0]
    matrix = Matrix(rows + 50, 384)
    matrix.put(np.arange(rows), [to_steps(vector).tobytes() for vector in vectors])
    places = np.flatnonzero(np.random.default_rng(2).random(rows) < share)
    found = matrix.similarities(places, rows, query)
    np.testing.assert_allclose(found, vectors[places] @ query, atol=2e-6)


def test_a_matrix_grows_and_forgets() -> None:
    matrix = Matrix(2, 4)
    matrix.put(np.array([0, 1]), [bytes([1, 0, 0, 0]), bytes([0, 127, 0, 0])])
    larger = matrix.enlarged(3)
    assert len(larger) == 3
    larger.clear(np.array([1]))
    axis = np.array([0, 1, 0, 0], dtype=np.float32)
    assert matrix.similarities(np.arange(2), 2, axis).tolist() == [0, 1]
    assert larger.similarities(np.arange(3), 3, axis).tolist() == [0, 0, 0]
    assert not larger.steps(np.array([1])).any()
    with pytest.raises(StoreCorruptError, match="verify"):
        larger.put(np.array([2]), [bytes(3)])


@given(
    st.integers(0, 9_000),
    st.sampled_from([1, 7, 100, 139]),
    st.sampled_from([0.0, 1e-3]),
    st.integers(0, 2**32 - 1),
)
def test_the_best_come_with_all_that_tie(rows: int, limit: int, slack: float, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=rows).round(2)
    cut = np.sort(scores)[-limit] if rows >= limit else -np.inf
    expected = np.flatnonzero(scores >= cut - slack)
    np.testing.assert_array_equal(best(scores, limit, slack), expected)
