"""Measures how well a memory answers questions whose answers are known.

    questions = load_questions(Path("questions.jsonl"))
    async with Memory("./memory") as memory:
        evaluation = await evaluate(memory, questions)
    print(evaluation.measures()["ndcg@10"])

Needs the extra ``agentmem[eval]``. The command is ``agentmem eval``.
"""

from agentmem.evaluation._draft import Logged, read_log
from agentmem.evaluation._measures import (
    MEASURES,
    Difference,
    by_query,
    compare,
    measures_of,
)
from agentmem.evaluation._questions import Question, Target, load_questions
from agentmem.evaluation._run import RANKINGS, Answer, Evaluation, evaluate

__all__ = [
    "MEASURES",
    "RANKINGS",
    "Answer",
    "Difference",
    "Evaluation",
    "Logged",
    "Question",
    "Target",
    "by_query",
    "compare",
    "evaluate",
    "load_questions",
    "measures_of",
    "read_log",
]
