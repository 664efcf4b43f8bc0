"""Carries our lexical terms through Oracle Text, and compiles queries that cannot be misread.

With the lexer ``terms`` the text index holds the terms of `agentmem._terms`, so that both engines
find the same chunks in every language: stemmed English, codes, pairs of Chinese characters. A term
is indexed as one run of ASCII letters and digits, which every lexer keeps whole; any other term is
spelled in hexadecimal digits. With a lexer of Oracle the index holds the text itself.

A word of a query is always put in braces: inside them no operator and no reserved word exists.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from agentmem._terms import analyze
from agentmem.backends.oracle._names import VARCHAR_BYTES

TERMS = "terms"
"""The lexer that indexes our own terms."""

EVERY_CHUNK = "zqall"
"""A term of every chunk, by which `verify` finds chunks that the text index lacks."""

_PLAIN = re.compile(r"[a-z0-9]{1,60}")
_MARK = "zq"
_WORD = re.compile(r"[^\W_]+")
_ACCUMULATE = " , "


def spell(term: str) -> str:
    """Return the form of a term in the index."""
    if _PLAIN.fullmatch(term) and not term.startswith(_MARK):
        return term
    data = term.encode("utf-8", "surrogatepass")
    if len(data) > 28:
        return f"{_MARK}h{hashlib.blake2b(data, digest_size=20).hexdigest()}"
    return f"{_MARK}x{data.hex()}"


def indexed_text(text: str, lexer: str) -> str:
    """Return what the text index holds for a chunk."""
    if lexer == TERMS:
        return " ".join([*map(spell, analyze(text)), EVERY_CHUNK])
    return f"{text} {EVERY_CHUNK}"


def contains_query(terms: Sequence[str], text: str, lexer: str) -> tuple[str | None, int]:
    """Return a CONTAINS query that finds and counts the words of a search.

    Parameters
    ----------
    terms, text
        The terms of the search, and its text for a lexer of Oracle.
    lexer
        Which lexer made the index.

    Returns
    -------
    tuple[str | None, int]
        The query, None when there is no word, and how many words it had to leave out to stay
        within what one bind holds.
    """
    words = map(spell, terms) if lexer == TERMS else _words(text)
    parts: list[str] = []
    left_out = size = 0
    for word in dict.fromkeys(words):
        part = f"{{{word}}}"
        size += len(part.encode("utf-8")) + len(_ACCUMULATE)
        if size > VARCHAR_BYTES:
            left_out += 1
        else:
            parts.append(part)
    return _ACCUMULATE.join(parts) or None, left_out


def _words(text: str) -> Iterable[str]:
    """Return runs of letters and digits; whatever has a meaning in a query falls away."""
    return _WORD.findall(text)
