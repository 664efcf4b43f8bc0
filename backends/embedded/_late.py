"""Late interaction in the engine: scores the candidates, and a small scope as a whole.

The same score as `agentmem.models.late_interaction` computes from token codes, computed where the
codes are and in the thread that reads them. A scope of few tokens is scored whole: its best are a
third pool, which finds what neither the sentence vectors nor the words bring up. Of a larger one
the candidates are scored by themselves, and the best of these again with what stands around them.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import numpy as np

from agentmem.backends.base import Candidate
from agentmem.backends.embedded._around import around
from agentmem.backends.embedded._reading import read_codes, set_texts
from agentmem.backends.embedded._resident import Mask, Snapshot
from agentmem.backends.embedded._vectors import DIGITS, Places, Scores
from agentmem.errors import ModelError
from agentmem.models.base import Floats, TokenVectors
from agentmem.models.late_interaction import best_matches, in_company
from agentmem.models.token_codes import decode

MOST_TOKENS = 32_768
"""Tokens of the largest scope that is scored whole: about two milliseconds."""

CLOSER = 50
"""Candidates of a larger scope that are scored with what stands around them."""

_NO_PLACES: Places = np.zeros(0, dtype=np.int64)
_NO_SCORES: Scores = np.zeros(0, dtype=np.float64)


class LateInteraction:
    """The late-interaction scores of one search.

    Parameters
    ----------
    connection
        With an open read transaction.
    snapshot
        The state that it sees.
    visible
        What may stand around a chunk.
    query
        Token vectors of the query.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        snapshot: Snapshot,
        visible: Mask,
        query: TokenVectors,
    ) -> None:
        self._connection = connection
        self._snapshot = snapshot
        self._visible = visible
        self._query = query
        self._whole: dict[int, float] | None = None

    def pool(self, mask: Mask, size: int) -> tuple[Places, Scores]:
        """Return the places of the best of a small scope, and their scores.

        Nothing, when the scope is not small, when all of it is in the other pools, or when codes
        are missing.

        Parameters
        ----------
        mask
            The scope.
        size
            Of the pool; those that tie with the last one come as well.
        """
        places = np.flatnonzero(mask)
        if len(places) <= size or self._snapshot.column("tokens")[places].sum() > MOST_TOKENS:
            return _NO_PLACES, _NO_SCORES
        every = np.arange(len(places))
        try:
            scores = self._in_company(places, self._best(places), every)[0]
        except ModelError:
            return _NO_PLACES, _NO_SCORES
        self._whole = dict(zip(places.tolist(), scores.tolist(), strict=True))
        chosen = np.flatnonzero(scores >= np.partition(scores, -size)[-size])
        return places[chosen], scores[chosen]

    def score(self, items: Sequence[Candidate]) -> bool:
        """Set the scores of candidates, and the texts before those that are scored in company.

        Returns
        -------
        bool
            False when codes are missing or damaged; nothing is set then.
        """
        places = np.array([item.handle for item in items], dtype=np.int64)
        if self._whole is not None:
            closer = np.arange(len(places))
            scores = np.array([self._whole[place] for place in places.tolist()])
            before, _ = around(self._snapshot, self._visible, places)
        else:
            try:
                best = self._best(places)
                scores = in_company(best, self._query)
                closer = np.sort(np.argsort(-scores, kind="stable")[:CLOSER])
                scores[closer], before = self._in_company(places, best, closer)
            except ModelError:
                return False
        for item, score in zip(items, scores.tolist(), strict=True):
            item.late = score
        set_texts(self._connection, self._snapshot, [items[n] for n in closer.tolist()], before)
        return True

    def _in_company(self, places: Places, best: Floats, chosen: Places) -> tuple[Scores, Places]:
        """Return the scores of chosen chunks, rounded, and where what stands before them is.

        Parameters
        ----------
        places, best
            Of chunks, and how well they match.
        chosen
            Which of these to score.

        Raises
        ------
        ModelError
            Codes of what stands around them are missing or damaged.
        """
        before, behind = around(self._snapshot, self._visible, places[chosen])
        others = np.setdiff1d(np.concatenate([before, behind]), places)
        if len(others):
            best = np.concatenate([best, self._best(others)])
        known = np.concatenate([places, others])
        order = np.argsort(known)
        numbers = [order[np.searchsorted(known, side, sorter=order)] for side in (before, behind)]
        return in_company(best, self._query, chosen, *numbers).round(DIGITS), before

    def _best(self, places: Places) -> Floats:
        """Return how well chunks match the query (`best_matches`).

        Raises
        ------
        ModelError
            Codes are missing or damaged.
        """
        codes = read_codes(self._connection, self._snapshot, places)
        if len(codes) < len(places):
            raise ModelError("some chunks were stored without token codes")
        decoded = decode([codes[place] for place in places.tolist()])
        return best_matches(self._query.vectors, decoded)
