"""Late interaction in the engine: scores the candidates, and a small scope as a whole.

The same score as `agentmem.models.late_interaction` computes from token codes, computed where the
codes are and in the thread that reads them. A scope of few tokens is scored whole: its best are a
third pool, which finds what neither the sentence vectors nor the words bring up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from agentmem.backends._context import FIRST
from agentmem.backends.base import Candidate
from agentmem.backends.embedded._around import around
from agentmem.backends.embedded._reading import read_codes, set_texts
from agentmem.backends.embedded._resident import Mask, Snapshot
from agentmem.backends.embedded._vectors import DIGITS, Places, Scores
from agentmem.errors import ModelError
from agentmem.models.base import TokenVectors
from agentmem.models.late_interaction import best_matches, in_company
from agentmem.models.token_codes import decode

MOST_TOKENS = 32_768
"""Tokens of the largest scope that is scored whole: about two milliseconds."""

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
        scores = self._scored(places, *around(self._snapshot, self._visible, places))
        if scores is None:
            return _NO_PLACES, _NO_SCORES
        self._whole = dict(zip(places.tolist(), scores.tolist(), strict=True))
        chosen = np.flatnonzero(scores >= np.partition(scores, -size)[-size])
        return places[chosen], scores[chosen]

    def score(self, items: Sequence[Candidate], limit: int | None) -> bool:
        """Set the scores of candidates and the texts before them.

        With a limit, those behind the first are scored by themselves, unless the scope was small.

        Returns
        -------
        bool
            False when codes are missing or damaged; nothing is set then.
        """
        places = np.array([item.handle for item in items], dtype=np.int64)
        first = len(items) if limit is None or self._whole is not None else FIRST
        before, behind = around(self._snapshot, self._visible, places[:first])
        if self._whole is not None:
            scores: Sequence[float] = [self._whole[place] for place in places.tolist()]
        else:
            rest = np.repeat(places[first:, None], before.shape[1], axis=1)
            found = self._scored(
                places, np.concatenate([before, rest]), np.concatenate([behind, rest])
            )
            if found is None:
                return False
            scores = found.tolist()
        for item, score in zip(items, scores, strict=True):
            item.late = score
        set_texts(self._connection, self._snapshot, items[:first], before)
        return True

    def _scored(self, places: Places, before: Places, behind: Places) -> Scores | None:
        """Return the score of each chunk, rounded; None when codes are missing or damaged."""
        wanted = np.unique(np.concatenate([places, before.ravel(), behind.ravel()]))
        codes = read_codes(self._connection, self._snapshot, wanted)
        present = [code for code in codes.values() if code is not None]
        if len(present) < len(wanted):
            return None
        try:
            decoded = decode(present)
        except ModelError:
            return None
        best = best_matches(self._query.vectors, decoded)
        numbers: list[NDArray[Any]] = [
            np.searchsorted(wanted, part) for part in (places, before, behind)
        ]
        return in_company(best, self._query, *numbers).round(DIGITS)
