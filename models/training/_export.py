"""Writes a trained model as a folder that the library reads: 8-bit graph, tokenizer, description.

The embedder's graph takes `input_ids` and `attention_mask` (int64, batch x tokens) and gives

* `sentence_embedding`, float32, batch x 384: mean of the last hidden states under the mask,
  L2-normalised;
* `token_vectors`, float32, batch x tokens x dimensions: last hidden states, L2-normalised,
  projected, L2-normalised again.

The cross-encoder's takes `token_type_ids` too and gives `logits`, float32, batch x 1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer

from agentmem.models.training._cross import CrossEncoder
from agentmem.models.training._encoder import DIMENSIONS, TwoHeads

MAX_TOKENS = 512
_OPSET = 17
_AXES = {0: "batch", 1: "tokens"}


def export_embedder(
    model: TwoHeads, weights: np.ndarray, tokenizer: Tokenizer, out: Path, name: str
) -> None:
    """Write the embedder's folder.

    Parameters
    ----------
    model
        The trained model; its projection decides how long token vectors are.
    weights
        float32 of shape (vocabulary,): rarity of each word piece.
    name
        What the model is called in a memory's folder and in traces.
    """
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / "token_weights.npy", weights.astype(np.float16))
    _export(model, out, ["input_ids", "attention_mask"], ["sentence_embedding", "token_vectors"])
    _describe(
        out,
        tokenizer,
        ["token_weights.npy"],
        {
            "name": name,
            "dimensions": DIMENSIONS,
            "token_dimensions": model.projection.shape[1],
            "query_prefix": "",
            "passage_prefix": "",
        },
    )


def export_cross(model: CrossEncoder, tokenizer: Tokenizer, out: Path, name: str) -> None:
    """Write the cross-encoder's folder, with what `export_embedder` writes but rarity weights."""
    out.mkdir(parents=True, exist_ok=True)
    _export(model, out, ["input_ids", "attention_mask", "token_type_ids"], ["logits"])
    _describe(out, tokenizer, [], {"name": name})


def between(base: TwoHeads, trained: TwoHeads, share: float) -> TwoHeads:
    """Set `base` to the point between both models, at `share` of the way, and return it.

    What fine-tuning takes from texts of other kinds, the way back gives (Wortsman et al., "Robust
    fine-tuning of zero-shot models", CVPR 2022).
    """
    with torch.no_grad():
        for old, new in zip(base.parameters(), trained.parameters(), strict=True):
            old.lerp_(new, share)
    return base


def shortened(model: TwoHeads, dimensions: int) -> TwoHeads:
    """Return the model with token vectors of the first `dimensions` dimensions."""
    return TwoHeads(model.encoder, model.projection.detach()[:, :dimensions].contiguous())


def _export(
    model: torch.nn.Module, out: Path, inputs: Sequence[str], outputs: Sequence[str]
) -> None:
    fp32 = out / "fp32.onnx"
    example = tuple(torch.ones(2, 8, dtype=torch.int64) for _ in inputs)
    axes: dict[str, Any] = dict.fromkeys((*inputs, *outputs), _AXES)
    axes |= {name: {0: "batch"} for name in outputs if name in ("sentence_embedding", "logits")}
    torch.onnx.export(
        model.eval(),
        example,
        str(fp32),
        input_names=list(inputs),
        output_names=list(outputs),
        dynamic_axes=axes,
        opset_version=_OPSET,
        dynamo=False,
    )
    onnx.checker.check_model(str(fp32))
    quantize_dynamic(
        fp32,
        out / "model.onnx",
        weight_type=QuantType.QInt8,
        per_channel=True,
        op_types_to_quantize=["MatMul", "Gather"],
        extra_options={"MatMulConstBOnly": True},
    )
    fp32.unlink()


def _describe(
    out: Path, tokenizer: Tokenizer, more: Sequence[str], description: dict[str, Any]
) -> None:
    tokenizer.save(str(out / "tokenizer.json"))
    files = ["model.onnx", "tokenizer.json", *more]
    text = {
        **description,
        "source": "sentence-transformers/all-MiniLM-L6-v2, trained further",
        "licence": "Apache-2.0",
        "max_tokens": MAX_TOKENS,
        "sha256": {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in files},
    }
    (out / "model.json").write_text(json.dumps(text, indent=2) + "\n", encoding="utf-8")
