"""Embedders and rerankers: what they promise, and how they are loaded by name.

`agentmem.models.base` holds the contracts. ONNX Runtime and the tokenizers are imported when a
model is used for the first time.
"""

from __future__ import annotations

if __name__ == "models":  # pragma: no cover
    raise ImportError("import agentmem.models, not the bare folder name")
