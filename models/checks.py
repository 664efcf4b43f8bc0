"""Checks what a model gave, so that nothing unusable is stored, compared or sorted by."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from agentmem.errors import ModelError
from agentmem.models.base import Embedder, Encoding, Floats


def checked(encoding: Encoding, embedder: Embedder, texts: int) -> Encoding:
    """Return `encoding` when it is one of so many texts as the embedder describes itself.

    Raises
    ------
    ModelError
        Vectors are missing, have another length than the embedder says, or hold values that are
        not finite.
    """
    vectors = encoding.vectors
    # An embedder inside an engine does not know how long its vectors are.
    width = embedder.dimensions or vectors.shape[-1]
    _check("sentence", vectors, (texts, width), embedder)
    if encoding.tokens is None:
        return encoding
    if len(encoding.tokens) != texts:
        raise ModelError(
            f"the embedder {embedder.id!r} gave token vectors of {len(encoding.tokens)} texts "
            f"for {texts}"
        )
    for tokens in encoding.tokens:
        shape = (len(tokens.ids), embedder.token_dimensions or 0)
        _check("token", tokens.vectors, shape, embedder)
    return encoding


def check_scores(scores: Sequence[float], candidates: int, *, least: int) -> None:
    """Check that between `least` and all of so many candidates have a score, and a finite one.

    Raises
    ------
    ModelError
        There are too few or too many, or some are not finite.
    """
    if not least <= len(scores) <= candidates:
        raise ModelError(f"it gave {len(scores)} scores for {candidates} candidates")
    if not all(map(math.isfinite, scores)):
        raise ModelError("it gave scores that are not finite")


def _check(kind: str, vectors: Floats, shape: tuple[int, int], embedder: Embedder) -> None:
    if vectors.shape != shape:
        raise ModelError(
            f"the embedder {embedder.id!r} gave {kind} vectors of shape {vectors.shape}, "
            f"where {shape} is what it says of itself"
        )
    if not np.isfinite(vectors).all():
        raise ModelError(
            f"the embedder {embedder.id!r} gave {kind} vectors with values that are not finite"
        )
