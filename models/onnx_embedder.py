"""Embeds texts with an ONNX graph: the bundled one or any sentence embedder in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import ModelError
from agentmem.models._files import BUNDLED, ModelFiles, find_files
from agentmem.models._session import OnnxModel, cut, runs
from agentmem.models.base import Encoding, Floats, TokenVectors

_SENTENCE = "sentence_embedding"
_TOKENS = "token_vectors"
_STATES = ("last_hidden_state", "token_embeddings")
_TINY = 1e-9


class OnnxEmbedder:
    """An `Embedder` over ONNX Runtime.

    The graph gives either the outputs `sentence_embedding` and, for late interaction,
    `token_vectors`; or hidden states, which are pooled here as the model's configuration says.

    Parameters
    ----------
    spec
        Folder or hub id; None takes the bundled model.
    threads
        Threads of one run; 0 chooses by the machine.
    query_prefix, passage_prefix
        Put before each query or passage, as asymmetric embedders want it; None takes the ones in
        model.json or config_sentence_transformers.json.
    max_tokens
        Longest input with special tokens; None takes the model's own limit.

    Raises
    ------
    ModelError
        The files are missing or do not describe an embedder.
    """

    def __init__(
        self,
        spec: str | Path | None = None,
        *,
        threads: int = 0,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        max_tokens: int | None = None,
    ) -> None:
        files = find_files(BUNDLED if spec is None else spec)
        self._model = OnnxModel(files, threads=threads)
        self._dimensions = _declared_dimensions(files)
        declared = files.setting("token_dimensions", "model.json")
        self._token_dimensions = int(declared) if declared else None
        self._limit = max_tokens or files.max_tokens()
        self._query_prefix = _prefix(files, "query", query_prefix)
        self._passage_prefix = _prefix(files, "passage", passage_prefix)
        self._id = f"{files.name}@{files.digest()}"

    @property
    def id(self) -> str:
        """Name and digest of the model, with the prefixes when it has any."""
        if self._passage_prefix:
            return f"{self._id}+{self._passage_prefix!r}"
        return self._id

    @property
    def dimensions(self) -> int:
        """Length of a sentence vector."""
        return self._dimensions

    @property
    def token_dimensions(self) -> int | None:
        """Length of a token vector, None when the model has none."""
        return self._token_dimensions

    @property
    def max_tokens(self) -> int:
        """Longest input in tokens, with the special ones."""
        return self._limit

    async def embed_passages(self, texts: Sequence[str]) -> Encoding:
        """Return the encoding of `texts`; a text beyond `max_tokens` is cut off.

        The work is done run by run, so that a query does not wait for a whole batch.
        """
        if not texts:
            return self._joined([], [], 0)
        prefixed = [self._passage_prefix + text for text in texts]
        ids = await self._model.call(self._tokenize, prefixed)
        groups = list(runs([len(row) for row in ids]))
        parts = [
            await self._model.call(self._encode, [ids[place] for place in group])
            for group in groups
        ]
        return self._joined(groups, parts, len(texts))

    async def embed_query(self, text: str) -> Encoding:
        """Return the encoding of one query."""
        return await self._model.call(self._embed_query, text)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens, without special tokens and without a limit."""
        return len(self._model.tokenizer.encode(text, add_special_tokens=False).ids)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the character span of each token, in order."""
        offsets: list[tuple[int, int]] = self._model.tokenizer.encode(
            text, add_special_tokens=False
        ).offsets
        return offsets

    async def close(self) -> None:
        """Let go of the model."""
        await self._model.close()

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        tokenizer = self._model.tokenizer
        return [cut(tokenizer.encode(text), self._limit) for text in texts]

    def _embed_query(self, text: str) -> Encoding:
        ids = self._tokenize([self._query_prefix + text])
        vectors, tokens = self._encode(ids)
        return Encoding(vectors, None if tokens is None else tuple(tokens))

    def _encode(self, ids: Sequence[list[int]]) -> tuple[Floats, list[TokenVectors] | None]:
        outputs = dict(
            zip(
                self._model.outputs(),
                self._model.run(ids, [[0] * len(row) for row in ids]),
                strict=True,
            )
        )
        vectors = self._sentence_vectors(outputs, ids)
        if self._token_dimensions is None:
            return vectors, None
        if _TOKENS not in outputs:
            raise ModelError(
                f"model.json of {self._model.files.name!r} promises token vectors, but the graph "
                f"has no output {_TOKENS!r}"
            )
        return vectors, [
            self._token_vectors(row, outputs[_TOKENS][place]) for place, row in enumerate(ids)
        ]

    def _token_vectors(self, ids: list[int], vectors: Floats) -> TokenVectors:
        # The first and the last one belong to the special tokens around the text.
        inner = slice(1, len(ids) - 1)
        return TokenVectors(
            np.array(ids[inner], dtype=np.int32), np.ascontiguousarray(vectors[inner])
        )

    def _sentence_vectors(self, outputs: dict[str, Any], ids: Sequence[list[int]]) -> Floats:
        if _SENTENCE in outputs:
            vectors = outputs[_SENTENCE]
        else:
            vectors = self._pooled(outputs, [len(row) for row in ids])
        if vectors.shape[1] != self._dimensions:
            raise ModelError(
                f"the model {self._model.files.name!r} gives {vectors.shape[1]} dimensions, "
                f"its configuration says {self._dimensions}"
            )
        return _unit(vectors.astype(np.float32))

    def _pooled(self, outputs: dict[str, Any], lengths: Sequence[int]) -> NDArray[np.float32]:
        name = next((name for name in _STATES if name in outputs), None)
        if name is None:
            raise ModelError(
                f"the graph of {self._model.files.name!r} is no embedder: it has none of the "
                f"outputs {_SENTENCE!r}, {_STATES[0]!r} and {_STATES[1]!r}"
            )
        states = outputs[name]
        files = self._model.files
        if files.setting("pooling_mode_cls_token", "1_Pooling/config.json") or (
            files.setting("pooling", "model.json") == "cls"
        ):
            return np.asarray(states[:, 0], dtype=np.float32)
        means = [states[place, :length].mean(axis=0) for place, length in enumerate(lengths)]
        return np.stack(means).astype(np.float32)

    def _joined(
        self,
        groups: Sequence[Sequence[int]],
        parts: Sequence[tuple[Floats, list[TokenVectors] | None]],
        count: int,
    ) -> Encoding:
        vectors = np.zeros((count, self._dimensions), dtype=np.float32)
        tokens: dict[int, TokenVectors] = {}
        for group, (rows, found) in zip(groups, parts, strict=True):
            vectors[list(group)] = rows
            if found is not None:
                tokens.update(zip(group, found, strict=True))
        if self._token_dimensions is None:
            return Encoding(vectors)
        return Encoding(vectors, tuple(tokens[place] for place in range(count)))


def _declared_dimensions(files: ModelFiles) -> int:
    declared = files.setting("dimensions", "model.json") or files.setting(
        "word_embedding_dimension", "1_Pooling/config.json"
    )
    declared = declared or files.setting("hidden_size", "config.json")
    if not declared:
        raise ModelError(
            f"nothing in {str(files.folder)!r} says how long the vectors are; put "
            '{"dimensions": N} into model.json there'
        )
    return int(declared)


def _prefix(files: ModelFiles, kind: str, given: str | None) -> str:
    if given is not None:
        return given
    declared = files.setting(f"{kind}_prefix", "model.json")
    if declared is None:
        prompts = files.setting("prompts", "config_sentence_transformers.json") or {}
        declared = prompts.get(kind) or (prompts.get("document") if kind == "passage" else None)
    return str(declared or "")


def _unit(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = vectors / np.maximum(norms, _TINY)
    return unit
