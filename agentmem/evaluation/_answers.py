"""What came back for each question, and what can be said about all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from agentmem import Stats
from agentmem.evaluation._measures import Ranked, by_query, measures_of
from agentmem.evaluation._questions import Question, Target

RANKINGS = ("vector", "lexical", "fused", "full")
"""What is measured: either pool, after fusion, and the whole pipeline."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A right answer.

    Attributes
    ----------
    document
        Id of the document that it is, None when the memory has none.
    text
        What the document says, or the quote.
    """

    target: Target
    document: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one question.

    Attributes
    ----------
    rankings
        Document ids, best first, by name of the ranking.
    wanted
        The right answers.
    stands_for
        Documents that hold the same quote, by the one that they count as.
    tokens
        Tokens of the context.
    milliseconds
        By stage, and ``"total"``.
    found
        Texts of the hits, best first.
    """

    question: Question
    rankings: Mapping[str, list[str]]
    wanted: tuple[Wanted, ...]
    stands_for: Mapping[str, str]
    tokens: int
    milliseconds: Mapping[str, float]
    found: tuple[str, ...]

    @property
    def relevant(self) -> dict[str, int]:
        """Grade of each document that answers; one that is nowhere counts as not found."""
        grades: dict[str, int] = {}
        for place, wanted in enumerate(self.wanted):
            name = f"missing {place}" if wanted.document is None else wanted.document
            grades[name] = max(wanted.target.grade, grades.get(name, 0))
        return grades

    @property
    def missing(self) -> tuple[Target, ...]:
        """Targets that no document of the memory is."""
        return tuple(wanted.target for wanted in self.wanted if wanted.document is None)

    def judged(self, ranking: str = "full") -> list[str]:
        """Return a ranking in which documents with the same quote are one."""
        names = (self.stands_for.get(name, name) for name in self.rankings[ranking])
        return list(dict.fromkeys(names))

    def place(self, ranking: str = "full") -> int | None:
        """Return where the first right document stands, from 1 on; None when it is not there."""
        right = self.relevant
        places = (n for n, name in enumerate(self.judged(ranking), start=1) if name in right)
        return next(places, None)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Every answer, and what can be said about all of them.

    Attributes
    ----------
    stats
        What the memory held.
    unanswerable
        Questions that nothing answers; they were not asked.
    """

    answers: tuple[Answer, ...]
    stats: Stats
    unanswerable: int = 0

    def ranked(self, ranking: str = "full") -> Ranked:
        """Return (question, documents, relevant) for the measures."""
        return [(a.question.id, a.judged(ranking), a.relevant) for a in self.answers]

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
            median, high = np.percentile(self.series(name), [50, 95])
            found[name] = float(median), float(high)
        return found

    def series(self, stage: str) -> list[float]:
        """Return the milliseconds of one stage, or ``"total"``, of each question."""
        return [a.milliseconds[stage] for a in self.answers if stage in a.milliseconds]

    def tokens(self) -> float:
        """Return the mean number of tokens of a context."""
        return float(np.mean([answer.tokens for answer in self.answers]))
