"""Blends the late-interaction score with what the candidate pools found.

    score = late + a * min(1, (L / 200)^2) * similarity + (b + u) * lexical / (best lexical)

with a = 0.8 and b = 0.08; L is the mean length of the candidates in tokens, u the share of the
query's tokens that the model does not know, as many Chinese characters: there words have to carry
what the model cannot tell. On short texts the late
score alone orders best. The longer the texts, the more tokens there are to match by chance and the
less the maximum tells, while the sentence vector keeps its meaning: its share grows with the square
of the length up to 200 tokens, about a full chunk. The same constants serve all sets; changing one
of them by half moves nDCG@10 by at most 0.014. Figures are in docs/decisions/late-interaction.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIMILARITY_SHARE = 0.8
LEXICAL_SHARE = 0.08
FULL_LENGTH = 200.0

Floats = NDArray[np.float64]


def blend(
    late: Floats, similarity: Floats, lexical: Floats, lengths: Floats, unknown: float = 0.0
) -> Floats:
    """Return one score per candidate of a query.

    Parameters
    ----------
    late
        Late-interaction scores, about 0 to 1.
    similarity
        Cosine similarities; 0 where the query has no vector.
    lexical
        The engine's lexical scores, 0 for candidates outside of the lexical pool.
    lengths
        Tokens of each candidate.
    unknown
        Share of the query's tokens, 0 to 1, that the model does not know.

    Returns
    -------
    NDArray[float64]
        Same shape as `late`.
    """
    if not len(late):
        return late
    share = SIMILARITY_SHARE * min(1.0, (float(lengths.mean()) / FULL_LENGTH) ** 2)
    best = float(lexical.max())
    words = lexical / best if best > 0.0 else lexical
    return late + share * similarity + (LEXICAL_SHARE + unknown) * words
