"""The commands of the training: `python -m agentmem.models.training --help`."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from agentmem.models.training._cross import CrossOptions, load_cross, train_cross
from agentmem.models.training._encoder import TwoHeads, load_encoder, load_tokenizer
from agentmem.models.training._export import between, export_cross, export_embedder, shortened
from agentmem.models.training._judge import judge_all, judges, means
from agentmem.models.training._mining import mine, save
from agentmem.models.training._records import FOREIGN, read, split
from agentmem.models.training._run import Log
from agentmem.models.training._train import Options, train

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Train the shipped models.")

Base = Annotated[Path, typer.Option(help="folder with the published fp32 weights")]
Data = Annotated[Path, typer.Option(help="folder with the training sets, <source>.jsonl.gz")]
Mined = Annotated[Path, typer.Option(help="folder with what `mine` wrote")]
Run = Annotated[Path, typer.Option(help="folder of the run; one that was stopped goes on")]
Out = Annotated[Path, typer.Option(help="folder to write")]
Seed = Annotated[int, typer.Option(help="the same seed gives the same run")]


@app.command("mine")
def mine_command(data: Data, out: Out, seed: Seed = Options.seed) -> None:
    """Find hard negatives for each set; sets that are there already are left as they are."""
    out.mkdir(parents=True, exist_ok=True)
    sources = {name: rows for name, rows in read(data).items() if name not in FOREIGN}
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        for name, rows in sources.items():
            path = out / f"{name}.jsonl.gz"
            if path.exists():
                continue
            task = bar.add_task(name, total=None)
            progress = partial(bar.advance, task)
            mined = asyncio.run(mine(split(rows)[0], seed, progress))
            save(mined, path)


@app.command("train")
def train_command(
    base: Base,
    data: Data,
    run: Run,
    mined: Mined,
    steps: int = Options.steps,
    size: int = Options.size,
    rate: float = Options.rate,
    seed: Seed = Options.seed,
) -> None:
    """Train the embedder: sentence vectors and token vectors from one pass."""
    train(base, read(data), read(mined), run, Options(steps=steps, size=size, rate=rate, seed=seed))


@app.command("shares")
def shares_command(
    base: Base,
    data: Data,
    run: Run,
    state: Annotated[str, typer.Option(help="step-N.pt")],
    seed: Seed = Options.seed,
) -> None:
    """Judge points between the published and the trained weights, to choose the one to export."""
    tokenizer, weights = load_tokenizer(base), torch.load(run / "weights.pt")
    held_out, log = judges(read(data), seed), Log(run)
    for share in (0.0, 0.6, 0.8, 1.0):
        model = _load(base, run, state, share)
        found = judge_all(model, tokenizer, weights, held_out)
        log.add({"state": state, "share": share, **means(found), "sets": found})


@app.command("export")
def export_command(
    base: Base,
    run: Run,
    out: Out,
    state: Annotated[str, typer.Option(help="step-N.pt")],
    name: Annotated[str, typer.Option(help="name of the model")],
    share: Annotated[float, typer.Option(help="how far from the published weights")] = 1.0,
    dimensions: Annotated[int, typer.Option(help="of a token vector")] = 128,
) -> None:
    """Write the embedder with 8-bit weights."""
    weights = torch.load(run / "weights.pt").numpy()
    model = shortened(_load(base, run, state, share), dimensions)
    export_embedder(model, weights, load_tokenizer(base), out, name)


@app.command("cross")
def cross_command(
    base: Base,
    data: Data,
    run: Run,
    mined: Mined,
    encoder: Annotated[Path, typer.Option(help="the embedder's step-N.pt, to start from")],
    steps: int = CrossOptions.steps,
    layers: int = CrossOptions.layers,
    rate: float = CrossOptions.rate,
    seed: Seed = CrossOptions.seed,
) -> None:
    """Train the cross-encoder: one score for a question with a text."""
    options = CrossOptions(layers=layers, steps=steps, rate=rate, seed=seed)
    train_cross(base, encoder, read(mined), read(data), run, options)


@app.command("export-cross")
def export_cross_command(
    base: Base,
    run: Run,
    out: Out,
    state: Annotated[str, typer.Option(help="step-N.pt")],
    name: Annotated[str, typer.Option(help="name of the model")],
    layers: int = CrossOptions.layers,
) -> None:
    """Write the cross-encoder with 8-bit weights."""
    export_cross(load_cross(base, run / state, layers), load_tokenizer(base), out, name)


def _load(base: Path, run: Path, state: str, share: float) -> TwoHeads:
    models = []
    for name in ("step-0.pt", state):
        weights = torch.load(run / name)
        model = TwoHeads(load_encoder(base), weights["projection"])
        model.load_state_dict(weights)
        models.append(model)
    return between(models[0], models[1], share)


if __name__ == "__main__":
    app()
