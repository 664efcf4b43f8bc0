"""Runs the project's own sets as cases: each question at its time, by its user, as it is scoped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentmem.evaluation._run import rankings_of
from agentmem.models.onnx_embedder import OnnxEmbedder
from benchmarks._datasets import DataError
from benchmarks._household import Answered, SetClock, ask, fill, load_questions
from benchmarks._suite import Case
from benchmarks.systems import find_system
from benchmarks.systems.embedded import Embedded


async def run_own(case: Case, folder: Path) -> dict[str, Any]:
    """Measure a case of an own set and return facts, times and rankings.

    Beside the rankings of the pools there is one for each kind of question, so that a suite can
    expect ``recall@5/as_of``. Facts are ``wrong``, the number of questions that were shown what
    must not appear, and ``exact/KIND``, the share of a kind that has a right memory among the
    first five and nothing wrong.

    Raises
    ------
    DataError
        The system does not know times.
    """
    system = find_system(case.system)(folder, OnnxEmbedder(), case.settings)
    if not isinstance(system, Embedded):
        raise DataError(f"{case.data!r} asks about times, which {case.system!r} does not know")
    system.clock = clock = SetClock()
    await system.open()
    try:
        references = await fill(system.memory, clock, name=case.data)
        asked = load_questions(case.data)
        answered = await ask(system.memory, clock, asked, references, explain=True)
    finally:
        await system.close()
        await system.embedder.close()
    return {
        "facts": _facts(answered),
        "times": [(a.question.id, {"total": a.result.trace.milliseconds}) for a in answered],
        "rankings": [row for a in answered for row in _rankings(a, references)],
    }


def _facts(answered: Sequence[Answered]) -> dict[str, float]:
    exact: dict[str, list[bool]] = defaultdict(list)
    for entry in answered:
        exact[entry.question.kind].append(entry.hit and not entry.wrong)
    facts = {f"exact/{kind}": sum(right) / len(right) for kind, right in exact.items()}
    return {"wrong": float(sum(bool(entry.wrong) for entry in answered)), **facts}


def _rankings(entry: Answered, references: dict[tuple[str, int], str]) -> list[dict[str, Any]]:
    candidates = entry.result.trace.explanations or ()
    # Of a document one version is visible to a question.
    names = {
        document: references[document, int(version)]
        for document, version, _ in (candidate.id.rsplit(":", 2) for candidate in candidates)
    }
    rankings = {
        name: [names[document] for document in documents]
        for name, documents in rankings_of(candidates).items()
    }
    question = entry.question
    return [
        {
            "query": question.id,
            "category": question.kind,
            "ranking": name,
            "documents": documents,
            "relevant": sorted(question.relevant),
        }
        for name, documents in {**rankings, question.kind: rankings["full"]}.items()
    ]
