"""Finds which terms of a question many texts hold, without cutting all of them into terms.

A text that is not ASCII is cut. All others are searched as one string for the beginnings of the
terms, and only a word that begins like a term is stemmed: English stemming changes the last letter
of what is left at most, as in `happi`, or the last two, as in `die` for `dying`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

from agentmem._terms import analyze, fold, stem

_WORD = re.compile("[a-z0-9]+")
_BETWEEN = "\n"


def held_terms(texts: Collection[str], terms: Collection[str]) -> dict[str, set[str]]:
    """Return which of `terms` each text holds, as `analyze` would find them.

    In ASCII texts two kinds have rules of their own: a term with other signs than letters and
    digits, such as ``c++``, is found as it is written; a code's parts and spellings only where they
    are words by themselves.

    Parameters
    ----------
    texts
        Each once.
    terms
        As `agentmem._terms.query_terms` makes them.
    """
    held: dict[str, set[str]] = {text: set() for text in texts}
    plain = [text for text in held if text.isascii()]
    if len(plain) < len(held):
        wanted = set(terms)
        for text in held:
            if not text.isascii():
                held[text] = wanted.intersection(analyze(text))
    folded = [fold(text) for text in plain]
    whole = _BETWEEN.join(folded)
    starts = list(accumulate((len(text) + len(_BETWEEN) for text in folded), initial=0))
    for term in terms:
        if term.isascii():
            for place in _holding(whole, starts, term):
                held[plain[place]].add(term)
    return held


def _holding(whole: str, starts: Sequence[int], term: str) -> Iterator[int]:
    """Yield the place of each text in `whole` that holds `term`."""
    is_word = term.isalnum()
    begin = _beginning(term) if is_word else term
    known: dict[str, bool] = {}
    at = whole.find(begin)
    while at >= 0:
        if is_word:
            word = _word_from(whole, at)
            if word not in known:
                known[word] = word == term or (word.isalpha() and stem(word) == term)
            found = known[word]
        else:
            found = True
        after = at + 1
        if found:
            place = bisect_right(starts, at) - 1
            yield place
            after = starts[place + 1]
        at = whole.find(begin, after)


def _word_from(whole: str, at: int) -> str:
    """Return the word that begins at `at`, empty in the middle of one."""
    if at and whole[at - 1].isalnum():
        return ""
    found = _WORD.match(whole, at)
    return found.group() if found else ""


def _beginning(term: str) -> str:
    """Return what every word with this stem begins with."""
    if not term.isalpha():
        return term
    return term[:-2] if term.endswith("ie") else term[: max(2, len(term) - 1)]
