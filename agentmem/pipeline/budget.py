"""Stage 6: the working set, as a pure function of the ranked candidates.

Duplicates go, differing hits come first when asked for, and whole hits are taken in order while
they fit the token budget. A hit that does not fit is left out, and a later, shorter one may still
be taken. Citations and headings count as well.

Counting a text takes longer than all else here. Chunks were counted when they were written; their
numbers are used again unless the caller brings a counter of its own. Adding up is right for
tokenizers that never join characters across white space; near the limit the whole context is
counted to be sure.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Literal, TypeAlias

from agentmem._clock import from_micros
from agentmem._types import Citation, Explanation, Hit, LeftOut, Scores
from agentmem.backends.base import Candidate, ChunkRow
from agentmem.pipeline._context import SEPARATOR, render, render_block, render_heading
from agentmem.pipeline._diversity import diversified
from agentmem.pipeline._stage import Runs, SearchState, need

Reason: TypeAlias = Literal["duplicate", "diversity", "budget", "limit"]
CountTokens: TypeAlias = Callable[[str], int]

# A chunk is a duplicate of a better one of the same version when this much of it lies inside.
_OVERLAP = 0.8
# Tokens a hit by which a sum of counts may be off before the whole is counted.
_SLACK = 4
# So few are counted in the event loop: headings, and near the limit one text of this length.
_FEW_HITS = 32
_FEW_TOKENS = 2_048
_KEPT_COUNTS = 4_096
_KEPT_LENGTH = 200


@dataclass(slots=True)
class WorkingSet:
    """What stage 6 chose.

    Attributes
    ----------
    kept
        Candidates in the context, in citation order.
    sizes
        Tokens of each kept block.
    context, tokens
        The rendered text and its size.
    left_out
        What was passed over before the last place was filled, with tokens and reason.
    fates
        A sentence for each candidate.
    """

    kept: list[Candidate] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    context: str = ""
    tokens: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    fates: dict[str, str] = field(default_factory=dict)


def fill_budget(
    ranked: Sequence[Candidate],
    *,
    k: int,
    token_budget: int | None,
    diversify_by: str | None,
    count_tokens: CountTokens,
    own_counter: bool = False,
) -> WorkingSet:
    """Choose the working set.

    Parameters
    ----------
    ranked
        Candidates with rows, best first.
    k
        Most hits.
    token_budget
        Most tokens of the context, or None.
    diversify_by
        See `agentmem.pipeline._diversity.diversified`.
    count_tokens
        Counts the tokens of a text.
    own_counter
        True when `count_tokens` counts as the chunks were counted when written.
    """
    result = WorkingSet()
    separator = count_tokens(SEPARATOR) if ranked else 0
    ordered: Iterable[Candidate] = _without_duplicates(ranked, result)
    if diversify_by is not None:
        ordered = diversified(list(ordered), diversify_by, k)
    for candidate in ordered:
        if len(result.kept) == k:
            break
        size = _size(candidate, len(result.kept) + 1, count_tokens, own_counter)
        _take(result, candidate, token_budget, size, separator if result.kept else 0)
    fate = f"cut: k is {k}"
    for candidate in ranked:
        if candidate.id not in result.fates:
            _leave(result, candidate, "limit", 0, fate)
    result.context = render([need(c.row, "row") for c in result.kept])
    _shrink(result, token_budget, count_tokens)
    return result


def _without_duplicates(ranked: Sequence[Candidate], result: WorkingSet) -> Iterator[Candidate]:
    texts: dict[str, str] = {}
    spans: dict[tuple[str, int], list[tuple[ChunkRow, str]]] = {}
    for candidate in ranked:
        row = need(candidate.row, "row")
        text = _normal(row.text)
        same = texts.get(text) or _covering(row, spans.get((row.document_id, row.version), []))
        if same is not None:
            _leave(result, candidate, "duplicate", 0, f"cut: says the same as {same}")
            continue
        texts[text] = candidate.id
        spans.setdefault((row.document_id, row.version), []).append((row, candidate.id))
        yield candidate


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _covering(row: ChunkRow, better: Sequence[tuple[ChunkRow, str]]) -> str | None:
    """Return the id of a better chunk that holds most of this one."""
    length = row.end - row.start
    for other, name in better:
        shared = min(row.end, other.end) - max(row.start, other.start)
        if shared >= _OVERLAP * length:
            return name
    return None


def _size(candidate: Candidate, number: int, count_tokens: CountTokens, own_counter: bool) -> int:
    """Return the tokens of a candidate's block."""
    row = need(candidate.row, "row")
    if own_counter:
        return count_tokens(render_heading(number, row)) + row.tokens
    return count_tokens(render_block(number, row))


def _take(
    result: WorkingSet, candidate: Candidate, budget: int | None, size: int, separator: int
) -> None:
    total = result.tokens + separator + size
    if budget is not None and total > budget:
        left = max(0, budget - result.tokens - separator)
        fate = f"cut: over the token budget (needs {size}, {left} left)"
        _leave(result, candidate, "budget", size, fate)
        return
    result.kept.append(candidate)
    result.sizes.append(size)
    result.tokens = total
    result.fates[candidate.id] = f"kept as [{len(result.kept)}]"


