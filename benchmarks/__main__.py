"""Command line of the measurements: ``python -m benchmarks --help``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks._datasets import DataError, load_dataset

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Measure agentmem on this machine."
)
console = Console()

Data = Annotated[Path, typer.Option(help="Folder with corpus.jsonl and queries.jsonl.")]
Out = Annotated[Path | None, typer.Option(help="DuckDB file that keeps the raw results.")]

_RESULTS = Path("benchmarks/results/results.duckdb")


@app.callback()
def _root() -> None:
    """Measure agentmem on this machine."""


@app.command()
def quality(
    data: Data,
    limit: Annotated[int | None, typer.Option(help="Ask at most so many questions.")] = None,
    reranker: Annotated[str, typer.Option(help="late, none or a cross-encoder folder.")] = "late",
    categories: Annotated[
        str, typer.Option(help="Categories of questions to ask, separated by commas.")
    ] = "1,2,3,4",
    out: Out = _RESULTS,
) -> None:
    """Measure quality and milliseconds of each stage on an evaluation set.

    Categories matter for sets whose questions carry numbers, such as LoCoMo, where the fifth holds
    questions that have no answer.
    """
    from benchmarks._quality import run_quality

    wanted = set(categories.split(",")) if _is_numbered(data) else None
    dataset = load_dataset(data, categories=wanted, limit=limit)
    asyncio.run(run_quality(dataset, reranker=reranker, out=out, console=console))


def _is_numbered(data: Path) -> bool:
    import json

    path = data / "queries.jsonl"
    if not path.is_file():
        return False
    with path.open(encoding="utf-8") as lines:
        first = json.loads(next(lines, "{}"))
    return isinstance(first.get("category"), int)


def main() -> None:
    """Run the command line; a fault of the data is one line."""
    try:
        app()
    except DataError as error:
        console.print(f"[red]{error}[/red]")
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
