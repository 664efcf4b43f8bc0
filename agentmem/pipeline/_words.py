"""Which of a question's words a candidate holds, itself or together with what stands before it.

    score(c) = sum of ln((n + 1) / (n(t) + 1)) over the terms t of the question in the company of c

The company of a chunk is itself and what stands before it; n is the number of candidates and n(t)
that of those with t in their company. Unlike BM25 it does not ask how often a term occurs or how
long the chunk is. Texts are read here, so that it is the same on every engine. What
was measured is in docs/decisions/context.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from agentmem._held_terms import held_terms
from agentmem.backends._rules import searchable_text
from agentmem.backends.base import ChunkRow


def shared_words(rows: Sequence[ChunkRow], terms: Collection[str]) -> NDArray[np.float64]:
    """Return the score of each candidate, float64 of shape (rows,), 0 or more.

    Parameters
    ----------
    rows
        Of all candidates, with what stands before each.
    terms
        Terms of the question (`agentmem._terms.query_terms`), each once.
    """
    texts: dict[str, int] = {}
    own = [texts.setdefault(searchable_text(row.title, row.text), len(texts)) for row in rows]
    pairs = [
        (number, texts.setdefault(text, len(texts)))
        for number, row in enumerate(rows)
        for text in row.texts_before
    ]
    held = held_terms(list(texts), list(terms))
    together = held[np.array(own, dtype=np.int64)]
    of_row, before = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    np.logical_or.at(together, of_row, held[before])
    rarity = np.log((len(rows) + 1) / (together.sum(axis=0) + 1))
    # Not a product of matrices, whose last digit depends on where a row stands.
    scores: NDArray[np.float64] = (together * rarity).sum(axis=1)
    return scores
