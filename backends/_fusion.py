"""Reciprocal rank fusion of the pools.

    score(chunk) = sum over the pools that hold it of 1 / (k + rank)

with k = 60 as in Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and
individual Rank Learning Methods", SIGIR 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from agentmem.backends.base import Candidate


def fusion_score(ranks: Sequence[int | None], k: int) -> float:
    """Return the fusion score for the ranks (from 1 on) of one chunk in each pool."""
    score = 0.0
    for rank in ranks:
        if rank is not None:
            score += 1.0 / (k + rank)
    return score


def fuse(candidates: Sequence[Candidate], *, k: int, limit: int | None) -> list[Candidate]:
    """Set the fusion score of each candidate and return the best, ties in order of id."""
    for candidate in candidates:
        candidate.fusion = fusion_score(
            (candidate.vector_rank, candidate.lexical_rank, candidate.late_rank), k
        )
        candidate.score = candidate.fusion
    ordered = sorted(candidates, key=attrgetter("id"))
    ordered.sort(key=attrgetter("fusion"), reverse=True)  # a stable sort keeps the order of ids
    return ordered[:limit]
