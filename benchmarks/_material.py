"""The documents and questions of a case, and the model that embeds them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agentmem import Document
from agentmem.models.base import Embedder, Encoding, TokenVectors
from agentmem.models.onnx_embedder import OnnxEmbedder
from benchmarks._datasets import DataError, Dataset, load_dataset
from benchmarks._household import OWN_SETS, as_dataset
from benchmarks._suite import Case
from benchmarks.systems.base import Question

_BASE = 2_000
# A row is one chunk: two halves of texts of so many words stay below the size of one.
_WORDS = 120
_ASKED = 200
_SAMPLE = 1_000
_NOISE = 0.3
_MARK = "\n#"
_SCALE_SETS = ("locomo", "cisi", "cranfield")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a case with the keys of the documents that answer it."""

    id: str
    category: str
    question: Question
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True)
class Material:
    """What a system gets. `documents` can be walked through once; `sample` are some of them."""

    count: int
    documents: Iterator[Document]
    sample: list[Document]
    questions: list[Asked]
    embedder: Embedder


async def prepare(case: Case, root: Path | None) -> Material:
    """Return the material of a case.

    Raises
    ------
    DataError
        The data set is not there.
    """
    model = OnnxEmbedder()
    if case.data == "scale":
        return await _scaled(case, root, model)
    dataset = _find(case.data, root, case.categories, case.questions)
    questions = [
        Asked(q.id, q.category, Question(q.text, q.scope), q.relevant) for q in dataset.queries
    ]
    documents = dataset.documents
    return Material(len(documents), iter(documents), documents[:_SAMPLE], questions, model)


def is_there(case: Case, root: Path | None) -> bool:
    """Return whether the data of a case can be read here."""
    if case.data == "scale" or case.data in OWN_SETS:
        return True
    return root is not None and (root / case.data / "corpus.jsonl").is_file()


def _find(
    name: str, root: Path | None, categories: Sequence[str] | None, limit: int | None
) -> Dataset:
    if root is None:
        raise DataError(f"the set {name!r} is not part of the project; give its folder with --data")
    chosen = None if categories is None else set(categories)
    return load_dataset(root / name, categories=chosen, limit=limit)


async def _scaled(case: Case, root: Path | None, model: OnnxEmbedder) -> Material:
    """Return as many documents as wanted: real words, and vectors of real texts with noise."""
    texts, asked = _base(root)
    rows = case.rows or 0
    embedder = NoisyEmbedder(model, await model.embed_passages(texts), seed=1)
    where = {"gate": 1} if case.passing < 1 else {}
    questions = [
        Asked(
            str(number),
            "",
            Question(text, "default", _user(number, case.users), where),
            frozenset(),
        )
        for number, text in enumerate(asked[number % len(asked)] for number in range(_ASKED))
    ]
    sample = [Document(text) for text in texts[:_SAMPLE]]
    return Material(rows, _documents(texts, rows, case), sample, questions, embedder)


def _base(root: Path | None) -> tuple[list[str], list[str]]:
    """Return real texts and questions: of a set under `root`, or the project's own."""
    for name in _SCALE_SETS:
        if root is not None and (root / name / "corpus.jsonl").is_file():
            dataset = load_dataset(root / name)
            break
    else:
        dataset = as_dataset()
    texts = [" ".join(document.content.split()[:_WORDS]) for document in dataset.documents[:_BASE]]
    return texts, [query.text for query in dataset.queries]


def _user(number: int, users: int) -> str | None:
    return None if users == 1 else f"user{number % users}"


def _documents(texts: Sequence[str], rows: int, case: Case) -> Iterator[Document]:
    chooser = random.Random(1)
    every = round(1 / case.passing)
    for number in range(rows):
        base = number % len(texts)
        words, others = texts[base].split(), chooser.choice(texts).split()
        mixed = " ".join([*words[: len(words) // 2 + 1], *others[len(others) // 2 :]])
        yield Document(
            f"{mixed}{_MARK}{base} {number}",
            key=str(number),
            user_id=_user(number, case.users),
            metadata={"gate": int(number % every == 0)},
        )


class NoisyEmbedder:
    """A model whose passages are taken from a table of real encodings, with noise.

    A passage of the scale ends with a line that names its row in the table. Other passages and
    everything else are the model's.
    """

    def __init__(self, model: OnnxEmbedder, table: Encoding, seed: int) -> None:
        self._model = model
        self._table = table
        self._random = np.random.default_rng(seed)
        self.id = model.id
        self.dimensions = model.dimensions
        self.token_dimensions = model.token_dimensions
        self.max_tokens = model.max_tokens

    async def embed_passages(self, texts: Sequence[str]) -> Encoding:
        """Return encodings from the table, with noise; of other passages those of the model."""
        if not all(_MARK in text for text in texts):
            return await self._model.embed_passages(texts)
        rows = [int(text.rsplit(_MARK, 1)[1].split()[0]) for text in texts]
        noise = self._random.normal(size=(len(rows), self.dimensions)) / self.dimensions**0.5
        vectors = self._table.vectors[rows] + _NOISE * noise
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        tokens: tuple[TokenVectors, ...] = self._table.tokens or ()
        return Encoding(vectors.astype(np.float32), tuple(tokens[row] for row in rows))

    async def embed_query(self, text: str) -> Encoding:
        """Return the model's encoding."""
        return await self._model.embed_query(text)

    def count_tokens(self, text: str) -> int:
        """Return the model's count."""
        return self._model.count_tokens(text)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the model's tokens."""
        return self._model.token_offsets(text)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()
