"""Makes embedders and rerankers from the names used in settings."""

from __future__ import annotations

from agentmem.models._files import BUNDLED_CROSS_ENCODER
from agentmem.models.base import Embedder, Reranker
from agentmem.models.late_interaction import LateInteractionReranker
from agentmem.models.onnx_embedder import OnnxEmbedder
from agentmem.models.onnx_reranker import CrossEncoderReranker
from agentmem.models.quality import QualityReranker

DEFAULT = "default"
LATE = "late"
QUALITY = "quality"
NONE = "none"


def load_embedder(spec: str, *, threads: int = 0) -> Embedder:
    """Return the embedder that `spec` names: ``"default"``, a folder or a hub id.

    Raises
    ------
    ModelError
        There is no such model.
    """
    return OnnxEmbedder(None if spec == DEFAULT else spec, threads=threads)


def load_reranker(spec: str, *, threads: int = 0) -> Reranker | None:
    """Return the reranker that `spec` names: a word of this module, a folder or a hub id.

    Raises
    ------
    ModelError
        There is no such model.
    """
    if spec == NONE:
        return None
    if spec == LATE:
        return LateInteractionReranker()
    if spec == QUALITY:
        return QualityReranker(BUNDLED_CROSS_ENCODER, threads=threads)
    return CrossEncoderReranker(spec, threads=threads)
