"""Turns a text into lexical terms; the index and the query are cut by the same rules.

1. NFKC and casefold, so that full-width digits and capitals make no difference.
2. Accents fall from Latin, Greek and Cyrillic letters: `café` and `cafe` are one term. Marks of
   other scripts are part of the word and stay.
3. Words are runs of letters, marks and digits. English stemming makes one term of `walk` and
   `walked`; it touches words of ASCII letters only.
4. A code such as ``ERR-4711`` gives its parts and the whole without separators, ``err4711``, so
   that `ERR 4711` and `ERR4711` find it too. A number with separators (``3.11.7``, ``2024-05-01``)
   gives its parts and the whole as written.
5. Chinese, Japanese and Korean runs are cut into overlapping pairs of characters, so that any part
   of a run of two or more characters is found; the index holds single characters as well.
6. A pictograph is a term.

Nothing is a stop word in the index. A query drops English function words unless nothing is left.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache

from Stemmer import Stemmer

MAX_QUERY_TERMS = 256
"""Most terms of a query; a longer one keeps its first ones."""

MAX_TERM_LENGTH = 64
"""Characters of a term that count; the rest of a longer run is cut off."""

_CJK = (
    "\u3005\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_HAN = re.compile("[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_FOLDED_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC")
_APOSTROPHES = "\u2019\u2018\u02bc\uff07"

# What English glues to a word with an apostrophe; it carries no meaning of its own.
_CLITICS = frozenset({"s", "t", "d", "m", "ll", "re", "ve"})

_FUNCTION_WORDS = frozenset(
    """a about all also am an and any are as at be been being but by can could did do does doing for
    from had has have having he her hers him his how i if in into is it its itself just let me might
    mine must my of on or our ours shall she should so some such than that the their theirs them
    then there these they this those to too us very was we were what when where which who whom whose
    why will with would you your yours""".split()
)


def analyze(text: str) -> list[str]:
    """Return the index terms of `text`, in text order, repeated as often as they occur.

    Any str is accepted; lone surrogates and NUL separate words. Terms hold no white space.
    """
    return list(_terms(text, index=True))


def query_terms(text: str) -> tuple[str, ...]:
    """Return the terms to search for, each once, at most `MAX_QUERY_TERMS`.

    Function words are dropped unless nothing is left without them.
    """
    found = list(dict.fromkeys(_terms(text, index=False)))
    telling = [term for term in found if term not in _stop_stems()]
    return tuple((telling or found)[:MAX_QUERY_TERMS])


def has_terms(text: str) -> bool:
    """Return whether there is anything in `text` to search for."""
    return next(_terms(text, index=False), None) is not None


def fold(text: str) -> str:
    """Return `text` in NFKC, casefolded, and with the accents of rule 2 removed."""
    if text.isascii():
        return text.lower()
    for sign in _APOSTROPHES:
        text = text.replace(sign, "'")
    text = unicodedata.normalize("NFKC", text).casefold()
    # A text has few different signs; each is looked at once.
    beyond = [sign for sign in set(text) if not sign.isascii()]
    for sign in beyond:
        if (bare := _bare(sign)) != sign:
            text = text.replace(sign, bare)
    if any(unicodedata.combining(sign) for sign in beyond):
        text = _accents().sub(_left_of_accents, unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", text)


@lru_cache(maxsize=4096)
def _bare(sign: str) -> str:
    """Return a letter without its accents, another sign as it is."""
    parts = unicodedata.normalize("NFD", sign)
    return parts[0] if len(parts) > 1 and _loses_accents(parts[0]) else sign


@lru_cache(maxsize=1)
def _accents() -> re.Pattern[str]:
    return re.compile(f"[{_class_of(lambda sign: unicodedata.combining(sign) != 0)}]+")


def _left_of_accents(found: re.Match[str]) -> str:
    """Return what is left of accents that stand by themselves, by the letter before them."""
    under = found.string[found.start() - 1] if found.start() else ""
    return "" if under and _loses_accents(under) else found.group()


@lru_cache(maxsize=4096)
def _loses_accents(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_FOLDED_SCRIPTS)


def _terms(text: str, *, index: bool) -> Iterator[str]:
    folded = fold(text)
    for match in _pattern(ascii_only=folded.isascii()).finditer(folded):
        found = match.group()
        kind = match.lastgroup
        if kind == "cjk":
            yield from _pairs(found, index=index)
        elif kind == "word":
            yield from _word(found)
        elif kind == "compound":
            yield from _compound(found)
        else:
            yield found[:MAX_TERM_LENGTH]


@lru_cache(maxsize=2)
def _pattern(*, ascii_only: bool) -> re.Pattern[str]:
    """Return the pattern of a token, made at first use.

    Most texts are ASCII; a pattern that knows of nothing else reads them many times as fast.
    """
    letter = _letter(ascii_only=ascii_only)
    word = f"{letter}+"
    kinds = (
        f"(?P<sharp>(?<!{letter})[a-z](?:\\+\\+|\\#)(?!{letter}))"
        f"|(?P<compound>{word}(?:(?:[-_./:@+&=]|(?<=\\d),(?=\\d)){word})+)"
        f"|(?P<word>{word}(?:'{word})*)"
    )
    if ascii_only:
        return re.compile(kinds)
    pictograph = "(?P<pictograph>[\u2600-\u27bf\U0001f000-\U0001faff])"
    return re.compile(f"(?P<cjk>[{_CJK}]+)|{kinds}|{pictograph}")


@lru_cache(maxsize=2)
def words(*, ascii_only: bool) -> re.Pattern[str]:
    """Return the pattern of a whole run of letters and digits in folded text."""
    letter = _letter(ascii_only=ascii_only)
    return re.compile(f"(?<!{letter}){letter}+")


def _letter(*, ascii_only: bool) -> str:
    """Return the pattern of a letter or digit; combining marks belong to the word they stand in."""
    if ascii_only:
        return "[a-z0-9]"
    marks = _class_of(lambda sign: unicodedata.category(sign) in ("Mn", "Mc"))
    return f"(?:(?![{_CJK}])[^\\W_]|[{marks}])"


def _class_of(belongs: Callable[[str], bool]) -> str:
    """Return the inside of a character class of the combining marks for which `belongs` holds."""
    ranges, start = [], None
    for code in range(0x300, 0x20000):
        inside = belongs(chr(code))
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            ranges.append(f"{chr(start)}-{chr(code - 1)}")
            start = None
    return "".join(ranges)


def _word(found: str) -> Iterator[str]:
    parts = found.split("'")
    for place, part in enumerate(parts):
        if part and not (place and part in _CLITICS):
            yield from _plain(part)


def _plain(part: str) -> Iterator[str]:
    """Yield the term of a run of letters and digits, and its parts when it mixes them."""
    if part.isascii() and part.isalpha():
        yield stem(part[:MAX_TERM_LENGTH])
        return
    yield part[:MAX_TERM_LENGTH]
    if part.isascii() and not part.isdigit():
        pieces = re.findall(r"[a-z]+|[0-9]+", part)
        if 1 < len(pieces) <= 4:
            yield from (stem(piece[:MAX_TERM_LENGTH]) for piece in pieces)


def _compound(found: str) -> Iterator[str]:
    parts = re.split(r"[-_./:@+&=,]", found)
    for part in parts:
        if part.isascii() and part.isalpha():
            yield stem(part[:MAX_TERM_LENGTH])
        else:
            yield part[:MAX_TERM_LENGTH]
    if all(part.isdigit() for part in parts):
        yield found[:MAX_TERM_LENGTH]
    elif any(character.isdigit() for character in found):
        yield "".join(parts)[:MAX_TERM_LENGTH]


def _pairs(run: str, *, index: bool) -> Iterator[str]:
    if index:
        yield from _HAN.findall(run)
    if len(run) == 1 and not (index and _HAN.match(run)):
        yield run
    for place in range(len(run) - 1):
        yield run[place : place + 2]


class _PerThread(threading.local):
    """A stemmer for each thread; its library does not allow two at a time to use one."""

    def __init__(self) -> None:
        self.english = Stemmer("english", 0)  # 0: no cache, where words of purged texts would stay


_STEMMERS = _PerThread()


def stem(word: str) -> str:
    """Return the stem of a word of ASCII letters in lower case."""
    found: str = _STEMMERS.english.stemWord(word)
    return found or word


@lru_cache(maxsize=1)
def _stop_stems() -> frozenset[str]:
    return frozenset(stem(word) for word in _FUNCTION_WORDS)
