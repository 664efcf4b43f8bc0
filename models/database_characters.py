"""Reads off a client's tokenizer what it makes of each character before it cuts words.

A normalizer and a pre-tokenizer in BERT's manner look at one code point at a time, so what they
make of every single one says what they make of any text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SURROGATES = range(0xD800, 0xE000)
# Separates characters that are normalized in one go; no other character becomes it.
_BAR = "|"
_BLOCK = 4096
# Planes without any assigned character, and the private ones: up to the last two code points, the
# first one stands for all.
_UNIFORM_PLANES = (*range(4, 14), 15, 16)
_BODY = 0xFFFE


def read_characters(tokenizer: Tokenizer) -> dict[str, str]:
    """Return what becomes of each code point before words are cut, with spaces between words.

    Planes without characters are left out, unless they are dropped.
    """
    normal: dict[str, str] = {}
    for block in _blocks([chr(n) for n in _code_points()]):
        normal.update(zip(block, _normalized(tokenizer, block), strict=True))
    for plane in _UNIFORM_PLANES:
        if not normal[first := chr(plane << 16)]:
            normal.update(dict.fromkeys(map(chr, range(ord(first), ord(first) + _BODY)), ""))
    results = sorted({c for text in normal.values() for c in text})
    spaced: dict[str, str] = {}
    for block in _blocks(results):
        spaced.update(zip(block, _split(tokenizer, block), strict=True))
    # Nearly all texts are one character, which one look-up settles.
    return {
        c: spaced.get(text) or "".join(map(spaced.__getitem__, text)) for c, text in normal.items()
    }


def _code_points() -> Iterator[int]:
    """Yield the code points to look at; of a uniform plane the first and the last two."""
    for plane in range(17):
        start, end = plane << 16, (plane + 1) << 16
        if plane in _UNIFORM_PLANES:
            yield start
            start += _BODY
        yield from (n for n in range(start, end) if n not in _SURROGATES)


def _blocks(items: list[str]) -> Iterator[list[str]]:
    return (items[start : start + _BLOCK] for start in range(0, len(items), _BLOCK))


def _normalized(tokenizer: Tokenizer, block: list[str]) -> list[str]:
    """Return what the normalizer makes of each character."""
    if tokenizer.normalizer is None:
        return block
    texts: list[str] = tokenizer.normalizer.normalize_str(_BAR.join(block)).split(_BAR)
    if len(texts) == len(block):
        return texts
    return [tokenizer.normalizer.normalize_str(c) for c in block]


def _split(tokenizer: Tokenizer, block: list[str]) -> list[str]:
    """Return each character as the pre-tokenizer sees it: a letter, a space or a word alone."""
    parts = [
        part for part, _ in tokenizer.pre_tokenizer.pre_tokenize_str("a".join(["", *block, ""]))
    ]
    # Between two letters "a", a letter joins them and a space vanishes.
    alone, seen = {part for part in parts if len(part) == 1}, set("".join(parts))
    return [(f" {c} " if c in alone and c != "a" else c) if c in seen else " " for c in block]
