"""Cuts a text into chunks. A policy of its own: retrieval knows only the spans that come out.

The default packs whole sentences up to a number of tokens. It prefers to end where a paragraph
ends, lets neighbours share a sentence or two, and cuts inside a sentence only when the sentence
alone is too long. The text is tokenised once, so that the cost grows with its length.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeAlias

from agentmem.errors import ConfigurationError

Offsets: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text.

    Attributes
    ----------
    index
        Place among the chunks of the text, from 0 on.
    start, end
        Characters of the text; the part neither starts nor ends with white space.
    tokens
        How many tokens it has.
    """

    index: int
    start: int
    end: int
    tokens: int


class Chunker(Protocol):
    """Cuts texts. Every character that is not white space is in at least one chunk."""

    def split(self, text: str) -> list[Chunk]:
        """Return the chunks of `text`, at least one, in order of their start."""
        ...


@dataclass(frozen=True, slots=True)
class _Span:
    """A sentence, or a piece of one that is too long."""

    start: int
    end: int
    first_token: int
    last_token: int
    ends_paragraph: bool

    @property
    def size(self) -> int:
        """Tokens, or more when few tokens stand for many characters."""
        return max(self.last_token - self.first_token, (self.end - self.start) // _CHARACTERS)


# A sentence ends at a mark with quotes or brackets behind it and then white space, at a CJK mark,
# or at a line break.
# A run of marks is looked at once, from its start and without going back: time stays linear.
_END = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\]]*+(?=\s)"
    r"|[\u3002\uff01\uff1f]++[\u300d\u300f\u201d\uff09]*+|\n++"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|[Mm]rs?|[Mm]s|[Dd]r|[Pp]rof|[Ss]t|[Ss]r|[Jj]r|[Nn]o|[Vv]s|[Ee]tc|[Ii]nc|[Ll]td|"
    r"[Cc]o|[Ff]ig|[Vv]ol|[Aa]pprox|[Dd]ept|[Ee]st|[Ee]\.g|[Ii]\.e|[Uu]\.[Ss]|[Zz]\.[Bb]|[Bb]zw|"
    r"[Dd]\.[Hh]|[Uu]sw|[Cc]a|[Nn]r|[Pp]\.[Ee]j|[Ss]ra?|[Mm]me|[Aa]v)\.)\Z"
)
_LOOK_BACK = 12
# A tokenizer may make one token of a word of any length. Such text is cut by characters: this many
# count as a token, about four times what prose has.
_CHARACTERS = 16


