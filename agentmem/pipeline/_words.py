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
    own = [searchable_text(row.title, row.text) for row in rows]
    companies = [[text, *row.texts_before] for text, row in zip(own, rows, strict=True)]
    held = held_terms({text for company in companies for text in company}, terms)
    counts = dict.fromkeys(terms, 0)
    shared = [frozenset().union(*(held[text] for text in company)) for company in companies]
    for found in shared:
        for term in found:
            counts[term] += 1
    rarity = {term: np.log((len(rows) + 1) / (count + 1)) for term, count in counts.items()}
    return np.array([sum(rarity[term] for term in sorted(found)) for found in shared], dtype=float)