def _shrink(result: WorkingSet, budget: int | None, count_tokens: CountTokens) -> None:
    """Count the whole context when it is near the limit, and drop the last hits while over it."""
    while budget is not None and result.kept and result.tokens > budget - _SLACK * len(result.kept):
        result.tokens = count_tokens(result.context)
        if result.tokens <= budget:
            return
        candidate, size = result.kept.pop(), result.sizes.pop()
        _leave(result, candidate, "budget", size, "cut: over the token budget as a whole")
        result.context = render([need(c.row, "row") for c in result.kept])
        result.tokens -= size


def _leave(
    result: WorkingSet, candidate: Candidate, reason: Reason, tokens: int, fate: str
) -> None:
    document = need(candidate.row, "row").document_id
    result.left_out.append(
        LeftOut(id=candidate.id, document_id=document, tokens=tokens, reason=reason)
    )
    result.fates[candidate.id] = fate


class Budget:
    """Runs `fill_budget` and turns what it kept into hits.

    Parameters
    ----------
    count_tokens
        Counts the tokens of a text.
    default_budget
        Budget when neither the call nor the plan gives one; None for no limit.
    own_counter
        See `fill_budget`.
    """

    name = "budget"
    runs: Runs = "client"
    needs = frozenset({"request", "plan", "ranked"})
    adds = frozenset({"hits", "citations", "context"})

    def __init__(
        self,
        count_tokens: CountTokens,
        *,
        default_budget: int | None,
        own_counter: bool = False,
    ) -> None:
        self._count_tokens = _remembering(count_tokens) if own_counter else count_tokens
        self._own_counter = own_counter
        self._default_budget = default_budget

    async def run(self, state: SearchState) -> None:
        """Set `state.hits`, `state.citations`, `state.context` and what was left out.

        What the call asked for goes before the plan, and the plan before the default.
        """
        request, plan = state.request, need(state.plan, "plan")
        ranked = need(state.ranked, "ranked")
        budget = _first(request.token_budget, plan.token_budget, self._default_budget)
        diversify_by = _first(request.diversify_by, plan.diversify_by)
        fill = partial(
            fill_budget,
            ranked,
            k=request.k,
            token_budget=budget,
            diversify_by=diversify_by,
            count_tokens=self._count_tokens,
            own_counter=self._own_counter,
        )
        small = request.k <= _FEW_HITS and (budget is None or budget <= _FEW_TOKENS)
        if self._own_counter and small and diversify_by is None:
            chosen = fill()
        else:  # in a thread: a tokenizer works for milliseconds on a long text
            chosen = await asyncio.to_thread(fill)
        pairs = list(zip(chosen.kept, chosen.sizes, strict=True))
        state.hits = [_hit(n, candidate, size) for n, (candidate, size) in enumerate(pairs, 1)]
        state.citations = [hit.citation for hit in state.hits]
        state.context = chosen.context
        state.tokens = chosen.tokens
        state.left_out = chosen.left_out
        state.details.update(tokens=chosen.tokens, budget=budget, **_tally(chosen.left_out))
        if request.explain:
            state.explanations = [_explain(c, chosen.fates[c.id]) for c in ranked]

    def describe(self) -> Mapping[str, Any]:
        """Return the default budget."""
        return {"default_budget": self._default_budget}


def _remembering(count_tokens: CountTokens) -> CountTokens:
    """Return a counter that remembers short texts: headings come again from search to search."""
    remembered = lru_cache(_KEPT_COUNTS)(count_tokens)
    return lambda text: (remembered if len(text) <= _KEPT_LENGTH else count_tokens)(text)


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _tally(left_out: Sequence[LeftOut]) -> dict[str, int]:
    reasons = [entry.reason for entry in left_out]
    return {f"cut_by_{reason}": reasons.count(reason) for reason in sorted(set(reasons))}


def _scores(candidate: Candidate) -> Scores:
    return Scores(
        similarity=candidate.similarity,
        vector_rank=candidate.vector_rank,
        lexical_rank=candidate.lexical_rank,
        lexical_score=candidate.lexical_score,
        fusion=candidate.fusion,
        rerank=candidate.rerank,
        timing=candidate.timing,
        late_rank=candidate.late_rank,
    )


def _explain(candidate: Candidate, fate: str) -> Explanation:
    row = need(candidate.row, "row")
    return Explanation(
        id=candidate.id,
        document_id=row.document_id,
        text=row.text,
        scores=_scores(candidate),
        kept=fate.startswith("kept"),
        reason=fate,
    )


def _hit(number: int, candidate: Candidate, tokens: int) -> Hit:
    row = need(candidate.row, "row")
    span = (row.start, row.end)
    return Hit(
        id=candidate.id,
        document_id=row.document_id,
        key=row.key,
        version=row.version,
        chunk_index=row.chunk_index,
        span=span,
        text=row.text,
        title=row.title,
        source_uri=row.source_uri,
        user_id=row.user_id,
        collection=row.collection,
        metadata=row.metadata,
        created_at=from_micros(row.created_at),
        valid_from=None if row.valid_from is None else from_micros(row.valid_from),
        valid_until=None if row.valid_until is None else from_micros(row.valid_until),
        score=candidate.score,
        scores=_scores(candidate),
        tokens=tokens,
        citation=Citation(
            number=number,
            document_id=row.document_id,
            version=row.version,
            chunk_index=row.chunk_index,
            span=span,
            title=row.title,
            source_uri=row.source_uri,
        ),
    )
