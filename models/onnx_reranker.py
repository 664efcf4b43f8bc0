"""Reranks with an ONNX cross-encoder: a model that reads query and chunk as one text."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agentmem.errors import ModelError
from agentmem.models._files import find_files
from agentmem.models._session import OnnxModel
from agentmem.models.base import Encoding, RerankCandidate

if TYPE_CHECKING:
    from tokenizers import Encoding as Tokenized

_LOGITS = ("logits", "scores", "score")


class CrossEncoderReranker:
    """A `Reranker` over any ONNX cross-encoder with a tokenizer.json.

    One logit is taken as it is; of two (irrelevant, relevant) the difference counts, which orders
    like the softmax probability of the second. The query may take up to half of the input, the
    chunk what is left.

    Parameters
    ----------
    spec
        Folder or hub id.
    threads
        Threads of one run; 0 chooses by the machine.
    max_tokens
        Longest input with special tokens; None takes the model's own limit.

    Raises
    ------
    ModelError
        The files are missing.
    """

    needs = frozenset({"text"})

    def __init__(
        self, spec: str | Path, *, threads: int = 0, max_tokens: int | None = None
    ) -> None:
        files = find_files(spec)
        self._model = OnnxModel(files, threads=threads)
        self._limit = max_tokens or files.max_tokens()
        self._id = f"{files.name}@{files.digest()}"

    @property
    def id(self) -> str:
        """Name and digest of the model."""
        return self._id

    async def rerank(
        self, query: str, encoding: Encoding | None, candidates: Sequence[RerankCandidate]
    ) -> list[float]:
        """Return one logit per candidate, in order."""
        texts = [candidate.text for candidate in candidates]
        pairs = await self._model.call(self._tokenize, query, texts)
        return await self._model.map(self._score, pairs, [len(ids) for ids, _ in pairs])

    async def rerank_within(
        self, query: str, candidates: Sequence[RerankCandidate], seconds: float
    ) -> list[float]:
        """Return one logit for each of the first candidates, as many as fit into the time.

        A candidate that was begun is finished. Loading the model does not count.

        Parameters
        ----------
        seconds
            After these no further candidate is begun; nor is one after a cancellation.
        """
        await self._model.load()
        end = time.monotonic() + seconds
        waiting = deque(enumerate(candidates))
        scores: dict[int, float] = {}

        def work() -> None:
            while waiting and time.monotonic() < end:
                try:
                    place, candidate = waiting.popleft()
                except IndexError:  # another thread took the last one
                    return
                (pair,) = self._tokenize(query, [candidate.text])
                scores[place] = self._score(pair)

        try:
            await self._model.everywhere(work)
        finally:
            waiting.clear()
        return [scores[place] for place in range(len(scores))]

    async def close(self) -> None:
        """Let go of the model."""
        await self._model.close()

    def _tokenize(self, query: str, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        tokenizer = self._model.tokenizer
        special = tokenizer.num_special_tokens_to_add(is_pair=True)
        room = self._limit - special
        if room < 2:
            raise ModelError(
                f"the model {self._model.files.name!r} takes {self._limit} tokens, too few for a "
                "query and a chunk"
            )
        first = tokenizer.encode(query, add_special_tokens=False)
        first.truncate(max(1, room // 2))
        left = room - len(first.ids)
        return [self._pair(first, text, left) for text in texts]

    def _pair(self, first: Tokenized, text: str, room: int) -> tuple[list[int], list[int]]:
        tokenizer = self._model.tokenizer
        second = tokenizer.encode(text, add_special_tokens=False)
        second.truncate(room)
        both = tokenizer.post_process(first, second, add_special_tokens=True)
        return both.ids, both.type_ids

    def _score(self, pair: tuple[list[int], list[int]]) -> float:
        outputs = self._model.run(*pair)
        name = logits_output([*outputs], self._model.files.name)
        logits = np.asarray(outputs[name], dtype=np.float64).ravel()
        if len(logits) == 1:
            return float(logits[0])
        if len(logits) == 2:
            return float(logits[1] - logits[0])
        raise ModelError(
            f"the model {self._model.files.name!r} gives {len(logits)} logits for a pair; "
            "a reranker gives one or two"
        )


def logits_output(names: Sequence[str], model: str) -> str:
    """Return the output that holds the logits of a pair."""
    for name in _LOGITS:
        if name in names:
            return name
    if len(names) == 1:
        return names[0]
    raise ModelError(
        f"the graph of {model!r} has the outputs {', '.join(names)}, "
        f"and none is called {' or '.join(_LOGITS)}"
    )
