"""Asks every question, keeps what each stage ranked and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agentmem import Explanation, Memory, Progress, SearchResult
from agentmem.evaluation._measures import Ranked, by_query, measures_of
from agentmem.evaluation._questions import Question, Target

RANKINGS = ("vector", "lexical", "fused", "full")
"""What is measured: either pool, after fusion, and the whole pipeline."""

_DEPTH = 100
_UNLIMITED = 10**9
_WARM = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one question.

    Attributes
    ----------
    rankings
        Document ids, best first, by name of the ranking.
    relevant
        Grade of each document that answers the question; a quote stands for the best document
        that holds it.
    missing
        Targets that no document of the memory is, or that no candidate holds.
    tokens
        Tokens of the context.
    milliseconds
        By stage, and ``"total"``.
    found
        Texts of the hits, best first.
    """

    question: Question
    rankings: dict[str, list[str]]
    relevant: dict[str, int]
    missing: tuple[Target, ...]
    tokens: int
    milliseconds: dict[str, float]
    found: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Every answer, and what can be said about all of them."""

    answers: tuple[Answer, ...]

    def ranked(self, ranking: str = "full") -> Ranked:
        """Return (question, documents, relevant) for the measures."""
        return [(a.question.id, a.rankings[ranking], a.relevant) for a in self.answers]

    def measures(self, ranking: str = "full") -> dict[str, float]:
        """Return the mean of each measure over the questions."""
        return measures_of(self.ranked(ranking))

    def by_question(self, measure: str, ranking: str = "full") -> dict[str, float]:
        """Return one measure of each question."""
        return by_query(self.ranked(ranking), measure)

    def times(self) -> dict[str, tuple[float, float]]:
        """Return median and 95th percentile in milliseconds, by stage and in all."""
        names = list(dict.fromkeys(name for a in self.answers for name in a.milliseconds))
        found = {}
        for name in names:
            values = [a.milliseconds[name] for a in self.answers if name in a.milliseconds]
            median, high = np.percentile(values, [50, 95])
            found[name] = float(median), float(high)
        return found

    def tokens(self) -> float:
        """Return the mean number of tokens of a context."""
        return float(np.mean([answer.tokens for answer in self.answers]))


async def evaluate(
    memory: Memory,
    questions: Sequence[Question],
    *,
    k: int = 10,
    on_progress: Callable[[Progress], None] | None = None,
) -> Evaluation:
    """Ask every question of an open memory, one after the other.

    The rankings of the pools are taken from what fusion keeps; they are whole as far as half of
    `Settings.fused` (100) goes.

    Parameters
    ----------
    memory
        An open memory.
    questions
        What to ask; see `load_questions`.
    k
        Hits of the searches whose time and tokens are measured.
    on_progress
        Called after each question.

    Raises
    ------
    AgentMemError
        A search failed.
    """
    for question in questions[:_WARM]:
        await _ask(memory, question, k)
    answers = []
    for number, question in enumerate(questions, start=1):
        answers.append(await _answer(memory, question, k))
        if on_progress is not None:
            on_progress(Progress(done=number, total=len(questions)))
    return Evaluation(tuple(answers))


async def _ask(memory: Memory, question: Question, k: int, *, deep: bool = False) -> SearchResult:
    return await memory.search(
        question.query,
        user_id=question.user_id,
        collections=question.collections,
        where=question.where,
        as_of=question.as_of,
        k=_DEPTH if deep else k,
        token_budget=_UNLIMITED if deep else None,
        explain=deep,
    )


async def _answer(memory: Memory, question: Question, k: int) -> Answer:
    shown = await _ask(memory, question, k)
    deep = await _ask(memory, question, k, deep=True)
    candidates = deep.trace.explanations or ()
    relevant, missing = await _relevant(memory, question, candidates)
    times = {stage.name: stage.milliseconds for stage in shown.trace.stages}
    return Answer(
        question=question,
        rankings=rankings_of(candidates),
        relevant=relevant,
        missing=tuple(missing),
        tokens=shown.tokens,
        milliseconds={**times, "total": shown.trace.milliseconds},
        found=tuple(hit.text for hit in shown.hits),
    )


def rankings_of(candidates: Sequence[Explanation]) -> dict[str, list[str]]:
    """Return document ids in the order of each pool, of the fusion and of the whole pipeline."""
    near = [c for c in candidates if c.scores.vector_rank is not None]
    found = [c for c in candidates if c.scores.lexical_rank is not None]
    return {
        "vector": _documents(sorted(near, key=lambda c: (c.scores.vector_rank or 0, c.id))),
        "lexical": _documents(sorted(found, key=lambda c: (c.scores.lexical_rank or 0, c.id))),
        "fused": _documents(sorted(candidates, key=lambda c: (-c.scores.fusion, c.id))),
        "full": _documents(candidates),
    }


def _documents(candidates: Sequence[Explanation]) -> list[str]:
    """Return each document once, where its best chunk stands."""
    return list(dict.fromkeys(candidate.document_id for candidate in candidates))


async def _relevant(
    memory: Memory, question: Question, candidates: Sequence[Explanation]
) -> tuple[dict[str, int], list[Target]]:
    """Return the grade of each document that answers, and the targets that are nowhere."""
    relevant: dict[str, int] = {}
    missing = []
    for place, target in enumerate(question.relevant):
        name = await _document(memory, question, target, candidates)
        if name is None:
            missing.append(target)
            # It counts as an answer that was not found, not as one that does not exist.
            name = f"missing {place}"
        relevant[name] = max(target.grade, relevant.get(name, 0))
    return relevant, missing


async def _document(
    memory: Memory, question: Question, target: Target, candidates: Sequence[Explanation]
) -> str | None:
    if target.quote is not None:
        quote = _plain(target.quote)
        return next((c.document_id for c in candidates if quote in _plain(c.text)), None)
    if target.key is not None:
        for owner in dict.fromkeys((question.user_id, None)):
            versions = await memory.history(target.key, user_id=owner, collection=target.collection)
            if versions:
                return versions[-1].id
        return None
    found = await memory.get(target.id or "", user_id=question.user_id)
    return None if found is None else found.id


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
