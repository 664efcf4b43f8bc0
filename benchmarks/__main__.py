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
from rich.markup import escape
from rich.table import Table

from benchmarks._check import print_check, rows_of
from benchmarks._datasets import DataError
from benchmarks._report import write_report
from benchmarks._results import Results
from benchmarks._runner import Place, run_suite
from benchmarks._suite import load_suite, suite_names

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Measure agentmem, its stages and other systems on this machine.",
)
console = Console()

SuiteName = Annotated[str, typer.Argument(help="Name of a suite, or a TOML file; see 'suites'.")]
Data = Annotated[
    Path | None,
    typer.Option(
        envvar="AGENTMEM_BENCHMARK_DATA",
        help="Folder with a folder for each data set; cases whose set is missing are left out.",
    ),
]
Out = Annotated[Path, typer.Option(help="DuckDB file that keeps the raw results.")]

_RESULTS = Path("benchmarks/results/results.duckdb")


@app.callback()
def _root() -> None:
    """Measure agentmem, its stages and other systems on this machine."""


@app.command()
def suites() -> None:
    """List the suites with what they measure."""
    table = Table()
    for header in ("suite", "cases", "what it measures"):
        table.add_column(header)
    for name in suite_names():
        suite = load_suite(name)
        table.add_row(name, str(len(suite.case)), escape(f"{suite.title}. {suite.about}"))
    console.print(table)


@app.command()
def run(
    suite: SuiteName,
    case: Annotated[list[str] | None, typer.Option(help="Only this case; several times.")] = None,
    data: Data = None,
    out: Out = _RESULTS,
    temporary: Annotated[
        Path | None, typer.Option(help="Where stores are made; the system's place else.")
    ] = None,
) -> None:
    """Run a suite, keep the raw results and compare them with what is expected.

    Exits with 1 when a measure fails, also when a case could not be run.
    """
    loaded = load_suite(suite)
    unknown = set(case or ()) - {entry.id for entry in loaded.case}
    if unknown:
        raise DataError(f"{suite} has no case {min(unknown)!r}")
    results = Results(out)
    try:
        place = Place(data, temporary)
        name = run_suite(suite, loaded, results, place, console, only=tuple(case or ()))
        failed = _checked(results, name)
    finally:
        results.close()
    console.print(f"raw results: {out}")
    if failed:
        raise typer.Exit(1)


@app.command()
def check(suite: SuiteName, out: Out = _RESULTS) -> None:
    """Compare the last run of a suite with what is expected; exits with 1 when a measure fails."""
    results = Results(out)
    try:
        failed = _checked(results, _last(results, suite))
    finally:
        results.close()
    if failed:
        raise typer.Exit(1)


@app.command()
def report(
    suite: Annotated[list[str], typer.Argument(help="Suites whose last runs are shown.")],
    html: Annotated[Path | None, typer.Option(help="Write a page with plots here.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write tables as Markdown here.")] = None,
    out: Out = _RESULTS,
) -> None:
    """Show the last runs of suites as a page with plots, or as Markdown."""
    if html is None and markdown is None:
        html = out.with_name("report.html")
    results = Results(out)
    try:
        runs = [_last(results, name) for name in suite]
        for path in write_report(results, runs, html=html, markdown=markdown):
            console.print(f"written: {path}")
    finally:
        results.close()


@app.command()
def household() -> None:
    """Ask the project's own question set and print how many are answered, by kind."""
    from agentmem import Memory
    from benchmarks._household import SetClock, ask, fill, load_questions, print_by_kind

    async def ask_all() -> None:
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

    asyncio.run(ask_all())


@app.command()
def demo() -> None:
    """Write sample memories, ask, show cited answers and stages, forget."""
    from benchmarks._demo import run_demo

    raise SystemExit(asyncio.run(run_demo(console)))


@app.command()
def purge(
    data: Data = None,
    rows: Annotated[int, typer.Option(min=10, help="Documents in the memory.")] = 10_000,
) -> None:
    """Seconds of a purge with its scan: one document, then half of the rest."""
    from benchmarks._purge import run_purge

    with tempfile.TemporaryDirectory(prefix="agentmem-") as temporary:
        asyncio.run(run_purge(Path(temporary) / "memory", data, rows, console))


@app.command()
def gap(
    trials: Annotated[int, typer.Option(min=1, help="Documents of each kind.")] = 50,
) -> None:
    """Show what three stores return although it was forgotten on the way; one store does not.

    Needs agentmem[peers]: PostgreSQL and Chroma run as servers on this machine.
    """
    from benchmarks.systems import find_system

    find_system("polyglot")  # says which package is missing
    from benchmarks._gap import run_gap

    asyncio.run(run_gap(trials, console))


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


def _last(results: Results, suite: str) -> str:
    found = results.last_run(suite)
    if found is None:
        raise DataError(f"{suite!r} was not run yet; run: python -m benchmarks run {suite}")
    return found


def _checked(results: Results, name: str) -> bool:
    """Print how a run compares; return whether anything failed."""
    rows = rows_of(results, name)
    errors = {case.id: error for case, error in results.cases(name) if error is not None}
    print_check(rows, errors, console)
    return any(row.verdict == "FAIL" for row in rows) or bool(errors)


def main() -> None:
    """Run the command line; a fault of the data is one line."""
    try:
        app()
    except DataError as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
