"""What else a query tells: quoted phrases, codes, names, and the kind of question."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentmem._terms import fold
from agentmem._types import Intent

MAX_FEATURES = 32
_LOOKED_AT = 4_000

_QUOTED = re.compile(
    r"\"([^\"]{1,200})\"|\u201c([^\u201d]{1,200})\u201d|\u00ab([^\u00bb]{1,200})\u00bb"
    r"|\u201e([^\u201c]{1,200})\u201c"
)
_CODE = re.compile(
    "|".join(
        (
            r"(?<![\w])#?(?=[\w./:@+=-]{0,64}\d)[\w][\w./:@+=-]*[\w]",
            r"(?<!\w)#?\d+",
            r"(?<!\w)[A-Za-z](?:\+\+|#)(?!\w)",
        )
    )
)
_NAME = re.compile(r"(?:[^\W\d_]\.?)+[^\W_]*(?:[-'\u2019][^\W_]+)*")
_COMMON_STARTS = frozenset(
    """a an and any are as at but by can could did do does during find for from give had has have
    how i if in is it list may my no not of on or our shall should show since so tell that the their
    there these they this to was we were what when where which while who whom whose why will with
    would yes you your""".split()
)
_CALENDAR = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may
    june july august september october november december""".split()
)

# The first pattern that is found decides; the order goes from telling to vague.
_INTENTS: tuple[tuple[Intent, re.Pattern[str]], ...] = (
    (
        "procedure",
        re.compile(
            r"\bhow (?:do|does|can|should|would|to)\b|\bsteps? (?:to|for)\b|\bhow-to\b"
            r"|\binstructions?\b"
        ),
    ),
    (
        "comparison",
        re.compile(r"\b(?:difference|compare|compared|versus|vs|better|worse|rather than)\b"),
    ),
    (
        "time",
        re.compile(
            r"\bwhen\b|\bwhat (?:time|day|date|year|month)\b|\bhow long\b"
            r"|\bwhich (?:day|date|month|year)\b"
        ),
    ),
    (
        "list",
        re.compile(
            r"\b(?:list|all|every|which)\b|\bwhat (?:are|were) (?:the|all|our|my)\b|\bhow many\b"
        ),
    ),
    (
        "preference",
        re.compile(r"\b(?:prefer|favou?rite|likes?|dislikes?|loves?|hates?|enjoys?)\b"),
    ),
    (
        "fact",
        re.compile(
            r"\b(?:who|whose|whom|where|what|is|are|was|were|does|did|has|have)\b"
            r"|\bhow (?:much|old|big|far)\b"
        ),
    ),
)


def find_phrases(query: str) -> tuple[str, ...]:
    """Return the texts in quotation marks; an unbalanced mark is ignored."""
    found = (next(filter(None, match.groups()), "").strip() for match in _quoted(query))
    return _unique(text for text in found if text)


def find_codes(query: str) -> tuple[str, ...]:
    """Return codes and numbers as written, such as ``ERR-4711``, ``#682`` or ``C++``."""
    return _unique(match.group() for match in _CODE.finditer(query[:_LOOKED_AT]))


def find_entities(query: str) -> tuple[str, ...]:
    """Return names: runs of capitalised words, without a common word at the start of a sentence."""
    names: list[str] = []
    current: list[str] = []
    end = -1
    text = query[:_LOOKED_AT]
    for match in _NAME.finditer(text):
        word = match.group()
        joined = bool(current) and text[end : match.start()] == " "
        if not joined:
            names.append(" ".join(current))
            current = []
        if _is_name(word):
            current.append(word)
        else:
            names.append(" ".join(current))
            current = []
        end = match.end()
    names.append(" ".join(current))
    return _unique(name for name in names if name)


def _is_name(word: str) -> bool:
    plain = word.lower().removesuffix("'s").removesuffix("\u2019s")
    return (
        word[0].isupper()
        and len(word) > 1
        and plain not in _COMMON_STARTS
        and plain not in _CALENDAR
    )


def find_intent(query: str) -> Intent:
    """Return the kind of question, by the words that it is asked with (English)."""
    text = fold(query[:_LOOKED_AT])
    for intent, pattern in _INTENTS:
        if pattern.search(text):
            return intent
    return "other"


def _quoted(query: str) -> list[re.Match[str]]:
    return list(_QUOTED.finditer(query[:_LOOKED_AT]))


def _unique(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))[:MAX_FEATURES]
