"""Embeds texts with an ONNX graph: the bundled one or any sentence embedder in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import ModelError
from agentmem.models._files import BUNDLED, ModelFiles, find_files
from agentmem.models._session import OnnxModel, cut
from agentmem.models.base import Encoding, Floats, TokenVectors

SENTENCE = "sentence_embedding"
_TOKENS = "token_vectors"
_STATES = ("last_hidden_state", "token_embeddings")
_WEIGHTS = "token_weights.npy"
_UNKNOWN = ("[UNK]", "<unk>")
_TINY = 1e-9
# One token at each end of a text.
_SPECIAL = 2
_POOLING = "1_Pooling/config.json"
# A run holds one text without padding, so no mask is needed.
_POOLS: dict[str, Callable[[Floats], Floats]] = {
    "mean": lambda states: states.mean(axis=1, dtype=np.float32),
    "cls": lambda states: states[:, 0],
    "lasttoken": lambda states: states[:, -1],
    "max": lambda states: states.max(axis=1),
}


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
        self._query_prefix = prefix_of(files, "query", query_prefix)
        self._passage_prefix = prefix_of(files, "passage", passage_prefix)
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
        """Longest text in tokens: the model's limit less special tokens and the prefix."""
        prefix = self.count_tokens(self._passage_prefix) if self._passage_prefix else 0
        return max(1, self._limit - _SPECIAL - prefix)

    async def embed_passages(self, texts: Sequence[str]) -> Encoding:
        """Return the encoding of `texts`; a text beyond `max_tokens` is cut off."""
        prefixed = [self._passage_prefix + text for text in texts]
        ids = await self._model.call(self._tokenize, prefixed)
        rows = await self._model.map(self._encode, ids, [len(row) for row in ids])
        vectors = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for place, (vector, _) in enumerate(rows):
            vectors[place] = vector
        if self._token_dimensions is None:
            return Encoding(vectors)
        return Encoding(vectors, tuple(tokens for _, tokens in rows if tokens is not None))

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
        vector, tokens = self._encode(self._tokenize([self._query_prefix + text])[0])
        if tokens is None:
            return Encoding(vector[None])
        rarity = self._rarity
        weights = None if rarity is None else rarity[tokens.ids]
        unknown = float(np.isin(tokens.ids, self._unknown).mean()) if len(tokens.ids) else 0.0
        return Encoding(vector[None], (replace(tokens, weights=weights, unknown=unknown),))

    @cached_property
    def _unknown(self) -> list[int]:
        """The ids that stand for what the vocabulary does not hold."""
        found = (self._model.tokenizer.token_to_id(name) for name in _UNKNOWN)
        return [name for name in found if name is not None]

    @cached_property
    def _rarity(self) -> Floats | None:
        """The weight of each entry of the vocabulary, None without the model's file of them."""
        path = self._model.files.folder / _WEIGHTS
        if not path.is_file():
            return None
        try:
            weights: Floats = np.load(path, allow_pickle=False).astype(np.float32)
        except (OSError, ValueError) as error:
            raise ModelError(f"{str(path)!r} cannot be read: {error}") from error
        size = self._model.tokenizer.get_vocab_size()
        if weights.shape != (size,):
            raise ModelError(
                f"{str(path)!r} has the shape {weights.shape}, the vocabulary {size} entries; "
                "fit the weights with this tokenizer"
            )
        return weights

    def _encode(self, ids: list[int]) -> tuple[Floats, TokenVectors | None]:
        outputs = self._model.run(ids)
        vector = self._sentence_vector(outputs)
        if self._token_dimensions is None:
            return vector, None
        if _TOKENS not in outputs:
            raise ModelError(
                f"model.json of {self._model.files.name!r} promises token vectors, but the graph "
                f"has no output {_TOKENS!r}"
            )
        # The first and the last one belong to the special tokens around the text.
        inner = slice(1, len(ids) - 1)
        return vector, TokenVectors(
            np.array(ids[inner], dtype=np.int32), np.ascontiguousarray(outputs[_TOKENS][0, inner])
        )

    def _sentence_vector(self, outputs: dict[str, Any]) -> Floats:
        name = sentence_output(outputs, self._model.files.name)
        found = outputs[name] if name == SENTENCE else self._pooled(outputs, name)
        vector = np.asarray(found[0], dtype=np.float32)
        if vector.shape != (self._dimensions,):
            raise ModelError(
                f"the model {self._model.files.name!r} gives vectors of shape {vector.shape}, "
                f"its configuration says {self._dimensions} dimensions"
            )
        unit: Floats = vector / max(float(np.linalg.norm(vector)), _TINY)
        return unit

    def _pooled(self, outputs: dict[str, Any], name: str) -> NDArray[np.float32]:
        return _POOLS[self._pooling](np.asarray(outputs[name], dtype=np.float32))

    @cached_property
    def _pooling(self) -> str:
        return pooling_of(self._model.files)


def sentence_output(names: Iterable[str], model: str) -> str:
    """Return the output that sentence vectors come from: themselves, or hidden states."""
    name = next((name for name in (SENTENCE, *_STATES) if name in names), None)
    if name is None:
        raise ModelError(
            f"the graph of {model!r} is no embedder: it has none of the outputs {SENTENCE!r}, "
            f"{_STATES[0]!r} and {_STATES[1]!r}"
        )
    return name


def pooling_of(files: ModelFiles) -> str:
    """Return how hidden states become one vector: model.json's word, else the published setting."""
    chosen = files.configs[_POOLING]
    # The mean by the root of the length points where the mean does.
    flags = {
        "mean" if name.startswith("pooling_mode_mean_") else name.split("_")[2]
        for name, value in chosen.items()
        if name.startswith("pooling_mode_") and value
    }
    pooling = files.setting("pooling", "model.json") or "+".join(sorted(flags)) or "mean"
    if pooling not in _POOLS:
        raise ModelError(
            f"the model {files.name!r} pools by {pooling!r}, which is not known here; "
            f"known are {', '.join(_POOLS)}. Export it with an output {SENTENCE!r}"
        )
    return str(pooling)


def _declared_dimensions(files: ModelFiles) -> int:
    declared = files.setting("dimensions", "model.json") or files.setting(
        "word_embedding_dimension", _POOLING
    )
    declared = declared or files.setting("hidden_size", "config.json")
    if not declared:
        raise ModelError(
            f"nothing in {str(files.folder)!r} says how long the vectors are; put "
            '{"dimensions": N} into model.json there'
        )
    return int(declared)


def prefix_of(files: ModelFiles, kind: str, given: str | None) -> str:
    """Return what is put before each text of a kind: what is given, else the model's setting."""
    if given is not None:
        return given
    declared = files.setting(f"{kind}_prefix", "model.json")
    if declared is None:
        prompts = files.setting("prompts", "config_sentence_transformers.json") or {}
        declared = prompts.get(kind) or (prompts.get("document") if kind == "passage" else None)
    return str(declared or "")
