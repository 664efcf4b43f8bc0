"""Token codes, late interaction and the blend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem import ModelError
from agentmem.models._lattice import POINTS, nearest
from agentmem.models.base import Encoding, Floats, RerankCandidate, TokenVectors
from agentmem.models.blend import LEXICAL_SHARE, SIMILARITY_SHARE, WORDS_SHARE, blend
from agentmem.models.late_interaction import LateInteractionReranker, best_matches
from agentmem.models.token_codes import Decoded, decode, encode, rotate

LEGS = ("similarity", "words", "lexical")


def unit(tokens: int, dimensions: int = 128, seed: int = 0) -> Floats:
    values = np.random.default_rng(seed).normal(size=(tokens, dimensions))
    vectors: Floats = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    return vectors


def units(found: Decoded) -> Floats:
    """Return decoded vectors, normalised and still rotated."""
    steps = found.steps.astype(np.float32)
    units: Floats = steps / np.linalg.norm(steps, axis=1, keepdims=True)
    return units


def code_of(vectors: Floats) -> bytes:
    (code,) = encode([vectors])
    return code


@given(st.integers(0, 40), st.integers(1, 64), st.integers(0, 2**32 - 1))
def test_codes_keep_directions(tokens: int, blocks: int, seed: int) -> None:
    vectors = unit(tokens, 4 * blocks, seed)
    code = code_of(vectors)
    assert len(code) == 2 + tokens * blocks
    found = decode([code])
    assert found.lengths.tolist() == [tokens]
    if tokens:
        assert np.einsum("td,td->t", units(found), rotate(vectors)).min() > 0.8


def test_codes_keep_directions_better_than_single_coordinates_would() -> None:
    """The best two bits for a coordinate by itself leave a mean square error of 0.1175."""
    vectors = unit(2_000)
    cosines = np.einsum("td,td->t", units(decode([code_of(vectors)])), rotate(vectors))
    assert 1 - float(np.mean(cosines**2)) < 0.105
    scaled = decode([code_of(vectors)])
    cosine = np.einsum("td,td->t", scaled.steps.astype(np.float32), rotate(vectors))
    assert float((cosine * scaled.scales).mean()) == pytest.approx(1.0, abs=0.005)


def test_vectors_along_an_axis_keep_apart() -> None:
    """Without the rotation, what is 0 in most dimensions would get nearly the same code."""
    axes = np.eye(128, dtype=np.float32)
    similarities = units(decode([code_of(axes)])) @ rotate(axes).T
    assert np.diag(similarities).min() > 0.9
    assert (similarities - np.diag(np.diag(similarities))).max() < 0.25


@given(st.integers(1, 300))
def test_a_rotation_keeps_lengths_and_angles(dimensions: int) -> None:
    vectors = unit(5, dimensions)
    turned = rotate(vectors)
    np.testing.assert_allclose(turned @ turned.T, vectors @ vectors.T, atol=1e-5)


def test_codes_are_the_same_on_every_machine() -> None:
    """Stored codes are read for years: points, their order and the rotation must not change."""
    vector = np.linspace(-1.0, 1.0, 16, dtype=np.float32)[None]
    assert code_of(vector).hex() == "020472432628"


@given(st.integers(1, 3_000), st.floats(0.01, 100.0), st.integers(0, 2**32 - 1))
def test_the_nearest_of_all_points_is_found(blocks: int, scale: float, seed: int) -> None:
    """Rounding finds it near the middle and a comparison with all of them further out."""
    values = (np.random.default_rng(seed).normal(size=(blocks, 4)) * scale).astype(np.float32)
    distances = ((values[:, None] - POINTS) ** 2).sum(axis=2)
    found = np.take_along_axis(distances, nearest(values)[:, None].astype(np.intp), axis=1)
    np.testing.assert_allclose(found[:, 0], distances.min(axis=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", [1e30, -4.0, 0.0, 2.0])
def test_far_and_undecided_blocks_have_a_point(value: float) -> None:
    values = np.full((1, 4), value, dtype=np.float32)
    distances = ((values[:, None] - POINTS).astype(np.float64) ** 2).sum(axis=2)
    assert distances[0, nearest(values)[0]] == distances.min()


def test_codes_of_many_texts_are_those_of_each() -> None:
    texts = [unit(n % 90, seed=n) for n in range(200)]
    assert sum(map(len, texts)) > 2 * 4_096
    assert encode(texts) == [code_of(text) for text in texts]
    assert encode([]) == []


def test_texts_of_different_dimensions_are_named() -> None:
    with pytest.raises(ModelError, match="differ from text to text"):
        encode([unit(2, 128), unit(2, 64)])


def test_codes_of_several_texts_stand_one_after_the_other() -> None:
    parts = [unit(3, seed=1), unit(0), unit(5, seed=2)]
    found = decode(encode(parts))
    assert found.lengths.tolist() == [3, 0, 5]
    assert found.steps.shape == (8, 128)
    assert decode([]).steps.shape[0] == 0


@pytest.mark.parametrize("change", ["", "02", "0920", "0200", "022000", "0140"])
def test_damaged_codes_are_named(change: str) -> None:
    with pytest.raises(ModelError, match="token codes"):
        decode([code_of(unit(2)), bytes.fromhex(change)])


def test_codes_of_different_models_do_not_mix() -> None:
    with pytest.raises(ModelError, match="damaged"):
        decode([code_of(unit(2, 128)), code_of(unit(2, 64))])


@pytest.mark.parametrize("dimensions", [0, 3, 6, 1024])
def test_dimensions_that_cannot_be_stored(dimensions: int) -> None:
    with pytest.raises(ModelError, match="cannot be stored"):
        code_of(unit(1, dimensions))


async def test_late_interaction_against_loops() -> None:
    query, weights = unit(4, seed=3), np.array([0.5, 2.0, 1.0, 0.0], dtype=np.float32)
    tokens = TokenVectors(np.arange(4, dtype=np.int32), query, weights)
    chunks = [unit(n, seed=n) for n in (6, 0, 1, 9)]
    company = [[], [chunks[0]], [chunks[0], unit(3, seed=7)], [chunks[1]]]
    behind = [[chunks[3], unit(2, seed=8)], [], [chunks[3]], []]

    def score(chunk: Floats) -> float:
        kept = decode([code_of(chunk)])
        vectors = kept.steps * kept.scales[:, None]
        best = [max((float(q @ t) for t in vectors), default=0.0) for q in rotate(query)]
        return float(sum(w * b for w, b in zip(weights, best, strict=True)) / weights.sum())

    rows = [
        RerankCandidate(
            str(n), "", code_of(chunk), tuple(encode(others)), after=tuple(encode(later))
        )
        for n, (chunk, others, later) in enumerate(zip(chunks, company, behind, strict=True))
    ]
    found = await LateInteractionReranker().rerank("q", Encoding(unit(1), (tokens,)), rows)
    for value, chunk, others, later in zip(found, chunks, company, behind, strict=True):
        alone = score(chunk)
        expected = alone + 0.5 * (score(np.concatenate([chunk, *others])) - alone)
        expected += 0.3 * (score(np.concatenate([chunk, *later])) - alone)
        assert value == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("size", [1, 31, 32, 33, 70])
@pytest.mark.parametrize("lengths", [[1], [63, 1], [600, 1, 0, 77]])
def test_queries_and_chunks_of_any_length(size: int, lengths: list[int]) -> None:
    query = unit(size, seed=3)
    chunks = decode([code_of(unit(n, seed=n)) for n in lengths])
    rows = np.split(chunks.steps * chunks.scales[:, None], np.cumsum(lengths)[:-1])
    query_turned = rotate(query)
    for found, row in zip(best_matches(query, chunks), rows, strict=True):
        best = (query_turned @ row.T).max(axis=1) if len(row) else np.zeros(size)
        np.testing.assert_allclose(found, best, atol=5e-3)


async def test_rare_tokens_of_the_query_count_for_more() -> None:
    vectors = unit(2)
    rows = [RerankCandidate(str(n), "", code_of(vectors[[n]])) for n in range(2)]

    async def scores(weights: Floats | None) -> list[float]:
        tokens = TokenVectors(np.array([0, 29_000], dtype=np.int32), vectors, weights)
        return await LateInteractionReranker().rerank("q", Encoding(unit(1), (tokens,)), rows)

    even = await scores(None)
    assert even[0] == pytest.approx(even[1], abs=0.02)
    first, second = await scores(np.array([1.0, 9.0], dtype=np.float32))
    assert second > first + 0.5


async def test_the_same_tokens_score_best() -> None:
    texts = [unit(5, seed=n) for n in range(20)]
    query = Encoding(unit(1), (TokenVectors(np.arange(5, dtype=np.int32) + 2000, texts[7]),))
    rows = [RerankCandidate(str(n), "", code_of(text)) for n, text in enumerate(texts)]
    scores = await LateInteractionReranker().rerank("q", query, rows)
    assert max(range(20), key=scores.__getitem__) == 7
    assert scores[7] == pytest.approx(1.0, abs=0.03)


async def test_missing_token_vectors_are_an_error() -> None:
    reranker = LateInteractionReranker()
    assert await reranker.rerank("q", None, [RerankCandidate("a", "", None, late=0.5)]) == [0.5]
    assert await reranker.rerank("q", None, []) == []
    with pytest.raises(ModelError, match="no token vectors"):
        await reranker.rerank("q", Encoding(unit(1)), [RerankCandidate("a", "", code_of(unit(1)))])
    query = Encoding(unit(1), (TokenVectors(np.zeros(1, dtype=np.int32), unit(1)),))
    with pytest.raises(ModelError, match="without token codes"):
        await reranker.rerank("q", query, [RerankCandidate("a", "", None)])


def blended(
    late: list[float], length: float, legs: dict[str, list[float]], unknown: float = 0.0
) -> list[float]:
    given = {name: np.array(legs.get(name, [0.0] * len(late))) for name in LEGS}
    lengths = np.full(len(late), length)
    found: list[float] = blend(np.array(late), lengths=lengths, unknown=unknown, **given).tolist()
    return found


def test_the_blend_of_short_and_of_long_texts() -> None:
    late, near = [0.5, 0.4], [0.2, 0.9]
    legs = {"similarity": near, "words": [0.0, 3.0], "lexical": [3.0, 0.0]}
    share = (10 / 200) ** 2
    assert blended(late, 10.0, legs) == pytest.approx(
        [
            0.5 + SIMILARITY_SHARE * share * 0.2 + LEXICAL_SHARE * share,
            0.4 + SIMILARITY_SHARE * share * 0.9 + WORDS_SHARE * 3.0 * (1 - share),
        ]
    )
    assert blended(late, 300.0, legs) == pytest.approx(
        [0.5 + SIMILARITY_SHARE * 0.2 + LEXICAL_SHARE, 0.4 + SIMILARITY_SHARE * 0.9]
    )
    assert blended(late, 10.0, {}) == late
    assert blended([], 10.0, {}) == []


def test_the_lexical_score_carries_what_the_model_does_not_know() -> None:
    found = blended([0.5, 0.4], 0.0, {"words": [2.0, 0.0], "lexical": [0.0, 8.0]}, unknown=0.6)
    assert found == pytest.approx([0.5 + 2.0 * WORDS_SHARE, 0.4 + 0.6])
