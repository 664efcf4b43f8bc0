"""Late interaction: compares every token of the query with every token of a chunk.

    score(q, c) = sum over tokens i of q of w(i) * max over tokens j of c of cos(q_i, c_j)
                  divided by the sum of the w(i)

MaxSim as in Khattab and Zaharia, "ColBERT: Efficient and Effective Passage Search via
Contextualized Late Interaction over BERT", SIGIR 2020; w(i) is the rarity of the token, so that
names and codes count for more than "the". The token vectors come with the embedding, so no second
model runs.

A chunk that has others before it is scored in that company too: the score of the pipeline is the
mean of score(q, c) and score(q, c and those before it taken as one text).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain

import numpy as np

from agentmem.errors import ModelError
from agentmem.models.base import Encoding, Floats, RerankCandidate, TokenVectors
from agentmem.models.token_codes import BLOCK, Decoded, decode, rotate

# Work beyond this many multiplications goes to a thread: about a millisecond of the event loop.
_INLINE_WORK = 12_000_000
# OpenBLAS computes a product of up to 262,144 multiplications in the calling thread. A larger one
# is shared among threads that wait for each other: when another process has a core, a product of
# half a millisecond takes the 8 or 16 milliseconds of a turn of the scheduler. Products of this
# size need no packing, half of the work of larger ones for a question of a dozen tokens.
_TILE = 65_536
_TILE_QUERY = 32


class LateInteractionReranker:
    """Scores candidates from the token codes stored with them.

    The rarity of a query's tokens comes with its encoding; without it all tokens count the same.
    """

    id = "late-interaction"
    needs = frozenset({"codes"})

    async def rerank(
        self, query: str, encoding: Encoding | None, candidates: Sequence[RerankCandidate]
    ) -> list[float]:
        """Return one score per candidate, about 0 to 1.

        Raises
        ------
        ModelError
            The query has no token vectors, or a candidate has no codes.
        """
        if encoding is None or encoding.tokens is None:
            raise ModelError("the embedder gives no token vectors for the query")
        codes = [candidate.codes for candidate in candidates]
        present = [code for code in codes if code is not None]
        if len(present) < len(codes):
            raise ModelError("some chunks were stored without token codes")
        tokens = encoding.tokens[0]
        before = [candidate.before for candidate in candidates]
        work = sum(map(len, (*present, *chain.from_iterable(before)))) * BLOCK * len(tokens.ids)
        if work <= _INLINE_WORK:
            return _score(tokens, present, before)
        return await asyncio.to_thread(_score, tokens, present, before)

    async def close(self) -> None:
        """Do nothing: the reranker holds no resource."""


def _score(
    query: TokenVectors, codes: Sequence[bytes], before: Sequence[Sequence[bytes]]
) -> list[float]:
    """Return the mean of the scores of each chunk alone and with those before it."""
    weights = query.weights
    if weights is None:
        weights = np.ones(len(query.ids), dtype=np.float32)
    total = float(weights.sum())
    if not codes or total <= 0.0:
        return [0.0] * len(codes)
    # Neighbours in a conversation are candidates together: each is looked at once.
    places = {code: place for place, code in enumerate(dict.fromkeys(chain(codes, *before)))}
    best = best_matches(query.vectors, decode(list(places)))
    alone = best[[places[code] for code in codes]]
    # A chunk with fewer before it than others stands before itself.
    most = max(map(len, before))
    company = [
        [places[c] for c in (*earlier, *[code] * (most - len(earlier)))]
        for code, earlier in zip(codes, before, strict=True)
    ]
    together = np.maximum(alone, best[company].max(axis=1)) if most else alone
    scores: list[float] = ((alone + together) @ weights / (2.0 * total)).tolist()
    return scores


def best_matches(query: Floats, chunks: Decoded) -> Floats:
    """Return how well the best token of each chunk matches each token of a query.

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
    similarity = _products(chunks.steps, rotate(query))
    similarity *= chunks.scales[:, None]
    starts = np.concatenate([[0], np.cumsum(chunks.lengths[filled])[:-1]])
    best[filled] = np.maximum.reduceat(similarity, starts, axis=0)
    return best


def _products(tokens: Floats, query: Floats) -> Floats:
    """Return `tokens @ query.T`, computed in the calling thread alone."""
    count, dimensions = tokens.shape
    products = np.empty((count, len(query)), dtype=np.float32)
    height = max(1, _TILE // (dimensions * min(len(query), _TILE_QUERY)))
    whole = count - count % height
    tiles = tokens[:whole].reshape(-1, height, dimensions)
    for start in range(0, len(query), _TILE_QUERY):
        part = slice(start, start + _TILE_QUERY)
        turned = query[part].T
        products[:whole, part] = np.matmul(tiles, turned).reshape(whole, turned.shape[1])
        products[whole:, part] = tokens[whole:] @ turned
    return products
