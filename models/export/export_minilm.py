"""Exports all-MiniLM-L6-v2 as one ONNX graph with two outputs.

    python models/export/export_minilm.py --weights DIR --texts FILE... --out models/minilm

DIR holds the fp32 weights as published (config.json, model.safetensors, tokenizer.json). The texts
fit the projection and the rarity weights; each line is a JSON object with a list `positives`.
Needs torch, transformers, onnx, onnxruntime and onnxscript; nothing of it is used at run time.

The graph takes `input_ids` and `attention_mask` (int64, batch x tokens) and gives

* `sentence_embedding`, float32, batch x 384: mean of the last hidden states under the mask,
  L2-normalised, as sentence-transformers computes it for this model;
* `token_vectors`, float32, batch x tokens x 128: last hidden states, L2-normalised, projected on
  the 128 leading principal components of such states, L2-normalised again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer
from transformers import AutoModel

DIMENSIONS = 384
TOKEN_DIMENSIONS = 128
MAX_TOKENS = 512
SAMPLE_TEXTS = 20_000
PROJECTION_TEXTS = 2_000
OPSET = 17
SEED = 20250101


class TwoOutputs(torch.nn.Module):
    """The encoder with both heads."""

    def __init__(self, encoder: torch.nn.Module, projection: torch.Tensor) -> None:
        super().__init__()
        self.encoder = encoder
        self.projection = torch.nn.Parameter(projection, requires_grad=False)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return sentence embeddings and token vectors."""
        states = self.encoder(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=torch.zeros_like(input_ids),
        ).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        unit = torch.nn.functional.normalize(states, dim=-1)
        tokens = torch.nn.functional.normalize(unit @ self.projection, dim=-1)
        return torch.nn.functional.normalize(mean, dim=-1), tokens


def read_texts(paths: Iterable[Path]) -> list[str]:
    """Return one passage of each record, shuffled."""
    texts = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            texts += [record["positives"][0] for record in map(json.loads, lines)]
    random.Random(SEED).shuffle(texts)
    return texts[:SAMPLE_TEXTS]


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer without truncation and padding of its own."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def batches(tokenizer: Tokenizer, texts: list[str], size: int = 32) -> Iterator[tuple[Any, Any]]:
    """Yield padded ids and masks."""
    for start in range(0, len(texts), size):
        ids = [e.ids[:128] for e in tokenizer.encode_batch(texts[start : start + size])]
        width = max(map(len, ids))
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids])
        yield torch.tensor([row + [0] * (width - len(row)) for row in ids]), mask


def fit_projection(
    encoder: torch.nn.Module, tokenizer: Tokenizer, texts: list[str]
) -> torch.Tensor:
    """Return the leading eigenvectors of the second moment of unit token vectors, 384 x 128."""
    moment = torch.zeros(DIMENSIONS, DIMENSIONS, dtype=torch.float64)
    with torch.no_grad():
        for ids, mask in batches(tokenizer, texts):
            states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            unit = torch.nn.functional.normalize(states, dim=-1)[mask.bool()].double()
            moment += unit.T @ unit
    _, vectors = torch.linalg.eigh(moment)
    return vectors[:, -TOKEN_DIMENSIONS:].float().contiguous()


def fit_weights(tokenizer: Tokenizer, texts: list[str]) -> np.ndarray:
    """Return log(1 + N / (1 + df)) for each word piece over `texts`, 0 for special tokens."""
    frequency: Counter[int] = Counter()
    for encoding in tokenizer.encode_batch(texts, add_special_tokens=False):
        frequency.update(set(encoding.ids))
    weights = np.full(tokenizer.get_vocab_size(), np.log1p(len(texts)), dtype=np.float32)
    for token, count in frequency.items():
        weights[token] = np.log1p(len(texts) / (1 + count))
    for special in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"):
        weights[tokenizer.token_to_id(special)] = 0.0
    return weights


def export_fp32(model: TwoOutputs, path: Path) -> None:
    """Write the graph with dynamic batch and length."""
    example = torch.ones(2, 8, dtype=torch.int64)
    axes = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        model,
        (example, example),
        str(path),
        input_names=["input_ids", "attention_mask"],
        output_names=["sentence_embedding", "token_vectors"],
        dynamic_axes={
            "input_ids": axes,
            "attention_mask": axes,
            "sentence_embedding": {0: "batch"},
            "token_vectors": axes,
        },
        opset_version=OPSET,
        dynamo=False,
    )
    onnx.checker.check_model(str(path))


def quantise(source: Path, target: Path) -> None:
    """Write weights of matrix products and look-up tables as 8-bit integers."""
    quantize_dynamic(
        source,
        target,
        weight_type=QuantType.QInt8,
        per_channel=True,
        op_types_to_quantize=["MatMul", "Gather"],
        extra_options={"MatMulConstBOnly": True},
    )


def sha256(path: Path) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Run the export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, required=True, help="folder with the fp32 weights")
    parser.add_argument("--texts", type=Path, nargs="+", required=True, help="*.jsonl.gz files")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--keep-fp32", type=Path, help="also write the fp32 graph here")
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    arguments.out.mkdir(parents=True, exist_ok=True)
    tokenizer = load_tokenizer(arguments.weights / "tokenizer.json")
    encoder = AutoModel.from_pretrained(arguments.weights, attn_implementation="eager").eval()
    texts = read_texts(arguments.texts)
    projection = fit_projection(encoder, tokenizer, texts[:PROJECTION_TEXTS])
    fp32 = arguments.keep_fp32 or arguments.out / "fp32.onnx"
    export_fp32(TwoOutputs(encoder, projection).eval(), fp32)
    quantise(fp32, arguments.out / "model.onnx")
    if arguments.keep_fp32 is None:
        fp32.unlink()
    tokenizer.save(str(arguments.out / "tokenizer.json"))
    np.save(arguments.out / "token_weights.npy", fit_weights(tokenizer, texts).astype(np.float16))
    digests = {
        name: sha256(arguments.out / name)
        for name in ("model.onnx", "tokenizer.json", "token_weights.npy")
    }
    description = {
        "name": "all-MiniLM-L6-v2-late128-int8",
        "source": "sentence-transformers/all-MiniLM-L6-v2",
        "licence": "Apache-2.0",
        "dimensions": DIMENSIONS,
        "token_dimensions": TOKEN_DIMENSIONS,
        "max_tokens": MAX_TOKENS,
        "query_prefix": "",
        "passage_prefix": "",
        "sha256": digests,
    }
    (arguments.out / "model.json").write_text(json.dumps(description, indent=2) + "\n")
    print(json.dumps(digests, indent=2))


if __name__ == "__main__":
    main()
