"""Command line of the measurements: ``python -m benchmarks --help``."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks._datasets import DataError, Dataset, load_dataset
from benchmarks._stores import Store

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Measure agentmem on this machine."
)
console = Console()

Data = Annotated[Path, typer.Option(help="Folder with corpus.jsonl and queries.jsonl.")]
OptionalData = Annotated[
    Path | None,
    typer.Option(help="Folder with corpus.jsonl and queries.jsonl; the project's own texts else."),
]
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
    queries: Annotated[
        Path | None, typer.Option(help="Another file of questions than DIR/queries.jsonl.")
    ] = None,
    backend: Annotated[
        Store, typer.Option(help="embedded, standin (not Oracle; see its text) or oracle.")
    ] = Store.EMBEDDED,
    out: Out = _RESULTS,
) -> None:
    """Measure quality and milliseconds of each stage on an evaluation set.

    Categories matter for sets whose questions carry numbers, such as LoCoMo, where the fifth holds
    questions that have no answer.
    """
    from benchmarks._quality import run_quality

    wanted = set(categories.split(",")) if _is_numbered(queries or data / "queries.jsonl") else None
    dataset = load_dataset(data, questions=queries, categories=wanted, limit=limit)
    asyncio.run(run_quality(dataset, reranker=reranker, store=backend, out=out, console=console))


@app.command()
def household() -> None:
    """Ask the project's own question set and print how many are answered, by kind."""
    from agentmem import Memory
    from benchmarks._household import SetClock, ask, fill, load_questions, print_by_kind

    async def run() -> None:
        clock = SetClock()
        with tempfile.TemporaryDirectory(prefix="agentmem-") as folder:
            async with Memory(Path(folder) / "memory", clock=clock) as memory:
                references = await fill(memory, clock, console)
                answered = await ask(memory, clock, load_questions(), references)
        print_by_kind(answered, console)
        for entry in answered:
            if not entry.hit or entry.wrong:
                console.print(
                    f"{entry.question.id} {entry.question.text!r}: wanted "
                    f"{sorted(entry.question.relevant)}, got {entry.found[:5]}, wrong {entry.wrong}"
                )

    asyncio.run(run())


@app.command()
def demo() -> None:
    """Write sample memories, ask, show cited answers and stages, forget."""
    from benchmarks._demo import run_demo

    raise SystemExit(asyncio.run(run_demo(console)))


@app.command()
def scale(
    data: OptionalData = None,
    rows: Annotated[int, typer.Option(min=1, help="Documents in the memory.")] = 100_000,
    folder: Annotated[
        Path | None, typer.Option(help="Keep the memory here and use it again.")
    ] = None,
) -> None:
    """Search time on a large memory made from real texts, and open plus first search."""
    from benchmarks._scale import run_scale

    dataset = _texts(data)
    with tempfile.TemporaryDirectory(prefix="agentmem-") as temporary:
        place = folder or Path(temporary) / "memory"
        asyncio.run(run_scale(place, dataset, rows, console))


@app.command("open")
def open_(
    data: Data,
    rows: Annotated[int, typer.Option(min=1, help="Documents in the memory.")] = 5_000,
    folder: Annotated[
        Path | None, typer.Option(help="Keep the memory here and use it again.")
    ] = None,
) -> None:
    """Seconds from opening an existing memory to its first answer, in fresh processes."""
    from benchmarks._scale import run_open

    dataset = load_dataset(data)
    with tempfile.TemporaryDirectory(prefix="agentmem-") as temporary:
        place = folder or Path(temporary) / "memory"
        asyncio.run(run_open(place, dataset, rows, console))


@app.command()
def ingest(
    data: OptionalData = None,
    count: Annotated[int, typer.Option(min=1, help="Texts to write.")] = 2_000,
) -> None:
    """Throughput of writing against bare embedding of the same texts in the same run."""
    from benchmarks._scale import run_ingest

    dataset = _texts(data)
    with tempfile.TemporaryDirectory(prefix="agentmem-") as temporary:
        asyncio.run(run_ingest(Path(temporary), dataset, count, console))


@app.command()
def purge(
    data: OptionalData = None,
    rows: Annotated[int, typer.Option(min=10, help="Documents in the memory.")] = 10_000,
) -> None:
    """Seconds of a purge with its scan: one document, then half of the rest."""
    from benchmarks._purge import run_purge

    dataset = _texts(data)
    with tempfile.TemporaryDirectory(prefix="agentmem-") as temporary:
        asyncio.run(run_purge(Path(temporary) / "memory", dataset, rows, console))


@app.command("import-time")
def import_time() -> None:
    """Seconds that ``import agentmem`` takes in a fresh process."""
    program = (
        "import time; t = time.perf_counter(); import agentmem; print(time.perf_counter() - t)"
    )
    runs = [
        float(
            subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
        )
        for _ in range(7)
    ]
    console.print(f"import agentmem: median {sorted(runs)[3]:.4f} s, slowest {max(runs):.4f} s")


def _texts(data: Path | None) -> Dataset:
    """Return the set in a folder, or the project's own."""
    if data is not None:
        return load_dataset(data)
    from benchmarks._household import as_dataset

    return as_dataset()


def _is_numbered(path: Path) -> bool:
    import json

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
