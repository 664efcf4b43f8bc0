"""Late interaction: compares every token of the query with every token of a chunk.

    score(q, c) = sum over tokens i of q of w(i) * max over tokens j of c of cos(q_i, c_j)
                  divided by the sum of the w(i)

MaxSim as in Khattab and Zaharia, "ColBERT: Efficient and Effective Passage Search via
Contextualized Late Interaction over BERT", SIGIR 2020; w(i) is the rarity of the token, so that
names and codes count for more than "the". The token vectors come with the embedding, so no second
model runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import ModelError
from agentmem.models._files import BUNDLED
from agentmem.models.base import Encoding, Floats, RerankCandidate, TokenVectors
from agentmem.models.token_codes import Decoded, decode

_WEIGHTS = "token_weights.npy"
# Work beyond this many multiplications goes to a thread: a few milliseconds of the event loop.
_INLINE_WORK = 4_000_000


class LateInteractionReranker:
    """Scores candidates from the token codes stored with them.

    Parameters
    ----------
    folder
        Folder of the embedder, for its token weights; None takes the bundled model. Without a
        file of weights all tokens count the same.
    """

    id = "late-interaction"
    needs = frozenset({"codes"})

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = BUNDLED if folder is None else folder

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
        work = sum(map(len, present)) * 2 * len(tokens.ids)
        if work <= _INLINE_WORK:
            return self._score(tokens, present)
        return await asyncio.to_thread(self._score, tokens, present)

    async def close(self) -> None:
        """Do nothing: the reranker holds no resource."""

    def _score(self, query: TokenVectors, codes: Sequence[bytes]) -> list[float]:
        weights = self._weights_of(query.ids)
        scores: list[float] = late_interaction(query.vectors, weights, decode(codes)).tolist()
        return scores

    def _weights_of(self, ids: NDArray[np.int32]) -> Floats:
        known = self._weights
        if known is None:
            return np.ones(len(ids), dtype=np.float32)
        return known[np.clip(ids, 0, len(known) - 1)]

    @cached_property
    def _weights(self) -> Floats | None:
        path = self._folder / _WEIGHTS
        if not path.is_file():
            return None
        try:
            weights = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise ModelError(f"{str(path)!r} cannot be read: {error}") from error
        return np.asarray(weights, dtype=np.float32)


def late_interaction(query: Floats, weights: Floats, chunks: Decoded) -> NDArray[np.float64]:
    """Return the score of each chunk.

    Parameters
    ----------
    query
        float32 of shape (query tokens, dimensions), L2-normalised.
    weights
        float32 of shape (query tokens,), not negative.
    chunks
        Token vectors of the chunks.

    Returns
    -------
    NDArray[float64]
        Shape (chunks,), between -1 and 1; 0 for a chunk without tokens or a query without weight.
    """
    scores = np.zeros(len(chunks.lengths))
    total = float(weights.sum())
    filled = np.flatnonzero(chunks.lengths)
    if not len(filled) or not len(query) or total <= 0.0:
        return scores
    similarity = query @ chunks.steps.T
    similarity *= chunks.scales
    starts = np.concatenate([[0], np.cumsum(chunks.lengths[filled])[:-1]])
    best = np.maximum.reduceat(similarity, starts, axis=1)
    scores[filled] = weights @ best / total
    return scores
