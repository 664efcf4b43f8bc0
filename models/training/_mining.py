"""Hard negatives: texts that the library's own search ranks high and that are no answer.

Each set becomes a memory, each question a search. A text may be an answer that nobody marked: it is
not taken when it scores nearly as high as the marked answer, or shares a run of words with it.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agentmem import Document, Memory, SearchResult
from agentmem.models.training._records import Record, normal

# Mined questions and searched texts of a set: more of them would buy little.
QUESTIONS = 800
PASSAGES = 1_500
LOOKED_AT = 24
KEPT = 6
# A text that scores above this share of the best marked answer may be an answer itself.
TOO_GOOD = 0.95
_RUN = 8


async def mine(records: Sequence[Record], seed: int, progress: Callable[[], None]) -> list[Record]:
    """Return records of one source with their hardest negatives first.

    Parameters
    ----------
    records
        All records of the source that are trained on.
    progress
        Called after each question.
    """
    chosen = list(records)
    random.Random(f"{seed}/mine").shuffle(chosen)
    chosen = chosen[:QUESTIONS]
    passages = _passages(chosen, records)
    mined = []
    with TemporaryDirectory() as folder:
        async with Memory(Path(folder) / "memory") as memory:
            await memory.write(Document(text, key=str(i)) for i, text in enumerate(passages))
            for record in chosen:
                found = await memory.search(record.query, k=LOOKED_AT, token_budget=100_000)
                mined.append(_with_negatives(record, found, passages))
                progress()
    return mined


def save(records: Sequence[Record], path: Path) -> None:
    """Write records as gzipped JSON lines."""
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for record in records:
            row = {
                "query": record.query,
                "positives": record.positives,
                "negatives": record.negatives,
                "source": record.source,
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _passages(chosen: Sequence[Record], records: Sequence[Record]) -> list[str]:
    known = dict.fromkeys(text for record in chosen for text in record.positives)
    for record in records:
        for text in (*record.negatives, *record.positives):
            if len(known) >= max(PASSAGES, len(chosen)):
                return list(known)
            known.setdefault(text)
    return list(known)


def _with_negatives(record: Record, found: SearchResult, passages: Sequence[str]) -> Record:
    best: dict[str, float] = {}
    for hit in found.hits:
        text = passages[int(hit.key or 0)]
        best[text] = max(best.get(text, 0.0), hit.score)
    marked = max((best.get(text, 0.0) for text in record.positives), default=0.0)
    limit = TOO_GOOD * (marked or min(best.values(), default=0.0))
    answers = set().union(*map(_runs, record.positives))
    hard = [
        text
        for text, score in sorted(best.items(), key=lambda pair: -pair[1])
        if text not in record.positives and score < limit and answers.isdisjoint(_runs(text))
    ][:KEPT]
    easy = [text for text in record.negatives if text not in hard][: KEPT - len(hard)]
    return replace(record, negatives=(*hard, *easy))


def _runs(text: str) -> set[str]:
    words = normal(text).split()
    return {" ".join(words[i : i + _RUN]) for i in range(max(1, len(words) - _RUN + 1))}
