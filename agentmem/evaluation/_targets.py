"""Finds the documents that the right answers of a question are."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from agentmem import Explanation, Memory, StoredDocument
from agentmem.evaluation._answers import Answer, Wanted
from agentmem.evaluation._questions import Question, Target

_PAGE = 500
_Pending = list[tuple[int, int, str]]
"""(place of the answer, place of the target in it, quote)."""


async def judge(
    memory: Memory, question: Question, candidates: Sequence[Explanation]
) -> tuple[tuple[Wanted, ...], dict[str, str]]:
    """Return the right answers, and what other documents with the same quote count as.

    A quote is answered by any document that holds it: each ranking is judged by the one that
    stands first in it, so that no stage is favoured.
    """
    wanted = {
        target: await _named(memory, question, target)
        for target in question.relevant
        if target.quote is None
    }
    stands_for = {w.document: w.document for w in wanted.values() if w.document is not None}
    for target in question.relevant:
        if target.quote is not None:
            wanted[target] = _quoted(target, target.quote, candidates, stands_for)
    return tuple(wanted[target] for target in question.relevant), stands_for


async def _named(memory: Memory, question: Question, target: Target) -> Wanted:
    found = await _by_key(memory, question, target) if target.key is not None else None
    if target.id is not None:
        found = await memory.get(target.id, user_id=question.user_id)
    if found is None:
        return Wanted(target, None, str(target))
    return Wanted(target, found.id, found.content)


async def _by_key(memory: Memory, question: Question, target: Target) -> StoredDocument | None:
    for owner in dict.fromkeys((question.user_id, None)):
        versions = await memory.history(
            target.key or "", user_id=owner, collection=target.collection
        )
        if versions:
            return versions[-1]
    return None


def _quoted(
    target: Target, quote: str, candidates: Sequence[Explanation], stands_for: dict[str, str]
) -> Wanted:
    words = plain(quote)
    holders = [c.document_id for c in candidates if words in plain(c.text)]
    if not holders:
        return Wanted(target, None, quote)
    # A document that is a right answer already is this one too.
    chosen = next((stands_for[name] for name in holders if name in stands_for), holders[0])
    for name in holders:
        stands_for.setdefault(name, chosen)
    return Wanted(target, chosen, quote)


async def find_unseen(memory: Memory, answers: Sequence[Answer]) -> list[Answer]:
    """Look in the whole memory for the quotes that no candidate holds.

    A quote that is found there was missed by the search; one that is not is missing from the
    memory. The memory is read once for all questions of one scope.
    """
    scopes: dict[str, _Pending] = defaultdict(list)
    for number, answer in enumerate(answers):
        for place, wanted in enumerate(answer.wanted):
            if wanted.document is None and wanted.target.quote is not None:
                pending = (number, place, plain(wanted.target.quote))
                scopes[json.dumps(answer.question.scope(), sort_keys=True)].append(pending)
    changed = list(answers)
    for open_quotes in scopes.values():
        question = answers[open_quotes[0][0]].question
        for (number, place), document in (await _holders(memory, question, open_quotes)).items():
            targets = list(changed[number].wanted)
            targets[place] = replace(targets[place], document=document)
            changed[number] = replace(changed[number], wanted=tuple(targets))
    return changed


async def _holders(
    memory: Memory, question: Question, quotes: _Pending
) -> dict[tuple[int, int], str]:
    """Return the first document of the scope that holds each quote."""
    found: dict[tuple[int, int], str] = {}
    cursor = None
    while len(found) < len(quotes):
        page = await memory.list(
            user_id=question.user_id,
            collections=question.collections,
            where=question.where,
            as_of=question.as_of,
            limit=_PAGE,
            cursor=cursor,
        )
        here = await asyncio.to_thread(_matches, page.documents, quotes)
        found = {**here, **found}
        cursor = page.cursor
        if cursor is None:
            break
    return found


def _matches(documents: Sequence[StoredDocument], quotes: _Pending) -> dict[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    for document in documents:
        text = plain(document.content)
        for number, place, quote in quotes:
            if quote in text:
                found.setdefault((number, place), document.id)
    return found


def plain(text: str) -> str:
    """Return a text without its case and its line breaks, for comparison with a quote."""
    return " ".join(text.casefold().split())
