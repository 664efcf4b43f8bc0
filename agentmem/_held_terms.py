"""Finds which terms of a question many texts hold, without cutting the texts into terms.

All texts of ASCII are searched as one string for the beginnings of the terms, and all others as
another. Only a word that begins like a term is stemmed: English stemming changes the last letter of
what is left at most, as in `happi`, or the last two, as in `die` for `dying`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from agentmem._terms import fold, stem, words

Held = NDArray[np.bool_]

_BETWEEN = "\n"


def held_terms(texts: Sequence[str], terms: Sequence[str]) -> Held:
    """Return which of `terms` each text holds, as `agentmem._terms.analyze` would find them.

    Some have rules of their own: a term with other signs than letters and digits, such as ``c++``,
    and a single kana are found wherever they stand; a code's parts and spellings only where they
    are words by themselves.

    Parameters
    ----------
    texts
        Any.
    terms
        As `agentmem._terms.query_terms` makes them.

    Returns
    -------
    Held
        bool of shape (texts, terms).
    """
    held = np.zeros((len(texts), len(terms)), dtype=np.bool_)
    ascii_places = [place for place, text in enumerate(texts) if text.isascii()]
    other_places = [place for place, text in enumerate(texts) if not text.isascii()]
    for places in filter(None, (ascii_places, other_places)):
        joined = _Joined([texts[place] for place in places])
        for column, term in enumerate(terms):
            held[[places[number] for number in joined.holding(term)], column] = True
    return held


class _Joined:
    """Texts as one folded string, in which each ends with a line break."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._whole = fold("".join(text.replace(_BETWEEN, " ") + _BETWEEN for text in texts))
        lines = self._whole.split(_BETWEEN)
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        self._words = words(ascii_only=self._whole.isascii())

    def holding(self, term: str) -> Iterator[int]:
        """Yield the number of each text that holds `term`."""
        is_word = self._words.fullmatch(term) is not None
        begin = _beginning(term) if is_word else term
        known: dict[str, bool] = {"": False}
        at = self._whole.find(begin)
        while at >= 0:
            after = at + 1
            if not is_word or self._is_of(term, at, known):
                number = bisect_right(self._starts, at) - 1
                yield number
                after = self._starts[number + 1]
            at = self._whole.find(begin, after)

    def _is_of(self, term: str, at: int, known: dict[str, bool]) -> bool:
        """Return whether a word begins at `at` that has this term."""
        found = self._words.match(self._whole, at)
        word = found.group() if found else ""
        if word not in known:
            known[word] = word == term or (word.isascii() and word.isalpha() and stem(word) == term)
        return known[word]


def _beginning(term: str) -> str:
    """Return what every word with this stem begins with."""
    if not (term.isascii() and term.isalpha()):
        return term
    return term[:-2] if term.endswith("ie") else term[: max(2, len(term) - 1)]
