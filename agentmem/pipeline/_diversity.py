"""Orders candidates so that the first ones differ from each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from agentmem._filters import COLUMNS, canonical_json, encode_metadata
from agentmem._filters.tree import check_field
from agentmem._terms import analyze
from agentmem.backends.base import Candidate, ChunkRow
from agentmem.errors import FilterError, InvalidInputError
from agentmem.pipeline._stage import need

DOCUMENT = "document"
SIMILARITY = "similarity"

_MMR_LAMBDA = 0.7
_COLUMN_OF = {"id": "document_id"}
_MOMENTS = frozenset({"created_at", "valid_from", "valid_until", "expires_at"})


def check_diversify(value: object) -> str | None:
    """Return a value for `diversify_by`.

    Raises
    ------
    InvalidInputError
        It is neither ``"document"``, ``"similarity"``, a column nor a metadata field.
    """
    if value is None or value in (DOCUMENT, SIMILARITY):
        return value
    try:
        field = check_field(value)
    except FilterError as error:
        raise InvalidInputError(
            f"diversify_by is {value!r}; it can be 'document', 'similarity', a column or a "
            "metadata field"
        ) from error
    if field in _MOMENTS:
        raise InvalidInputError(f"diversify_by cannot be {field!r}: times are hardly ever equal")
    return field


def diversified(candidates: Sequence[Candidate], by: str | None, most: int) -> list[Candidate]:
    """Return the candidates in an order that prefers differing ones.

    By a field or by document, the best of each group come first, then the second of each group, and
    so on, each round in order of score. A candidate without the field is a group of its own
    document. By similarity, the first `most` are chosen by maximal marginal relevance with
    lambda = 0.7 (Carbonell and Goldstein, SIGIR 1998), similarity being the overlap of terms.
    """
    if by is None or len(candidates) < 2:
        return list(candidates)
    if by == SIMILARITY:
        return _marginal(candidates, most)
    return _rounds(candidates, by)


def _rounds(candidates: Iterable[Candidate], by: str) -> list[Candidate]:
    seen: dict[Hashable, int] = {}
    ranked = []
    for place, candidate in enumerate(candidates):
        group = _group(need(candidate.row, "row"), by)
        turn = seen.get(group, 0)
        seen[group] = turn + 1
        ranked.append((turn, place, candidate))
    return [candidate for _, _, candidate in sorted(ranked, key=lambda item: item[:2])]


def _group(row: ChunkRow, by: str) -> Hashable:
    if by == DOCUMENT:
        return row.document_id
    value = _value(row, by)
    return ("without", row.document_id) if value is None else ("with", value)


def _value(row: ChunkRow, by: str) -> str | None:
    if by in COLUMNS:
        value = getattr(row, _COLUMN_OF.get(by, by))
        return None if value is None else str(value)
    stored: Any = row.metadata
    for name in by.removeprefix("metadata.").split("."):
        if not isinstance(stored, dict) or name not in stored:
            return None
        stored = stored[name]
    return canonical_json(encode_metadata({"value": stored}))


def _marginal(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    terms = [frozenset(analyze(need(c.row, "row").text)) for c in candidates]
    relevance = _scaled([c.score for c in candidates])
    likeness = [0.0] * len(candidates)
    left = list(range(len(candidates)))
    chosen: list[int] = []
    while left and len(chosen) < most:
        best = max(left, key=_worth(relevance, likeness))
        left.remove(best)
        chosen.append(best)
        for place in left:
            likeness[place] = max(likeness[place], overlap(terms[best], terms[place]))
    return [candidates[place] for place in (*chosen, *left)]


def _worth(relevance: Sequence[float], likeness: Sequence[float]) -> Callable[[int], float]:
    return lambda place: _MMR_LAMBDA * relevance[place] - (1.0 - _MMR_LAMBDA) * likeness[place]


def overlap(left: frozenset[str], right: frozenset[str]) -> float:
    """Return the Jaccard index of two sets of terms."""
    union = len(left | right)
    return len(left & right) / union if union else 1.0


def _scaled(scores: Sequence[float]) -> list[float]:
    low, high = min(scores), max(scores)
    return [(score - low) / (high - low) if high > low else 1.0 for score in scores]
