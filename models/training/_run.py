"""What a training run does: go on where it stopped, save its state whole, log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

_CHECKPOINT = "checkpoint.pt"


class Log:
    """Lines of JSON in `log.jsonl` of a run, also printed."""

    def __init__(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._path = out / "log.jsonl"

    def add(self, row: dict[str, Any]) -> None:
        """Write one line; numbers are rounded to four digits."""
        line = json.dumps(_rounded(row))
        print(line, flush=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def rate_at(step: int, warm_up: int, steps: int) -> float:
    """Return the share of the learning rate: a linear rise, then a linear fall to a twentieth."""
    return min(1.0, (step + 1) / warm_up) * max(0.05, 1.0 - step / steps)


def resume(
    out: Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    options: dict[str, Any],
) -> int:
    """Load the state of the run in `out` and return its step; 0 when there is none.

    Raises
    ------
    ValueError
        The run was begun with other options.
    """
    path = out / _CHECKPOINT
    if not path.is_file():
        return 0
    state = torch.load(path)
    if state["options"] != options:
        raise ValueError(
            f"the run in {str(out)!r} was begun with {state['options']}; "
            "go on with the same options, or give another folder"
        )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def save_state(
    out: Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    step: int,
    options: dict[str, Any],
) -> None:
    """Write beside and rename, so that a run that is stopped leaves its last whole state."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "options": options,
    }
    beside = out / f"{_CHECKPOINT}.new"
    torch.save(state, beside)
    beside.replace(out / _CHECKPOINT)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return value
