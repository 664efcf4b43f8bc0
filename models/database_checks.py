"""Measures whether a graph for a database gives what the client gives.

The graph runs here, in ONNX Runtime with onnxruntime-extensions, one text a run, as the database
runs it. That shows that the graph is right; that a server has its operators only the server shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import InvalidInputError, ModelError
from agentmem.models.base import Embedder, RerankCandidate, Reranker
from agentmem.models.database_onnx import missing

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Role = Literal["query", "passage"]


@dataclass(frozen=True, slots=True)
class EmbedderReport:
    """How near the vectors of a graph are to the client's.

    Attributes
    ----------
    texts
        How many were compared.
    least, mean
        Cosine between both vectors of a text.
    worst
        The text with the least.
    """

    texts: int
    least: float
    mean: float
    worst: str


@dataclass(frozen=True, slots=True)
class CrossEncoderReport:
    """How alike a graph and the client rank.

    Attributes
    ----------
    queries, pairs
        How many were compared.
    least, mean
        For each query, the part of all pairs of its texts that both put into the same order.
    gap
        The largest difference between both scores of a text.
    """

    queries: int
    pairs: int
    least: float
    mean: float
    gap: float


async def verify_embedder(
    graph: Path, embedder: Embedder, texts: Sequence[str], *, role: Role = "query"
) -> EmbedderReport:
    """Compare the vectors of a graph with those of the client.

    Parameters
    ----------
    graph
        The file that `build_embedder` wrote.
    embedder
        The client's embedder over the same model.
    texts
        What to embed.
    role
        The one that the graph was built for.

    Raises
    ------
    InvalidInputError
        There are no texts.
    ModelError
        The graph cannot be run here.
    """
    if not texts:
        raise InvalidInputError("there is no text to compare; give some")
    session = await asyncio.to_thread(_load, graph)
    cosines = [await _cosine(session, embedder, text, role) for text in texts]
    worst = int(np.argmin(cosines))
    return EmbedderReport(len(texts), cosines[worst], float(np.mean(cosines)), texts[worst])


async def _cosine(session: InferenceSession, embedder: Embedder, text: str, role: Role) -> float:
    found = await asyncio.to_thread(_run, session, text)
    if role == "query":
        encoding = await embedder.embed_query(text)
    else:
        encoding = await embedder.embed_passages([text])
    expected = encoding.vectors[0].astype(np.float64)
    if found.shape != expected.shape:
        raise ModelError(
            f"the graph gives vectors of shape {found.shape}, the embedder {embedder.id!r} of "
            f"{expected.shape}; build the graph from the same model"
        )
    lengths = float(np.linalg.norm(found) * np.linalg.norm(expected))
    return float(found @ expected) / max(lengths, np.finfo(np.float64).tiny)


async def verify_cross_encoder(
    graph: Path, reranker: Reranker, texts: Mapping[str, Sequence[str]]
) -> CrossEncoderReport:
    """Compare the order in which a graph and the client put the texts of each query.

    Parameters
    ----------
    graph
        The file that `build_cross_encoder` wrote.
    reranker
        The client's reranker over the same model.
    texts
        For each query the texts to rank, two at least.

    Raises
    ------
    InvalidInputError
        There is no query, or one with fewer than two texts.
    ModelError
        The graph cannot be run here.
    """
    if not texts or min(map(len, texts.values())) < 2:
        raise InvalidInputError("an order needs a query with two texts at least; give some")
    session = await asyncio.to_thread(_load, graph)
    agreements, gaps = [], []
    for query, ranked in texts.items():
        candidates = [RerankCandidate(str(n), text, None) for n, text in enumerate(ranked)]
        expected = np.array(await reranker.rerank(query, None, candidates))
        found = np.array([await asyncio.to_thread(_run, session, query, text) for text in ranked])
        agreements.append(_agreement(found, expected))
        gaps.append(float(np.abs(found - expected).max()))
    return CrossEncoderReport(
        queries=len(texts),
        pairs=sum(map(len, texts.values())),
        least=min(agreements),
        mean=float(np.mean(agreements)),
        gap=max(gaps),
    )


def _agreement(found: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Return the part of all pairs that both put into the same order."""
    first, second = np.triu_indices(len(expected), 1)
    same = np.sign(found[first] - found[second]) == np.sign(expected[first] - expected[second])
    return float(same.mean())


def _load(graph: Path) -> InferenceSession:
    import onnxruntime

    try:
        import onnxruntime_extensions
    except ImportError as error:
        raise missing("onnxruntime_extensions") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    try:
        return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime raises classes of its own for each kind of fault
        raise ModelError(f"the graph {str(graph)!r} cannot be loaded: {error}") from error


def _run(session: InferenceSession, *texts: str) -> NDArray[np.float64]:
    """Return the output of one run; the graph's text inputs are filled in order."""
    names = [tensor.name for tensor in session.get_inputs()]
    feed: dict[str, Any] = {
        name: np.array([text], dtype=object) for name, text in zip(names, texts, strict=True)
    }
    try:
        return np.asarray(session.run(None, feed)[0], dtype=np.float64)
    except Exception as error:  # the runtime raises classes of its own for each kind of fault
        raise ModelError(f"the graph failed: {error}") from error
