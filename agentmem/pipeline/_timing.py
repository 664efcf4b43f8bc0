"""How the time that a question speaks of takes part in the ranking.

    score + s ln(N / n)  one of the n candidates of N that begin within the plan's time window
    score + s r / 2      the first ten, for a question about what was, or about the latest
    score - s / 2        one of the first ten that says much the same as a later one of them, for a
                         question about what is

s is the scale of the scores, so that the same constants suit every reranker: their standard
deviation, or a fifth of the highest where they differ less. Like the rarity of a word, the
logarithm makes a day that holds two candidates count for more than a year that holds half of them.
r, from 0 to 1, is the place among the times of the first ten, from late to early for what was and
from early to late for the latest. With a window the other two rules rest. Two say much the same
when the terms that they begin with have a Jaccard index of 0.2 or more. Nothing is dropped: a hit
outside of the window only stands further down. What was measured is in
docs/decisions/time-in-ranking.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentmem._clock import to_micros
from agentmem._terms import query_terms
from agentmem._types import Plan, TimeWindow
from agentmem.backends.base import FOREVER, NEVER, Candidate, ChunkRow, Micros, begin_of
from agentmem.pipeline._diversity import overlap
from agentmem.pipeline._stage import need

ORDER_SHARE = 0.5
RESTATED_SHARE = 0.5

_FIRST = 10
_MUCH_THE_SAME = 0.2
# A statement says early what it is about; whole chunks would take two milliseconds.
_COMPARED_CHARACTERS = 200
_MILLISECOND: Micros = 1_000

Floats = NDArray[np.float64]


def begins_of(window: TimeWindow) -> tuple[Micros, Micros]:
    """Return a window as a half-open interval in microseconds."""
    return (
        NEVER if window.start is None else to_micros(window.start),
        FOREVER if window.end is None else to_micros(window.end),
    )


def by_time(ranked: Sequence[Candidate], plan: Plan) -> list[Candidate]:
    """Return the candidates in an order that the plan's time has a part in.

    Parameters
    ----------
    ranked
        With rows, best first, and scores of one kind. What is added to a score is kept in
        `Candidate.timing`.
    plan
        Its time window and time preference count.
    """
    if len(ranked) < 2 or (plan.time_window is None and plan.time_preference is None):
        return list(ranked)
    rows = [need(candidate.row, "row") for candidate in ranked]
    times = np.array([begin_of(row.valid_from, row.created_at) for row in rows], dtype=np.int64)
    scale = _scale([candidate.score for candidate in ranked])
    for candidate, share in zip(ranked, _shares(rows, times, plan).tolist(), strict=True):
        candidate.timing = scale * share
        candidate.score += candidate.timing
    return sorted(ranked, key=lambda candidate: -candidate.score)  # ties stay as they were


def _scale(scores: Sequence[float]) -> float:
    return max(float(np.std(scores)), max(map(abs, scores)) / 5)


def _shares(rows: Sequence[ChunkRow], times: NDArray[np.int64], plan: Plan) -> Floats:
    shares = np.zeros(len(rows))
    if plan.time_window is not None:
        start, end = begins_of(plan.time_window)
        inside = (times >= start) & (times < end)
        if inside.any():
            shares[inside] = math.log(len(rows) / inside.sum())
        return shares
    moments = _moments(times[:_FIRST])
    last = int(moments.max())
    if plan.time_preference == "current":
        shares[:_FIRST] -= RESTATED_SHARE * _restated(rows[:_FIRST], moments)
    else:
        places = moments if plan.time_preference == "latest" else last - moments
        shares[:_FIRST] = ORDER_SHARE * places / max(1, last)
    return shares


def _moments(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each time among the different ones, from 0 on.

    Times less than a millisecond apart are one: the documents of a call have them so, and their
    order says nothing about what they say.
    """
    order = np.argsort(times)
    moments = np.zeros(len(times), dtype=np.int64)
    moments[order[1:]] = np.cumsum(np.diff(times[order]) >= _MILLISECOND)
    return moments


def _restated(rows: Sequence[ChunkRow], moments: NDArray[np.int64]) -> Floats:
    """Return 1 for each row of which a later one says much the same, else 0."""
    if not moments.any():
        return np.zeros(len(rows))
    terms = [frozenset(query_terms(row.text[:_COMPARED_CHARACTERS])) for row in rows]
    return np.array(
        [
            float(
                any(
                    later > moment and overlap(mine, theirs) >= _MUCH_THE_SAME
                    for later, theirs in zip(moments, terms, strict=True)
                )
            )
            for moment, mine in zip(moments, terms, strict=True)
        ]
    )
