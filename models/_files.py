"""Finds and checks the files of a model: a folder, the bundled one, or one from a hub."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentmem.errors import ModelError

BUNDLED = Path(__file__).parent / "minilm"
BUNDLED_CROSS_ENCODER = Path(__file__).parent / "cross"
_GRAPHS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
# Weights beside a graph that would be too large for one file.
_WEIGHTS = ("*.onnx_data", "*.onnx.data")
# Families that start counting positions behind the padding id.
_SHIFTED = ("roberta", "camembert", "mpnet", "longformer", "xmod")
_CONFIGS = (
    "model.json",
    "config.json",
    "tokenizer_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
)
# Some published configurations say "no limit" with a number like 10**30.
_SANE_LENGTH = 1_000_000
_DEFAULT_LENGTH = 512


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of one model.

    Attributes
    ----------
    folder
        Where they are.
    graph, tokenizer
        Paths of the ONNX graph and of tokenizer.json.
    configs
        Content of the JSON files that describe the model, by their path in the folder.
    """

    folder: Path
    graph: Path
    tokenizer: Path
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in model.json, else the folder's."""
        name = self.configs["model.json"].get("name")
        return str(name or self.folder.resolve().name)

    def setting(self, name: str, *files: str) -> Any:
        """Return a setting from the first of `files` (all by default) that has it, else None."""
        for file in files or _CONFIGS:
            value = self.configs[file].get(name)
            if value is not None:
                return value
        return None

    def max_tokens(self) -> int:
        """Return the longest input of the model, in tokens with the special ones.

        A tokenizer.json's own truncation is not asked: it often tells a training setting.
        """
        declared = [
            self.setting("max_tokens", "model.json"),
            self.setting("max_seq_length", "sentence_bert_config.json"),
            self.setting("model_max_length", "tokenizer_config.json"),
            self._positions(),
        ]
        lengths = [int(n) for n in declared if isinstance(n, (int, float)) and 0 < n < _SANE_LENGTH]
        return min(lengths, default=_DEFAULT_LENGTH)

    def _positions(self) -> int | None:
        positions = self.setting("max_position_embeddings", "config.json")
        if positions is None:
            return None
        padding = self.setting("pad_token_id", "config.json") or 0
        kind = str(self.setting("model_type", "config.json") or "")
        shifted = any(family in kind for family in _SHIFTED)
        return int(positions) - (int(padding) + 1 if shifted else 0)

    def digest(self) -> str:
        """Return a short digest that tells models apart: over the graph and the tokenizer."""
        known = self.configs["model.json"].get("sha256")
        if isinstance(known, dict):
            parts = [str(known.get(self.graph.name)), str(known.get(self.tokenizer.name))]
        else:
            parts = [_sha256(self.graph), _sha256(self.tokenizer)]
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:12]

    def verify(self) -> None:
        """Compare the files with the digests in model.json, when it has any.

        Raises
        ------
        ModelError
            A file is not what it was when the model was packed.
        """
        for name, expected in (self.configs["model.json"].get("sha256") or {}).items():
            path = self.folder / name
            if not path.is_file():
                raise ModelError(f"the model at {str(self.folder)!r} lacks {name!r}; reinstall it")
            if _sha256(path) != expected:
                raise ModelError(
                    f"{str(path)!r} is damaged: its SHA-256 is not the one in model.json; "
                    "reinstall the model"
                )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_files(spec: str | Path) -> ModelFiles:
    """Return the files of the model that `spec` names: a folder or a hub id (``org/name``).

    Raises
    ------
    ModelError
        There is no such folder, a file is missing or unreadable, or the hub cannot be used.
    """
    folder = Path(spec).expanduser()
    if not folder.is_dir():
        folder = _from_hub(str(spec))
    graph = next((folder / name for name in _GRAPHS if (folder / name).is_file()), None)
    if graph is None:
        raise ModelError(
            f"the model at {str(folder)!r} has no ONNX graph; looked for {', '.join(_GRAPHS)}. "
            "Export the model to ONNX first"
        )
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        raise ModelError(
            f"the model at {str(folder)!r} has no tokenizer.json; save its fast tokenizer there"
        )
    configs = {name: _read_json(folder / name) for name in _CONFIGS}
    return ModelFiles(folder, graph, tokenizer, configs)


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{str(path)!r} is not a JSON object")
    return value


def _from_hub(name: str) -> Path:
    parts = name.split("/")
    if len(parts) != 2 or not all(parts) or name.startswith((".", "~")):
        raise ModelError(f"there is no model folder {name!r}; give a folder or a hub id org/name")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise ModelError(
            f"{name!r} is no folder here; to fetch it from a hub, install agentmem[hub]"
        ) from error
    try:
        wanted = [*_GRAPHS, *_WEIGHTS, *_CONFIGS, "tokenizer.json", "token_weights.npy"]
        return Path(snapshot_download(name, allow_patterns=wanted))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise ModelError(
            f"could not fetch the model {name!r} from the hub: {type(error).__name__}; "
            "check the name and the network, or give a folder"
        ) from error
