"""A text index like Oracle Text's: filled at commit, queried with CONTAINS, scored 1 to 100.

The score of a word is Salton's, 3 f (1 + log(N / n)), cut at 100; f counts the word in the row, n
the rows that hold it, N all rows of all tenants. A query of several words joined by ``,`` ranks a
row with more of them above every row with fewer. The grammar knows what the engine may send, and
refuses what would be an operator or a reserved word.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict

from tests.standin.errors import text_error

_TOKEN = re.compile(r"[^\W_]+")
_RESERVED = frozenset(
    """about accum and bt btg bti btp equiv fuzzy haspath inpath mdata minus mnot near not nt ntg
    nti ntp or pt rt sdata sqe syn tr trsyn tt within""".split()
)
_OPERATORS = frozenset(",&|-~;{}\\()[]?$!%_>*=")
_PART = re.compile(r"\s*(?:\{(?P<braced>(?:[^}]|\}\})*)\}|(?P<plain>[^\W_]+))\s*")


def tokens(text: str) -> list[str]:
    """Return the words of a text as the basic lexer cuts them: folded, without accents."""
    plain = unicodedata.normalize("NFD", text)
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    return [match.group().upper() for match in _TOKEN.finditer(plain)]


def parse(query: str | None) -> list[list[str]]:
    """Return the phrases of a query that are accumulated.

    Raises
    ------
    oracledb.DatabaseError
        The query is empty, or has an operator or a reserved word outside of braces.
    """
    place, phrases, phrase = 0, [], []  # type: ignore[var-annotated]
    while query is not None and place < len(query):
        if query[place] == "," and phrase:
            phrases.append(phrase)
            phrase, place = [], place + 1
            continue
        match = _PART.match(query, place)
        if not match or (match["plain"] or "").lower() in _RESERVED:
            raise _syntax(place)
        phrase = [*phrase, *tokens(match["braced"] if match["plain"] is None else match["plain"])]
        place = match.end()
        if place < len(query) and query[place] in _OPERATORS - set(",{"):
            raise _syntax(place)
    if not phrase:
        raise _syntax(place)
    return [*phrases, phrase]


def _syntax(place: int) -> Exception:
    return text_error("DRG-50901", f"text query parser syntax error on line 1, column {place + 1}")


class TextIndex:
    """The index over one column. Rows are known by a key."""

    def __init__(self) -> None:
        self._rows: dict[str, Counter[str]] = {}
        self._texts: dict[str, list[str]] = {}
        self._postings: defaultdict[str, set[str]] = defaultdict(set)

    def put(self, key: str, text: str) -> None:
        self.remove(key)
        words = tokens(text)
        self._rows[key], self._texts[key] = Counter(words), words
        for word in self._rows[key]:
            self._postings[word].add(key)

    def remove(self, key: str) -> None:
        for word in self._rows.pop(key, {}):
            self._postings[word].discard(key)
        self._texts.pop(key, None)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def keys(self) -> set[str]:
        return set(self._rows)

    def search(self, query: str | None) -> dict[str, int]:
        """Return the score of every row that matches."""
        phrases = parse(query)
        found: defaultdict[str, list[float]] = defaultdict(list)
        for phrase in phrases:
            rows = self._holding(phrase)
            for key, count in rows.items():
                share = 1 + math.log(len(self._rows) / len(rows))
                found[key].append(min(100.0, 3 * count * share))
        band = 100 / len(phrases)
        return {
            key: max(1, round(band * (len(scores) - 1 + sum(scores) / len(scores) / 100)))
            for key, scores in found.items()
        }

    def _holding(self, phrase: list[str]) -> dict[str, int]:
        if not phrase:
            return {}
        keys = set.intersection(*(self._postings.get(word, set()) for word in phrase))
        if len(phrase) == 1:
            return {key: self._rows[key][phrase[0]] for key in keys}
        counts = {key: _occurrences(self._texts[key], phrase) for key in keys}
        return {key: count for key, count in counts.items() if count}


def _occurrences(words: list[str], phrase: list[str]) -> int:
    size = len(phrase)
    return sum(words[at : at + size] == phrase for at in range(len(words) - size + 1))
