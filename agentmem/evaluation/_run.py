"""Asks every question, keeps what each stage ranked and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentmem import Explanation, Memory, Progress, SearchResult
from agentmem.errors import InvalidInputError
from agentmem.evaluation._answers import Answer, Evaluation
from agentmem.evaluation._questions import Question
from agentmem.evaluation._targets import find_unseen, judge

_WARM = 3


async def evaluate(
    memory: Memory,
    questions: Sequence[Question],
    *,
    k: int = 10,
    on_progress: Callable[[Progress], None] | None = None,
) -> Evaluation:
    """Ask every question of an open memory, one after the other.

    The rankings of the pools are taken from what fusion keeps; they are whole as far as half of
    `Settings.fused` (100) goes. The full ranking is of the candidates as they enter the last
    stage, which drops duplicates and fills the budget. Questions that are unanswerable are passed
    over.

    Parameters
    ----------
    memory
        An open memory. With `Settings.search_log` its searches are logged like any others.
    questions
        What to ask; see `load_questions`.
    k
        Hits of a search; pools smaller than that are made as large.
    on_progress
        Called after each question.

    Raises
    ------
    InvalidInputError
        There is no question with an answer.
    AgentMemError
        A search failed.
    """
    asked = [question for question in questions if question.relevant]
    if not asked:
        raise InvalidInputError("there is no question with a right answer; nothing to measure")
    for question in asked[:_WARM]:
        await _ask(memory, question, k)
    answers = []
    for number, question in enumerate(asked, start=1):
        answers.append(await _answer(memory, question, k))
        if on_progress is not None:
            on_progress(Progress(done=number, total=len(asked)))
    return Evaluation(
        answers=tuple(await find_unseen(memory, answers)),
        stats=await memory.stats(),
        unanswerable=len(questions) - len(asked),
    )


async def _ask(
    memory: Memory, question: Question, k: int, *, explain: bool = False
) -> SearchResult:
    return await memory.search(
        question.query,
        user_id=question.user_id,
        collections=question.collections,
        where=question.where,
        as_of=question.as_of,
        k=k,
        explain=explain,
    )


async def _answer(memory: Memory, question: Question, k: int) -> Answer:
    shown = await _ask(memory, question, k)
    # The same search once more: the time of explaining is not the search's own. Not with a larger
    # k, which would take larger pools than the settings say.
    candidates = (await _ask(memory, question, k, explain=True)).trace.explanations or ()
    wanted, stands_for = await judge(memory, question, candidates)
    times = {stage.name: stage.milliseconds for stage in shown.trace.stages}
    return Answer(
        question=question,
        rankings=rankings_of(candidates),
        wanted=wanted,
        stands_for=stands_for,
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
