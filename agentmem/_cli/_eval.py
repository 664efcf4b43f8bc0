"""The command that measures a memory: `eval questions.jsonl`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from agentmem._cli import _output
from agentmem._cli._console import console, errors
from agentmem._cli._eval_draft import draft
from agentmem._cli._eval_settings import changed, difference
from agentmem._cli._options import AsJson, Tenant, Url, measuring, quiet, settings_for
from agentmem._cli._progress import progress_bar
from agentmem.config import Settings
from agentmem.errors import InvalidInputError

if TYPE_CHECKING:
    from agentmem.evaluation import Evaluation, Question

_RUN = "run"


class _RunByDefault(TyperGroup):
    """Takes ``eval FILE`` for ``eval run FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in front when none stands there."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    no_args_is_help=True,
    help="Measure a memory on questions whose answers are known: agentmem eval questions.jsonl",
)
app.command()(draft)


@app.command(_RUN)
def evaluate_file(
    questions: Annotated[
        Path, typer.Argument(help="One JSON object a line: query, relevant, and a scope.")
    ],
    change: Annotated[
        list[str] | None,
        typer.Option("--with", help="Compare with another setting: pool=200; several times."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with the settings in this TOML file.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="Hits of a timed search.")] = 10,
    report: Annotated[Path | None, typer.Option(help="Write a page with plots here.")] = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(help="Exit with 1 when a measure is lower: ndcg@10=0.5; several times."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 when the memory lacks a right answer.")
    ] = False,
    url: Url = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Measure quality, time and tokens of each stage on a question set.

    A line of the set is {"query": "...", "relevant": [{"key": "ferry"}, {"quote": "7:40"}]}, with
    user_id, collections, where and as_of where they matter. With --with or --against the questions
    are asked twice, and the difference is tested question by question; --fail-under and --strict
    then look at the second.
    """
    with measuring():
        from agentmem.evaluation import load_questions
        from agentmem.evaluation._tables import as_json as to_json
        from agentmem.evaluation._tables import check_bounds, missing_lines, remarks
    bounds = [_bound(text) for text in fail_under or ()]
    asked = load_questions(questions)
    named, about = _settings(url, change or (), against)
    if report is not None:
        _check_report(report)
    found = asyncio.run(_evaluated(named, tenant, asked, k))
    if report is not None:
        _write_report(report, found, questions.name, about)
    if as_json:
        _output.print_json(to_json(found, about))
    else:
        _print(found, about)
        if report is not None:
            console.print(f"written: {report}", markup=False, soft_wrap=True)
    last = list(found.values())[-1]
    missing, low = missing_lines(last), check_bounds(last, bounds)
    for line in (*missing, *remarks(last), *low):
        errors.print(line, markup=False, highlight=False, soft_wrap=True)
    if low or (strict and missing):
        raise typer.Exit(1)


def _settings(
    url: str | None, changes: Sequence[str], file: Path | None
) -> tuple[dict[str, Settings], dict[str, str]]:
    """Return the settings to measure, and what each of them is."""
    first = settings_for(url)
    named, about = {"first": first}, {"first": "the settings in force"}
    if changes or file is not None:
        named["second"] = changed(first, changes, file)
        about["second"] = difference(first, named["second"])
    return named, about


async def _evaluated(
    named: Mapping[str, Settings], tenant: str | None, asked: Sequence[Question], k: int
) -> dict[str, Evaluation]:
    from agentmem import Memory
    from agentmem.evaluation import evaluate

    found = {}
    for name, settings in named.items():
        async with Memory(quiet(settings), tenant=tenant) as memory:
            with progress_bar("asking" if len(named) == 1 else f"asking, {name}") as tell:
                found[name] = await evaluate(memory, asked, k=k, on_progress=tell)
    return found


def _bound(text: str) -> tuple[str, float]:
    from agentmem.evaluation import MEASURES

    name, _, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = -1.0
    if name not in MEASURES or not 0 <= least <= 1:
        known = ", ".join(MEASURES)
        raise InvalidInputError(
            f"--fail-under {text!r} must be MEASURE=NUMBER, with a number from 0 to 1; the "
            f"measures are {known}"
        )
    return name, least


# ------------------------------------------------------------------------- what is shown


def _check_report(path: Path) -> None:
    """Say what is wrong with a report before the questions are asked."""
    with measuring():
        from agentmem.evaluation import _report  # noqa: F401
    with _writing(path):
        path.open("a", encoding="utf-8").close()


def _write_report(
    path: Path, found: dict[str, Evaluation], source: str, about: Mapping[str, str]
) -> None:
    from agentmem.evaluation._report import html_report

    text = html_report(found, source=source, about=about)
    with _writing(path):
        path.write_text(text, encoding="utf-8")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"the report cannot be written to {str(path)!r} ({error.strerror}); name a file in a "
            "folder that is there"
        ) from error


def _print(found: dict[str, Evaluation], about: Mapping[str, str]) -> None:
    from agentmem.evaluation._tables import (
        changed_table,
        difference_table,
        quality_table,
        time_table,
        verdict,
    )

    for title, headers, rows in (
        quality_table(found),
        time_table(found),
        changed_table(found),
        difference_table(found),
    ):
        if rows:
            table = Table(title=title)
            for place, header in enumerate(headers):
                table.add_column(header, justify="right" if place else "left")
            for row in rows:
                table.add_row(*map(escape, row))
            console.print(table)
    for name, evaluation in found.items():
        line = f"{evaluation.tokens():.0f} tokens of context on average"
        line = f"{name} ({about[name]}): {line}" if len(found) > 1 else line
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if len(found) > 1:
        console.print(verdict(found), markup=False, highlight=False, soft_wrap=True)
