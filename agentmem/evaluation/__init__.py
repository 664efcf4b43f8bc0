"""Measures how well a memory answers questions whose answers are known.

    questions = load_questions(Path("questions.jsonl"))
    async with Memory("./memory") as memory:
        evaluation = await evaluate(memory, questions)
    print(evaluation.measures()["ndcg@10"])

Needs the extra ``agentmem[eval]``. The command is ``agentmem eval``.
"""

try:
    from agentmem.evaluation._measures import (
        MEASURES,
        Difference,
        by_query,
        compare,
        measures_of,
    )
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("ir_measures", "scipy"):
        raise
    raise ModuleNotFoundError(
        "the packages for measuring are not installed; run: pip install 'agentmem[eval]'",
        name=error.name,
    ) from error
from agentmem.evaluation._answers import RANKINGS, Answer, Evaluation, Wanted
from agentmem.evaluation._draft import Logged, read_log
from agentmem.evaluation._questions import Question, Target, load_questions
from agentmem.evaluation._run import evaluate

__all__ = [
    "MEASURES",
    "RANKINGS",
    "Answer",
    "Difference",
    "Evaluation",
    "Logged",
    "Question",
    "Target",
    "Wanted",
    "by_query",
    "compare",
    "evaluate",
    "load_questions",
    "measures_of",
    "read_log",
]
