"""What the embedder is trained for.

    loss = token(128) / 2 + token(64) / 2 + 0.5 * sentence

Each term asks for the positive among all texts of the batch, by cross-entropy over 20 x the score.
For the sentence it is the cosine, for tokens the rarity-weighted MaxSim of
`agentmem.models.late_interaction`. The token term is taken with all dimensions and with the first
64 of them, so that a shorter code is a cut (Kusupati et al., "Matryoshka Representation Learning",
NeurIPS 2022).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

SCALE = 20.0
SENTENCE_SHARE = 0.5
CUTS = (128, 64)
_FAR = -1e4


def max_sim(query: Tensor, weights: Tensor, passages: Tensor, present: Tensor) -> Tensor:
    """Return the late-interaction score of each query with each passage.

    Parameters
    ----------
    query
        float32 of shape (queries, query tokens, dimensions), L2-normalised.
    weights
        float32 of shape (queries, query tokens), 0 for tokens that do not count.
    passages
        float32 of shape (passages, tokens, dimensions), L2-normalised.
    present
        bool of shape (passages, tokens).

    Returns
    -------
    Tensor
        float32 of shape (queries, passages).
    """
    queries, length, dimensions = query.shape
    flat = query.reshape(queries * length, dimensions)
    cosine = torch.einsum("id,pjd->ipj", flat, passages)
    best = cosine.masked_fill(~present[None], _FAR).amax(-1).reshape(queries, length, -1)
    total = weights.sum(1).clamp(min=1e-6)
    return torch.einsum("qip,qi->qp", best, weights) / total[:, None]


def loss(
    query: tuple[Tensor, Tensor],
    weights: Tensor,
    passages: tuple[Tensor, Tensor],
    present: Tensor,
    excluded: Tensor,
) -> dict[str, Tensor]:
    """Return the terms of the objective; `total` is what is minimised.

    Parameters
    ----------
    query, passages
        Sentence vectors and token vectors; passage i answers query i, the others do not.
    weights, present
        As for `max_sim`.
    excluded
        bool of shape (queries, passages): pairs that may be answers too and count for nothing.
    """
    target = torch.arange(len(query[0]))
    terms = {
        f"token{cut}": cross_entropy(
            _scores(query[1], weights, passages[1], present, cut, excluded), target
        )
        for cut in CUTS
    }
    cosine = (query[0] @ passages[0].T).masked_fill(excluded, _FAR)
    terms["sentence"] = cross_entropy(cosine * SCALE, target)
    tokens = torch.stack([terms[f"token{cut}"] for cut in CUTS]).mean()
    terms["total"] = tokens + SENTENCE_SHARE * terms["sentence"]
    return terms


def _scores(
    query: Tensor, weights: Tensor, passages: Tensor, present: Tensor, cut: int, excluded: Tensor
) -> Tensor:
    short = normalize(query[..., :cut], dim=-1), normalize(passages[..., :cut], dim=-1)
    scores = max_sim(short[0], weights, short[1], present)
    return scores.masked_fill(excluded, _FAR) * SCALE
