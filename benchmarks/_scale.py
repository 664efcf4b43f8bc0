"""Search time on a large memory, time from opening to the first answer, speed of writing.

Texts are cut together from real ones, so that words have real frequencies; vectors are those of the
real texts with noise, so that writing a large memory takes minutes instead of hours. The query
side uses the real model.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress, track

from agentmem import Document, Memory, Settings
from agentmem.models.base import Encoding, TokenVectors
from agentmem.models.onnx_embedder import OnnxEmbedder
from benchmarks._datasets import Dataset
from benchmarks._quality import print_timings

_BASE = 2_000
_QUERIES = 200
_NOISE = 0.3
_MARK = "\n#"


class NoisyEmbedder:
    """The bundled model, with passages taken from a table of real encodings plus noise.

    A passage ends with a line that names its row in the table; everything else is the model's.
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
        """Return encodings from the table, with noise."""
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


async def build(folder: Path, dataset: Dataset, rows: int, console: Console) -> None:
    """Write `rows` documents into a new memory at `folder`."""
    texts = [document.content for document in dataset.documents[:_BASE]]
    model = OnnxEmbedder()
    console.print(f"embedding {len(texts)} real texts")
    embedder = NoisyEmbedder(model, await model.embed_passages(texts), seed=1)
    # Whole texts: the row in the table stands at the end of a text.
    settings = Settings(url=str(folder), chunker="whole")
    async with Memory(settings, embedder=embedder) as memory:
        with Progress(console=console) as bar:
            task = bar.add_task(f"writing {rows:,} rows", total=rows)
            documents = _documents(texts, rows)
            for start in range(0, rows, 2_000):
                size = min(2_000, rows - start)
                await memory.write([next(documents) for _ in range(size)])
                bar.advance(task, size)
        await memory.search("build the text index")
    await model.close()


def _documents(texts: Sequence[str], rows: int) -> Iterator[Document]:
    chooser = random.Random(1)
    for number in range(rows):
        base = number % len(texts)
        words, others = texts[base].split(), chooser.choice(texts).split()
        mixed = " ".join([*words[: len(words) // 2 + 1], *others[len(others) // 2 :]])
        yield Document(
            f"{mixed}{_MARK}{base} {number}",
            key=str(number),
            metadata={"percent": number % 100, "row": number},
        )


async def _have(folder: Path, dataset: Dataset, rows: int, console: Console) -> None:
    """Build a memory of `rows` rows unless it is there."""
    if not (folder / "memory.db").exists():
        await build(folder, dataset, rows, console)


async def run_open(folder: Path, dataset: Dataset, rows: int, console: Console) -> None:
    """Build a memory unless it is there, then open it in fresh processes."""
    await _have(folder, dataset, rows, console)
    _first_search(folder, dataset.queries[0].text, console)


async def run_scale(folder: Path, dataset: Dataset, rows: int, console: Console) -> None:
    """Build a memory of `rows` rows unless it is there, then measure."""
    await _have(folder, dataset, rows, console)
    questions = [query.text for query in dataset.queries]
    questions = (questions * (_QUERIES // len(questions) + 1))[:_QUERIES]
    async with Memory(folder) as memory:
        stats = await memory.stats()
        each = (stats.bytes or 0) / max(stats.chunks, 1)
        console.print(f"{stats.chunks:,} chunks, {each:,.0f} bytes a chunk, text included")
        await _settle(memory)
        for name, where in (
            ("no filter", None),
            ("filter that passes 1 %", {"percent": 7}),
            ("filter that passes one row", {"row": rows // 2}),
        ):
            timings = []
            for number, text in enumerate(track(questions, name, console=console)):
                trace = (await memory.search(text, k=10, where=where)).trace
                timings += [(str(number), s.name, s.milliseconds) for s in trace.stages]
                timings.append((str(number), "total", trace.milliseconds))
            console.print(name)
            print_timings(timings, console)
    _first_search(folder, questions[0], console)


async def _settle(memory: Memory) -> None:
    """Search until the vectors have been loaded in the background."""
    for _ in range(20):
        await memory.search("warm up", k=10)
        await asyncio.sleep(0.1)


_PROGRAM = """
import asyncio, sys, time
start = time.perf_counter()
from agentmem import Memory
imported = time.perf_counter()
async def main():
    async with Memory(sys.argv[1]) as memory:
        opened = time.perf_counter()
        await memory.search(sys.argv[2], k=10)
        print(imported - start, opened - imported, time.perf_counter() - imported)
asyncio.run(main())
"""


def _first_search(folder: Path, question: str, console: Console) -> None:
    """Print the time of import, opening and first search in fresh processes."""
    runs = []
    for _ in range(5):
        answer = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(folder), question],
            capture_output=True,
            check=True,
            text=True,
        )
        runs.append([float(number) for number in answer.stdout.split()])
    imported, opened, first = np.median(runs, axis=0)
    console.print(
        f"fresh process, median of {len(runs)}: import {imported:.3f} s, open {opened:.3f} s, "
        f"open and first search {first:.3f} s"
    )


async def run_ingest(folder: Path, dataset: Dataset, count: int, console: Console) -> float:
    """Print and return the throughput of `write` as a share of bare embedding, same texts."""
    texts = [document.content for document in dataset.documents[:count]]
    model = OnnxEmbedder()
    await model.embed_passages(texts[:32])
    shares = []
    for turn in range(3):
        start = time.perf_counter()
        await model.embed_passages(texts)
        bare = time.perf_counter() - start
        async with Memory(folder / str(turn), embedder=model) as memory:
            start = time.perf_counter()
            await memory.write(texts)
            written = time.perf_counter() - start
        shares.append(bare / written)
        console.print(
            f"{len(texts)} texts: embedding alone {len(texts) / bare:.0f}/s, "
            f"write {len(texts) / written:.0f}/s, ratio {bare / written:.2f}"
        )
    await model.close()
    share = float(np.median(shares))
    console.print(f"median ratio {share:.2f}")
    return share