class SentenceChunker:
    """Packs whole sentences.

    Parameters
    ----------
    token_offsets
        Returns the character span of each token of a text (`Embedder.token_offsets`).
    max_tokens
        Most tokens of a chunk.
    overlap_tokens
        Most tokens of whole sentences that a chunk repeats from the one before.

    Raises
    ------
    ConfigurationError
        The overlap is not smaller than the chunk.
    """

    def __init__(
        self,
        token_offsets: Callable[[str], Offsets],
        *,
        max_tokens: int = 256,
        overlap_tokens: int = 32,
    ) -> None:
        if not 0 <= overlap_tokens < max_tokens:
            raise ConfigurationError(
                f"chunk_overlap ({overlap_tokens}) must be smaller than chunk_tokens ({max_tokens})"
            )
        self._offsets = token_offsets
        self._most = max_tokens
        self._overlap = overlap_tokens

    def split(self, text: str) -> list[Chunk]:
        """Return the chunks of `text`."""
        offsets = self._offsets(text)
        if max(len(offsets), len(text) // _CHARACTERS) <= self._most:
            return [_chunk(text, 0, 0, len(text), len(offsets))]
        spans = list(self._spans(text, offsets))
        groups = list(self._groups(spans))
        return [
            _chunk(
                text,
                index,
                spans[first].start,
                spans[last - 1].end,
                spans[last - 1].last_token - spans[first].first_token,
            )
            for index, (first, last) in enumerate(groups)
        ]

    def _spans(self, text: str, offsets: Offsets) -> Iterator[_Span]:
        starts = [start for start, _ in offsets]
        for start, end, ends_paragraph in _sentences(text):
            first, last = bisect_left(starts, start), bisect_left(starts, end)
            span = _Span(start, end, first, last, ends_paragraph)
            while span.size > self._most:
                head, span = self._cut(text, starts, span)
                yield head
            yield span

    def _cut(self, text: str, starts: Sequence[int], span: _Span) -> tuple[_Span, _Span]:
        """Cut a sentence that is too long by itself: before a word, else wherever it must be."""
        place = min(span.first_token + self._most, span.last_token)
        place = _word_start(text, starts, span.first_token, place)
        furthest = span.start + self._most * _CHARACTERS
        at = starts[place] if place < span.last_token else span.end
        if at > furthest:
            at, place = furthest, bisect_left(starts, furthest)
            # A token that is cut in two counts on both sides.
            rest = place if place < len(starts) and starts[place] == at else place - 1
            head = _Span(span.start, at, span.first_token, place, False)
            return head, _Span(at, span.end, rest, span.last_token, span.ends_paragraph)
        head = _Span(span.start, at, span.first_token, place, False)
        return head, _Span(at, span.end, place, span.last_token, span.ends_paragraph)

    def _groups(self, spans: Sequence[_Span]) -> Iterator[tuple[int, int]]:
        """Yield the first and one-past-last sentence of each chunk."""
        first = 0
        while first < len(spans):
            last = self._fill(spans, first)
            yield first, last
            if last == len(spans):
                return
            first = self._step_back(spans, first, last)

    def _fill(self, spans: Sequence[_Span], first: int) -> int:
        last, size, paragraph = first, 0, 0
        while last < len(spans) and size + spans[last].size <= self._most:
            size += spans[last].size
            last += 1
            if spans[last - 1].ends_paragraph and size * 2 >= self._most:
                paragraph = last
        if last == len(spans):
            return last
        # A paragraph's end in the second half is the better place to stop.
        return paragraph or max(last, first + 1)

    def _step_back(self, spans: Sequence[_Span], first: int, last: int) -> int:
        start, shared = last, 0
        room = self._most - spans[last].size
        while start - 1 > first:
            shared += spans[start - 1].size
            if shared > min(self._overlap, room):
                break
            start -= 1
        return start


class WholeChunker:
    """One chunk for each text, for callers who cut their own.

    Parameters
    ----------
    token_offsets
        As in `SentenceChunker`.
    """

    def __init__(self, token_offsets: Callable[[str], Offsets]) -> None:
        self._offsets = token_offsets

    def split(self, text: str) -> list[Chunk]:
        """Return the text as one chunk."""
        return [_chunk(text, 0, 0, len(text), len(self._offsets(text)))]


def _chunk(text: str, index: int, start: int, end: int, tokens: int) -> Chunk:
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return Chunk(index, start, start + len(part.strip()), tokens)


def _sentences(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield start, end and whether a paragraph ends there, without blank ones."""
    marks = [
        (match.end(), "\n\n" in match.group())
        for match in _END.finditer(text)
        if not _is_abbreviation(text, match.start(), match.group())
    ]
    marks = [(0, False), *marks, (len(text), True)]
    held: tuple[int, int, bool] | None = None
    for (start, _), (end, paragraph) in pairwise(marks):
        if text[start:end].strip():
            if held is not None:
                yield held
            held = (start, end, paragraph)
        elif held is not None and paragraph:
            # The blank lines behind a sentence end its paragraph.
            held = (held[0], held[1], True)
    if held is not None:
        yield held


def _is_abbreviation(text: str, place: int, mark: str) -> bool:
    if mark != ".":
        return False
    return _ABBREVIATION.search(text[max(0, place - _LOOK_BACK) : place + 1]) is not None


def _word_start(text: str, starts: Sequence[int], first: int, place: int) -> int:
    """Return the last token at or before `place` that begins a word, in the second half."""
    for candidate in range(min(place, len(starts) - 1), first + (place - first) // 2, -1):
        if text[starts[candidate] - 1].isspace():
            return candidate
    return place
