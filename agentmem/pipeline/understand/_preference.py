"""Whether a question asks for what was, for what is, or for the latest (English)."""

from __future__ import annotations

import re

from agentmem._terms import fold
from agentmem._types import TimePreference

_LOOKED_AT = 2_000
_QUESTION = re.compile(r"[^.!?]*\?")
_EARLIER = re.compile(
    r"^(?!.*\b(?:is|are|was|were|be|been|get|got)\b.*\bused to\b).*\bused to\b"
    r"|\b(?:originally|original|previous|previously|former|formerly|initial|initially)\b"
    r"|\bat first\b|\b(?:the|very|my|our|your|his|her|its|their|'s) first\b"
    r"|\bback (?:then|in)\b|\bin the past\b|\b(?:before|until|till|prior to|earlier|earliest)\b"
)
_LATEST = re.compile(
    r"\b(?:now|nowadays|still|currently|current|presently|latest|newest|any ?more|any longer)\b"
    r"|\b(?:these days|at the moment|at present|by now|up to date|most recent|most recently)\b"
)
_STILL = re.compile(r"\b(?:still|now)\b")
# "Until when" and "by when" ask for an end, not for what was before it.
_ASKS_FOR_END = re.compile(r"\b(?:until|till|by) when\b")
_PRESENT = re.compile(r"\b(?:is|are|am|do|does|has|have|can|may|must)\b")
_NOT_PRESENT = re.compile(r"\b(?:was|were|did|had|ago|last|when|since|will|been)\b")


def find_preference(query: str) -> TimePreference | None:
    """Return which of several statements a question prefers by their time, or None.

    Only sentences that end in a question mark count: what somebody says by the way, as in "I am
    tired now", asks for nothing.
    """
    text = fold(" ".join(_QUESTION.findall(query[:_LOOKED_AT])))
    if not text or _ASKS_FOR_END.search(text):
        return None
    if _EARLIER.search(text) and not _STILL.search(text):
        return "earlier"
    if _LATEST.search(text):
        return "latest"
    if _PRESENT.search(text) and not _NOT_PRESENT.search(text):
        return "current"
    return None
