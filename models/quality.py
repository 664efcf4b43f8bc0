"""Late interaction for all candidates, a cross-encoder for the first of them.

The two see different things: late interaction compares words in their context, the cross-encoder
reads query and chunk as one text. What the second adds to the score of the first is

    GAIN * (logit - least) / (greatest - least)

over the candidates that it had time for. It is never negative, so that a candidate that was read
stays in front of those that were not.

A chunk is read with the end of the one that stands before it in front: an answer is found by what
was asked. Figures are in docs/decisions/second-look.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from agentmem.models.base import Encoding, RerankCandidate
from agentmem.models.late_interaction import LateInteractionReranker
from agentmem.models.onnx_reranker import CrossEncoderReranker

GAIN = 0.05
# Candidates further behind are hardly ever the answer.
READ = 40
# About as many tokens as a turn of a conversation has, twice.
_CHARACTERS_BEFORE = 300
_TINY = 1e-9


class QualityReranker:
    """A `RefiningReranker` over late interaction and an ONNX cross-encoder.

    Parameters
    ----------
    spec
        Folder or hub id of the cross-encoder.
    threads
        Threads of the cross-encoder; 0 chooses by the machine.
    """

    needs = frozenset({"late", "text"})

    def __init__(self, spec: str | Path, *, threads: int = 0) -> None:
        self._late = LateInteractionReranker()
        self._cross = CrossEncoderReranker(spec, threads=threads)

    @property
    def id(self) -> str:
        """Names of both."""
        return f"{self._late.id}+{self._cross.id}"

    async def rerank(
        self, query: str, encoding: Encoding | None, candidates: Sequence[RerankCandidate]
    ) -> list[float]:
        """Return the late-interaction score of each candidate."""
        return await self._late.rerank(query, encoding, candidates)

    async def refine(
        self, query: str, candidates: Sequence[RerankCandidate], seconds: float
    ) -> list[float]:
        """Return what the cross-encoder adds for the first candidates, 0 to `GAIN`."""
        read = [_with_before(candidate) for candidate in candidates[:READ]]
        logits = await self._cross.rerank_within(query, read, seconds)
        if not logits:
            return []
        values = np.array(logits)
        spread = max(float(np.ptp(values)), _TINY)
        gains: list[float] = (GAIN * (values - values.min()) / spread).tolist()
        return gains

    async def close(self) -> None:
        """Let go of both models."""
        await self._late.close()
        await self._cross.close()


def _with_before(candidate: RerankCandidate) -> RerankCandidate:
    """Put the end of the chunk before in front of the text."""
    if not candidate.text_before:
        return candidate
    end = candidate.text_before[-_CHARACTERS_BEFORE:]
    return replace(candidate, text=f"{end}\n{candidate.text}")
