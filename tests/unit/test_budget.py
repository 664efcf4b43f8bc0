"""Stage 6 as a pure function."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem import InvalidInputError
from agentmem.backends.base import Candidate, ChunkRow
from agentmem.pipeline._diversity import check_diversify
from agentmem.pipeline.budget import WorkingSet, fill_budget


def count_words(text: str) -> int:
    return len(text.split())


def candidate(number: int, text: str, **fields: Any) -> Candidate:
    values: dict[str, Any] = {
        "document_id": f"d{number}", "version": 1, "chunk_index": 0, "start": 0, "end": len(text),
        "text": text, "tokens": count_words(text), "key": None, "title": None, "source_uri": None,
        "user_id": None, "collection": "c", "metadata": {}, "created_at": 0, "valid_from": None,
        "valid_until": None,
    }  # fmt: skip
    row = ChunkRow(**{**values, **fields})
    return Candidate(id=f"{row.document_id}:1:{row.chunk_index}", score=1 / number, row=row)


def fill(candidates: list[Candidate], **changes: Any) -> WorkingSet:
    values: dict[str, Any] = {
        "k": 10, "token_budget": None, "diversify_by": None, "count_tokens": count_words,
    }  # fmt: skip
    return fill_budget(candidates, **{**values, **changes})


def kept(result: WorkingSet) -> list[str]:
    return [c.row.text for c in result.kept if c.row is not None]


def test_the_context_shows_title_source_and_date() -> None:
    row = candidate(1, "text", title="Title", source_uri="file:x", valid_from=86_400_000_000)
    other = candidate(2, "more text")
    assert fill([row, other]).context == (
        "[1] Title (file:x, 1970-01-02)\ntext\n\n[2] (1970-01-01)\nmore text"
    )


def test_a_smaller_hit_may_follow_one_that_does_not_fit() -> None:
    rows = [candidate(1, "a b c"), candidate(2, "x " * 50), candidate(3, "d")]
    result = fill(rows, token_budget=12)
    assert kept(result) == ["a b c", "d"]
    assert [(e.id, e.reason) for e in result.left_out] == [("d2:1:0", "budget")]
    assert result.fates["d2:1:0"] == "cut: over the token budget (needs 52, 7 left)"


def test_duplicates_go_by_text_and_by_span() -> None:
    rows = [
        candidate(1, "The tide", start=0, end=100),
        candidate(2, "the  TIDE"),
        candidate(1, "he tide is", start=10, end=101, chunk_index=1),
        candidate(1, "further on", start=90, end=190, chunk_index=2),
    ]
    result = fill(rows)
    assert kept(result) == ["The tide", "further on"]
    assert {e.reason for e in result.left_out} == {"duplicate"}


def test_diversity_by_document_takes_rounds() -> None:
    rows = [
        candidate(1, f"a{n}", chunk_index=n, start=n * 10, end=n * 10 + 2) for n in range(3)
    ] + [candidate(2, "b"), candidate(3, "c")]
    assert kept(fill(rows, diversify_by="document")) == ["a0", "b", "c", "a1", "a2"]
    assert kept(fill(rows, diversify_by="document", k=3)) == ["a0", "b", "c"]


def test_diversity_by_metadata_keeps_those_without_it() -> None:
    rows = [
        candidate(1, "a", metadata={"p": {"q": 1}}),
        candidate(2, "b", metadata={"p": {"q": 1.0}}),
        candidate(3, "c", metadata={"p": {"q": True}}),
        candidate(4, "d"),
        candidate(5, "e"),
    ]
    assert kept(fill(rows, diversify_by="p.q")) == ["a", "c", "d", "e", "b"]


def test_diversity_by_similarity_prefers_other_words() -> None:
    rows = [
        candidate(1, "tide at the pier"),
        candidate(2, "tide at the pier today"),
        candidate(3, "owl in the wood"),
    ]
    assert kept(fill(rows, diversify_by="similarity", k=2)) == [
        "tide at the pier",
        "owl in the wood",
    ]


@pytest.mark.parametrize("value", ["document", "similarity", "collection", "a.b", None])
def test_what_diversity_can_go_by(value: str | None) -> None:
    assert check_diversify(value) == value


@pytest.mark.parametrize("value", ["", "a b", 7, "created_at"])
def test_what_diversity_cannot_go_by(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="diversify_by"):
        check_diversify(value)


def counts_joints(text: str) -> int:
    """Count like a tokenizer that sees more in a whole than in its parts."""
    return len(text) // 3 + 5 * text.count("\n\n") + 1


@given(
    st.lists(st.text("ab ", min_size=1, max_size=40).filter(str.strip), max_size=15),
    st.integers(1, 120),
    st.integers(1, 12),
    st.sampled_from([count_words, counts_joints]),
    st.sampled_from([None, "document", "similarity", "kind"]),
)
def test_the_budget_holds_and_nothing_gets_lost(
    texts: list[str], budget: int, k: int, count: Any, by: str | None
) -> None:
    rows = [candidate(n, text, metadata={"kind": n % 3}) for n, text in enumerate(texts, 1)]
    result = fill(rows, token_budget=budget, k=k, count_tokens=count, diversify_by=by)
    assert len(result.kept) <= k
    if result.kept:
        assert count(result.context) <= budget
        assert result.tokens <= budget
    else:
        assert result.context == ""
    assert result.fates.keys() == {row.id for row in rows}
    assert len(result.kept) + len(result.left_out) == len(rows)
    if by is None:
        assert [c.id for c in result.kept] == [r.id for r in rows if r in result.kept]
