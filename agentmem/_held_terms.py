"""Finds which terms of a question many texts hold, without cutting all of them into terms.

A text with letters beyond ASCII is cut. All others, their signs beyond ASCII left out, are searched
as one string for the beginnings of the terms, and only a word that begins like a term is stemmed:
English stemming changes the last letter of what is left at most, as in `happi`, or the last two, as
in `die` for `dying`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

from agentmem._terms import APOSTROPHES, analyze, stem

_WORD = re.compile("[a-z0-9]+")
_BETWEEN = "\n"
# Punctuation and pictographs: between words, whatever normalisation makes of them.
_SIGNS = re.compile(
    "[\u00a1-\u00a7\u00a9\u00ab\u00ac\u00ae\u00b0\u00b1\u00b6\u00b7\u00bb\u00bf\u2010-\u2016\u201a-\u2023"
    "\u2025-\u2027\u2030-\u203d\u2190-\u23ff\u2600-\u2775\u2794-\u27bf\U0001f300-\U0001faff]+"
)


def held_terms(texts: Collection[str], terms: Collection[str]) -> dict[str, set[str]]:
    """Return which of `terms` each text holds, as `analyze` would find them.

    In texts that are not cut two kinds have rules of their own: a term with other signs than
    letters and digits, such as ``c++``, is found as it is written; a code's parts and spellings
    only where they are words by themselves.

    Parameters
    ----------
    texts
        Each once.
    terms
        As `agentmem._terms.query_terms` makes them.
    """
    held: dict[str, set[str]] = {text: set() for text in texts}
    plain: list[str] = []
    folded: list[str] = []
    simple = all(term.isascii() for term in terms)
    for text in held:
        as_ascii = _as_ascii(text) if simple or text.isascii() else None
        if as_ascii is None:
            held[text] = set(terms).intersection(analyze(text))
        else:
            plain.append(text)
            folded.append(as_ascii)
    whole = _BETWEEN.join(folded).lower()
    starts = list(accumulate((len(text) + len(_BETWEEN) for text in folded), initial=0))
    for term in terms:
        if term.isascii():
            for place in _holding(whole, starts, term):
                held[plain[place]].add(term)
    return held


def _as_ascii(text: str) -> str | None:
    """Return a text of ASCII alone with the same ASCII terms, or None."""
    if not text.isascii():
        text = _SIGNS.sub(" ", text.translate(APOSTROPHES))
    return text if text.isascii() else None


def _holding(whole: str, starts: Sequence[int], term: str) -> Iterator[int]:
    """Yield the place of each text in `whole` that holds `term`."""
    is_word = term.isalnum()
    begin = _beginning(term) if is_word else term
    known: dict[str, bool] = {"": False}
    at = whole.find(begin)
    while at >= 0:
        found = True
        if is_word:
            word = _word_from(whole, at)
            if word in known:
                found = known[word]
            else:
                found = known[word] = word == term or (word.isalpha() and stem(word) == term)
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
