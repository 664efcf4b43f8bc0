"""Says how a WordPiece tokenizer reads text, in terms that operators of an ONNX graph can follow.

The tokenizer operator of onnxruntime-extensions cuts words into pieces much like the client does,
but it prepares text differently: it leaves Korean syllables whole, strips fewer accents, has its
own idea of punctuation and control characters, and keeps the first pieces of a word that it cannot
finish. So the graph prepares the text before, by rules that are read off the client's tokenizer
here, code point by code point. That is exact because BERT's normalizer looks at one code point at
a time, except for the order of several marks on one letter, and it drops nearly all marks.

After these rules a text is a line of words with one space between them, and the operator cuts each
word. A word that cannot be cut is one placeholder by then, which the operator takes as unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agentmem.errors import ModelError
from agentmem.models.database_characters import read_characters

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Replacement = tuple[str, str]
# A constant of the operator, and of BERT.
_LONGEST_WORD = 100
# A regular expression is compiled for each run of the graph: only what would be too much for the
# table is left to it, which are ideographs and private characters.
_LONG_RUN = 200


@dataclass(frozen=True, slots=True)
class TextRules:
    """What a graph needs to read text like the client.

    Attributes
    ----------
    before
        Regular expressions (RE2) with replacements for the raw text, in order.
    table
        What becomes of a character.
    other
        What becomes of a character that `table` does not have: a letter of unknown words.
    after
        Regular expressions with replacements for the joined text, in order.
    vocabulary
        The word pieces, one a line, in the order of their ids.
    unknown, continuation
        The unknown token, and the mark of pieces that do not start a word.
    opening, closing
        Ids of the special tokens before and after a text.
    operator
        The operator's settings nearest to the client's, for when it prepares texts by itself.
    """

    before: tuple[Replacement, ...]
    table: dict[str, str]
    other: str
    after: tuple[Replacement, ...]
    vocabulary: str
    unknown: str
    continuation: str
    opening: int
    closing: int
    operator: dict[str, int]


def read_rules(tokenizer: Tokenizer, *, pairs: bool = False) -> TextRules:
    """Return the rules of a WordPiece tokenizer.

    Parameters
    ----------
    tokenizer
        The client's, without truncation and padding.
    pairs
        Whether two texts are to be joined, which must be done like BERT does it.

    Raises
    ------
    ModelError
        The tokenizer is of another kind, or has settings that a graph cannot follow.
    """
    _require_bert(json.loads(tokenizer.to_str()))
    unknown = tokenizer.model.unk_token
    opening, closing = _frame(tokenizer, unknown)
    if pairs:
        _require_pairs(tokenizer, unknown, opening, closing)
    return _read_rules(tokenizer.to_str())


def _require_pairs(tokenizer: Tokenizer, word: str, opening: int, closing: int) -> None:
    inner = tokenizer.encode(word, add_special_tokens=False).ids
    pair = tokenizer.encode(word, word)
    ids = [opening, *inner, closing, *inner, closing]
    types = [0] * (len(inner) + 2) + [1] * (len(inner) + 1)
    if (pair.ids, pair.type_ids) != (ids, types):
        raise ModelError(
            "the tokenizer joins two texts in its own way; a graph for the database needs BERT's: "
            "[CLS] query [SEP] text [SEP], with segment 1 from the text on"
        )


# Two graphs are often built from one tokenizer, and it takes seconds to look at all characters.
@lru_cache(maxsize=2)
def _read_rules(content: str) -> TextRules:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(content)
    described = json.loads(content)
    model, literals = described["model"], [t["content"] for t in described["added_tokens"]]
    pieces = _pieces(tokenizer)
    prepared = read_characters(tokenizer)
    known = _letters(set(pieces) - {*literals}, model["continuing_subword_prefix"], prepared)
    free = (c for c, text in prepared.items() if text == c != " " and c not in known)
    other, *marks = (next(free) for _ in range(1 + len(literals)))
    final = {c: _mask(text, known, other) for c, text in prepared.items()}
    classes = _classes(prepared)
    marked = dict(zip(marks, literals, strict=True))
    opening, closing = _frame(tokenizer, model["unk_token"])
    return TextRules(
        before=tuple(_before(marked, other, classes)),
        table=_table(final, other, classes) | {m: f" {text} " for m, text in marked.items()},
        other=other,
        after=((f"[^ ]*{other}[^ ]*", other), (" +", " "), ("^ | $", "")),
        vocabulary="\n".join(pieces),
        unknown=model["unk_token"],
        continuation=model["continuing_subword_prefix"],
        opening=opening,
        closing=closing,
        operator=_operator(described["normalizer"] or {}),
    )


def _operator(normalizer: dict[str, Any]) -> dict[str, int]:
    lower = normalizer.get("lowercase", False)
    accents = normalizer.get("strip_accents")
    return {
        "do_lower_case": int(lower),
        "strip_accents": int(lower if accents is None else accents),
        "tokenize_chinese_chars": int(normalizer.get("handle_chinese_chars", False)),
    }


def _require_bert(described: dict[str, Any]) -> None:
    """Refuse what the rules of this module do not cover, naming it."""
    model, added = described["model"], described["added_tokens"]
    normalizer, splitter = (
        (described[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer")
    )
    faults = {
        f"a model {model.get('type')}": model.get("type") != "WordPiece",
        f"a normalizer {normalizer}": normalizer not in (None, "BertNormalizer"),
        f"a pre-tokenizer {splitter}": splitter != "BertPreTokenizer",
        "another longest word": model.get("max_input_chars_per_word") != _LONGEST_WORD,
        "tokens that match normalized text or whole words only": any(
            token["single_word"] or token["normalized"] for token in added
        ),
    }
    found = [fault for fault, there in faults.items() if there]
    if found:
        raise ModelError(
            f"the tokenizer has {', '.join(found)}; a graph for the database needs BERT's kind: "
            f"WordPiece, BertNormalizer or none, BertPreTokenizer, words of up to {_LONGEST_WORD} "
            "characters, added tokens that match raw text"
        )


def _pieces(tokenizer: Tokenizer) -> list[str]:
    """Return the vocabulary in the order of its ids."""
    vocabulary = tokenizer.get_vocab()
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    numbered = [vocabulary[piece] for piece in pieces] == list(range(len(pieces)))
    if not numbered or any(not piece or re.search(r"\s", piece) for piece in pieces):
        raise ModelError(
            "the vocabulary has gaps between its ids, or pieces with white space; a graph for the "
            "database needs one piece for each id from 0 on"
        )
    return pieces


def _letters(pieces: set[str], continuation: str, prepared: dict[str, str]) -> set[str]:
    """Return the characters that known words are made of.

    When each of them is a piece by itself, both at the start and inside of a word, then a word is
    unknown exactly when it has another character. On that the rules rest.
    """
    inside = {p.removeprefix(continuation) for p in pieces if p.startswith(continuation)}
    start = pieces - {continuation + p for p in inside}
    single = {p for p in start if len(p) == 1}
    needed = {c for p in start | inside for c in p if prepared.get(c) == c}
    halves = sorted(needed - (single & inside))
    if halves:
        raise ModelError(
            f"the vocabulary lacks {halves[0]!r} as a piece by itself, at the start or inside of a "
            "word; a graph for the database needs every letter of its pieces in both places"
        )
    return single


def _mask(text: str, known: set[str], other: str) -> str:
    return "".join(c if c == " " or c in known else other for c in text)


def _before(
    marked: dict[str, str], other: str, classes: dict[str, list[range]]
) -> Iterator[Replacement]:
    """Yield replacements for the raw text: special tokens written out, then whole classes."""
    yield _class(_runs(marked)), other
    for mark, literal in marked.items():
        yield re.escape(literal), mark
    for result, runs in classes.items():
        if runs:
            yield _class(runs), result


def _classes(prepared: dict[str, str]) -> dict[str, list[range]]:
    """Return long runs of characters to drop, and of such that are words alone, by replacement."""
    shapes = {
        "": (c for c, text in prepared.items() if not text),
        r" \0 ": (c for c, text in prepared.items() if text == f" {c} "),
    }
    return {
        result: [run for run in _runs(members) if len(run) >= _LONG_RUN]
        for result, members in shapes.items()
    }


def _table(final: dict[str, str], other: str, classes: dict[str, list[range]]) -> dict[str, str]:
    """Return what becomes of characters that neither a class nor the default covers."""
    covered = {chr(n) for runs in classes.values() for run in runs for n in run}
    return {
        c: text
        for c, text in final.items()
        if text != other and not (c in covered and text in ("", f" {other} "))
    }


def _runs(characters: Iterable[str]) -> list[range]:
    runs: list[range] = []
    for n in sorted(map(ord, characters)):
        if runs and runs[-1].stop == n:
            runs[-1] = range(runs[-1].start, n + 1)
        else:
            runs.append(range(n, n + 1))
    return runs


def _class(runs: list[range]) -> str:
    """Return a regular expression for one character of `runs`."""
    return "[" + "".join(f"\\x{{{run[0]:X}}}-\\x{{{run[-1]:X}}}" for run in runs) + "]"


def _frame(tokenizer: Tokenizer, word: str) -> tuple[int, int]:
    """Return the ids that open and close a text."""
    inner = tokenizer.encode(word, add_special_tokens=False).ids
    opening, *middle, closing = [*tokenizer.encode(word).ids, -1]
    if [*middle[:-1]] != inner or closing != -1:
        raise ModelError(
            "the tokenizer does not put one special token before and one after a text, as a graph "
            "for the database needs it"
        )
    return opening, middle[-1]
