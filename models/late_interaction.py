"""Late interaction: compares every token of the query with every token of a chunk.

    score(q, c) = sum over tokens i of q of w(i) * max over tokens j of c of cos(q_i, c_j)
                  divided by the sum of the w(i)

MaxSim as in Khattab and Zaharia, "ColBERT: Efficient and Effective Passage Search via
Contextualized Late Interaction over BERT", SIGIR 2020; w(i) is the rarity of the token, so that
names and codes count for more than "the". The token vectors come with the embedding, so no second
model runs.

A chunk that has others around it is scored in their company too. With G(c, o) for what the chunks
o add, score(q, c and o taken as one text) - score(q, c), the score of the pipeline is

    score(q, c) + 0.5 G(c, those before it) + 0.3 G(c, those behind it)

The figures behind both numbers are in docs/decisions/context.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import ModelError
from agentmem.models.base import Encoding, Floats, RerankCandidate, TokenVectors
from agentmem.models.token_codes import BLOCK, Decoded, decode, products, to_bytes

BEFORE = 0.5
BEHIND = 0.3
# Work beyond this many multiplications goes to a thread: about half a millisecond.
_INLINE_WORK = 12_000_000

Places = NDArray[np.int64]


class LateInteractionReranker:
    """Takes the scores that the engine computed, or computes them from token codes.

    The rarity of a query's tokens comes with its encoding; without it all tokens count the same.
    """

    id = "late-interaction"
    needs = frozenset({"late"})

    async def rerank(
        self, query: str, encoding: Encoding | None, candidates: Sequence[RerankCandidate]
    ) -> list[float]:
        """Return one score per candidate, about 0 to 1.

        Raises
        ------
        ModelError
            The query has no token vectors, or a candidate has neither a score nor codes.
        """
        known = [candidate.late for candidate in candidates]
        scores = [score for score in known if score is not None]
        if len(scores) == len(known):
            return scores
        if encoding is None or encoding.tokens is None:
            raise ModelError("the embedder gives no token vectors for the query")
        tokens = encoding.tokens[0]
        codes = [candidate.codes for candidate in candidates]
        present = [code for code in codes if code is not None]
        if len(present) < len(codes):
            raise ModelError("some chunks were stored without token codes")
        before = [candidate.before for candidate in candidates]
        after = [candidate.after for candidate in candidates]
        size = sum(map(len, chain(present, *before, *after)))
        if size * BLOCK * len(tokens.ids) <= _INLINE_WORK:
            return _from_codes(tokens, present, before, after)
        return await asyncio.to_thread(_from_codes, tokens, present, before, after)

    async def close(self) -> None:
        """Do nothing: the reranker holds no resource."""


def _from_codes(
    query: TokenVectors,
    codes: Sequence[bytes],
    before: Sequence[Sequence[bytes]],
    after: Sequence[Sequence[bytes]],
) -> list[float]:
    if not codes:
        return []
    # Neighbours in a conversation are candidates together: each is looked at once.
    places = {
        code: place for place, code in enumerate(dict.fromkeys(chain(codes, *before, *after)))
    }
    best = best_matches(query.vectors, decode(list(places)))
    own = np.array([places[code] for code in codes], dtype=np.int64)
    scores: list[float] = in_company(
        best, query, own, _company(own, before, places), _company(own, after, places)
    ).tolist()
    return scores


def _company(own: Places, others: Sequence[Sequence[bytes]], places: dict[bytes, int]) -> Places:
    """Return where the others of each chunk are; one with fewer of them stands beside itself."""
    company = np.repeat(own[:, None], max(map(len, others)), axis=1)
    for row, of_one in zip(company, others, strict=True):
        row[: len(of_one)] = [places[code] for code in of_one]
    return company


def in_company(
    best: Floats,
    query: TokenVectors,
    own: Places | None = None,
    before: Places | None = None,
    behind: Places | None = None,
) -> NDArray[np.float64]:
    """Return the score of each chunk together with what stands around it, if that is given.

    Parameters
    ----------
    best
        What `best_matches` found for some chunks.
    query
        Token vectors of the query.
    own
        Which of these are scored, int64 of shape (scored,); None for all.
    before, behind
        Which stand before and behind each, int64 of shape (scored, most of them); a chunk with
        fewer stands beside itself.

    Returns
    -------
    NDArray[np.float64]
        float64 of shape (scored,), about 0 to 1.
    """
    weights = np.ones(len(query.ids)) if query.weights is None else query.weights.astype(np.float64)
    total = float(weights.sum())
    alone = best if own is None else best[own]
    if total <= 0.0:
        return np.zeros(len(alone))
    scores = alone.astype(np.float64) @ weights
    for share, others in ((BEFORE, before), (BEHIND, behind)):
        if others is not None and others.shape[1]:
            together = np.maximum(best[others].max(axis=1) - alone, 0.0)
            scores += share * (together.astype(np.float64) @ weights)
    scores /= total
    return scores


def best_matches(query: Floats, chunks: Decoded) -> Floats:
    """Return how well the best token of each chunk matches each token of a query.

    The query's vectors are compared with one byte a dimension, which changes a similarity by less
    than 0.005.

    Parameters
    ----------
    query
        float32 of shape (query tokens, dimensions), L2-normalised.
    chunks
        Token vectors of the chunks.

    Returns
    -------
    Floats
        Cosine similarities, float32 of shape (chunks, query tokens); 0 for a chunk without tokens.
    """
    best = np.zeros((len(chunks.lengths), len(query)), dtype=np.float32)
    filled = np.flatnonzero(chunks.lengths)
    if not len(filled) or not len(query):
        return best
    steps, sizes = to_bytes(query)
    similarity = products(chunks.steps, steps).astype(np.float32)
    similarity *= chunks.scales[:, None]
    starts = np.concatenate([[0], np.cumsum(chunks.lengths[filled])[:-1]])
    best[filled] = np.maximum.reduceat(similarity, starts, axis=0)
    best *= sizes
    return best
