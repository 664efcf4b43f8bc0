"""Which time a question prefers, and what that does to an order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem import Plan
from agentmem._types import TimePreference
from agentmem.backends.base import Candidate, ChunkRow
from agentmem.pipeline._timing import by_time
from agentmem.pipeline.understand._preference import find_preference


@pytest.mark.parametrize(
    ("question", "preference"),
    [
        ("Who minds the children now?", "latest"),
        ("Do I still take the tram?", "latest"),
        ("What is the latest release?", "latest"),
        ("Where do we talk these days, still where we first met?", "latest"),
        ("Who used to sort the reports?", "earlier"),
        ("What did the pool cost before the prices went up?", "earlier"),
        ("Which was our first film night?", "earlier"),
        ("What did we originally plan?", "earlier"),
        ("Who is our babysitter?", "current"),
        ("How does Ida get to school?", "current"),
        ("What is the nail used to hold?", "current"),
        ("Is she used to the noise?", "current"),
        ("Until when is my passport valid?", None),
        ("What is still missing, and by when?", None),
        ("When is the call?", None),
        ("Who was our landlady?", None),
        ("What did we eat?", None),
        ("I am tired now.", None),
        ("our babysitter", None),
        ("Now I am here. Who called?", None),
        ("", None),
    ],
)
def test_preference(question: str, preference: str | None) -> None:
    assert find_preference(question) == preference


def candidates(*scored: tuple[float, int, str]) -> list[Candidate]:
    """Return candidates with a score, a time in seconds and a text."""
    return [
        Candidate(id=f"d{place}:1:0", score=score, row=row(f"d{place}", time * 1_000_000, text))
        for place, (score, time, text) in enumerate(scored)
    ]


def row(name: str, time: int, text: str) -> ChunkRow:
    return ChunkRow(
        document_id=name, version=1, chunk_index=0, start=0, end=len(text), text=text, tokens=1,
        key=None, title=None, source_uri=None, user_id=None, collection="c", metadata={},
        created_at=time, valid_from=None, valid_until=None,
    )  # fmt: skip


def plan(preference: TimePreference | None) -> Plan:
    return Plan(query="q", text="q", time_preference=preference)


def test_only_what_a_later_one_repeats_gives_way() -> None:
    ranked = candidates(
        (0.9, 1, "our babysitter is Lena"), (0.85, 2, "our babysitter is Fiete"), (0.1, 3, "rain")
    )
    found = by_time(ranked, plan("current"))
    assert [c.id for c in found] == ["d1:1:0", "d0:1:0", "d2:1:0"]
    assert [c.timing < 0 for c in found] == [False, True, False]


def test_the_documents_of_one_call_are_of_one_time() -> None:
    ranked = candidates((0.9, 1, "our babysitter is Lena"), (0.85, 1, "our babysitter is Fiete"))
    for candidate, micros in zip(ranked, (0, 999), strict=True):
        assert candidate.row is not None
        candidate.row.created_at += micros
    for preference in ("current", "latest", "earlier"):
        assert [c.timing for c in by_time(ranked, plan(preference))] == [0.0, 0.0]


def test_a_clearly_better_one_stays_first() -> None:
    scored = [(0.9, 1, "a"), *((0.1, time, "b") for time in range(2, 12))]
    for preference in ("latest", "earlier", "current"):
        assert by_time(candidates(*scored), plan(preference))[0].id == "d0:1:0"


@given(
    st.lists(
        st.tuples(st.floats(-5, 5), st.integers(-9, 9), st.sampled_from(["tea", "tea rum", "x"])),
        max_size=15,
    ),
    st.sampled_from([None, "latest", "earlier", "current"]),
)
def test_nothing_is_lost_and_scores_fall(
    scored: list[tuple[float, int, str]], preference: TimePreference | None
) -> None:
    ranked = sorted(candidates(*scored), key=lambda c: (-c.score, c.id))
    found = by_time(ranked, plan(preference))
    assert sorted(c.id for c in found) == sorted(c.id for c in ranked)
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
    if preference is None or len({time for _, time, _ in scored}) == 1:
        assert {c.timing for c in found} <= {0.0}
        assert found == ranked
