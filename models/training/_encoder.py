"""The encoder with both heads, and texts as padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import normalize
from transformers import AutoModel

from agentmem.models._session import cut

DIMENSIONS = 384
TOKEN_DIMENSIONS = 128
_SAMPLE = 64


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids of some texts.

    Attributes
    ----------
    ids
        int64 of shape (texts, tokens), padded with 0.
    mask
        int64 of the same shape: 1 where a token stands.
    """

    ids: Tensor
    mask: Tensor

    @property
    def inner(self) -> Tensor:
        """Bool of the same shape: tokens without the special ones at both ends."""
        inner = self.mask.bool().clone()
        inner[:, 0] = False
        inner[torch.arange(len(inner)), self.mask.sum(1) - 1] = False
        return inner


class TwoHeads(torch.nn.Module):
    """The encoder, with a mean over its states and a projection of each of them.

    Parameters
    ----------
    encoder
        A BERT-like model with hidden states of 384 dimensions.
    projection
        float32 of shape (384, token dimensions).
    """

    def __init__(self, encoder: torch.nn.Module, projection: Tensor) -> None:
        super().__init__()
        self.encoder = encoder
        self.projection = torch.nn.Parameter(projection)

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the last hidden states, float32 of shape (texts, tokens, 384)."""
        states: Tensor = self.encoder(
            input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)
        ).last_hidden_state
        return states.float()

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return sentence vectors (texts, 384) and token vectors (texts, tokens, dimensions)."""
        states = self.states(ids, mask)
        weight = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        tokens = normalize(normalize(states, dim=-1) @ self.projection, dim=-1)
        return normalize(mean, dim=-1), tokens


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer without truncation and padding of its own."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def load_encoder(folder: Path) -> torch.nn.Module:
    """Return the published encoder in 32-bit floats."""
    encoder: torch.nn.Module = AutoModel.from_pretrained(folder, attn_implementation="eager")
    return encoder.float()


def to_batch(tokenizer: Tokenizer, texts: Sequence[str], longest: int) -> Batch:
    """Return the ids of `texts`, each cut at `longest` tokens with its last special token kept."""
    rows = [cut(encoded, longest) for encoded in tokenizer.encode_batch(list(texts))]
    width = max(map(len, rows))
    ids = torch.zeros(len(rows), width, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
        mask[place, : len(row)] = 1
    return Batch(ids, mask)


def principal_components(
    encoder: torch.nn.Module, tokenizer: Tokenizer, texts: Sequence[str], dimensions: int
) -> Tensor:
    """Return the leading eigenvectors of the second moment of unit token states.

    Returns
    -------
    Tensor
        float32 of shape (384, dimensions), the direction of the largest eigenvalue first.
    """
    moment = torch.zeros(DIMENSIONS, DIMENSIONS, dtype=torch.float64)
    model = TwoHeads(encoder, torch.zeros(DIMENSIONS, 1)).eval()
    with torch.no_grad():
        for start in range(0, len(texts), _SAMPLE):
            some = to_batch(tokenizer, texts[start : start + _SAMPLE], 128)
            unit = normalize(model.states(some.ids, some.mask), dim=-1)[some.mask.bool()].double()
            moment += unit.T @ unit
    _, vectors = torch.linalg.eigh(moment)
    return vectors[:, -dimensions:].flip(1).float().contiguous()


def rarity_weights(tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """Return log(1 + N / (1 + df)) of each word piece over N texts, 0 for special tokens.

    Returns
    -------
    ndarray
        float32 of shape (vocabulary,).
    """
    frequency = np.zeros(tokenizer.get_vocab_size(), dtype=np.int64)
    for encoded in tokenizer.encode_batch(list(texts), add_special_tokens=False):
        frequency[np.unique(encoded.ids)] += 1
    weights = np.log1p(len(texts) / (1.0 + frequency)).astype(np.float32)
    weights[frequency == 0] = np.log1p(len(texts))
    for special in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"):
        weights[tokenizer.token_to_id(special)] = 0.0
    return weights
