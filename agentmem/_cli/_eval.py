"""Commands that measure a memory: `eval questions.jsonl`, `eval draft`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer.core import TyperGroup

from agentmem._cli import _output
from agentmem._cli._console import console, errors
from agentmem._cli._options import AsJson, Tenant, Url, run, settings_for
from agentmem._cli._progress import progress_bar
from agentmem.config import Settings
from agentmem.errors import ConfigurationError, InvalidInputError

if TYPE_CHECKING:
    from agentmem import Memory, SearchResult
    from agentmem.evaluation import Evaluation, Logged, Question

_RUN = "run"
_SHOWN = 8


class _RunByDefault(TyperGroup):
    """Takes ``eval FILE`` for ``eval run FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in front when a file stands there."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    no_args_is_help=True,
    help="Measure a memory on questions whose answers are known: agentmem eval questions.jsonl",
)


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
        bool, typer.Option("--strict", help="Exit with 1 when a right answer is not there.")
    ] = False,
    url: Url = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Measure quality, time and tokens of each stage on a question set.

    A line of the set is {"query": "...", "relevant": [{"key": "ferry"}, {"quote": "7:40"}]}, with
    user_id, collections, where and as_of where they matter. With --with or --against the questions
    are asked twice, and the difference is tested question by question.
    """
    with _measuring():
        from agentmem.evaluation import load_questions
        from agentmem.evaluation._report import as_json as to_json
        from agentmem.evaluation._report import check_bounds, html_report, missing_lines
    bounds = [_bound(text) for text in fail_under or ()]
    asked = load_questions(questions)
    named = {"first": settings_for(url)}
    if change or against:
        named["second"] = _changed(named["first"], change or (), against)
    found = asyncio.run(_evaluated(named, tenant, asked, k))
    last = list(found.values())[-1]
    if report is not None:
        report.write_text(html_report(found, source=questions.name), encoding="utf-8")
    if as_json:
        _output.print_json(to_json(found))
    else:
        _print(found)
        if report is not None:
            console.print(f"written: {report}", soft_wrap=True)
    lines = missing_lines(last)
    for line in lines:
        errors.print(line, markup=False, highlight=False, soft_wrap=True)
    low = check_bounds(last, bounds)
    for line in low:
        errors.print(line, markup=False, highlight=False, soft_wrap=True)
    if low or (strict and lines):
        raise typer.Exit(1)


@app.command()
def draft(
    log: Annotated[Path, typer.Argument(help="The file that the setting search_log names.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Question set to add to; made when missing.")
    ] = Path("questions.jsonl"),
    accept_top: Annotated[
        int | None,
        typer.Option(min=1, max=50, help="Ask nothing: take the first hits, marked as a draft."),
    ] = None,
    most: Annotated[int | None, typer.Option(min=1, help="Stop after so many questions.")] = None,
    url: Url = None,
    tenant: Tenant = None,
) -> None:
    """Make a question set from searches that were made, most frequent first.

    Set AGENTMEM_SEARCH_LOG to a file for a while, then run this: each search is made again, and you
    say which hits are right (numbers, 's' to skip, 'q' to stop). Questions that the
    set has already are passed over, so that it can be gone on with later.
    """
    from agentmem.evaluation._draft import read_log

    logged = read_log(log)
    known = _known(out)
    fresh = [entry for entry in logged if _name(entry.query) not in known][:most]

    async def work(memory: Memory) -> int:
        written = 0
        for entry in fresh:
            result = await _again(memory, entry)
            chosen = _chosen(entry, result, accept_top)
            if chosen is None:
                break
            if chosen:
                _append(out, entry, chosen, is_draft=accept_top is not None)
                written += 1
        return written

    written = run(url, tenant, work)
    console.print(f"{written} questions added to {out}", soft_wrap=True)


# ------------------------------------------------------------------------- measuring


@contextmanager
def _measuring() -> Iterator[None]:
    """Say which extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("ir_measures", "matplotlib", "scipy"):
            raise
        raise ConfigurationError(
            "the packages for measuring are not installed; run: pip install 'agentmem[eval]'"
        ) from error


async def _evaluated(
    named: dict[str, Settings], tenant: str | None, asked: Sequence[Question], k: int
) -> dict[str, Evaluation]:
    from agentmem import Memory
    from agentmem.evaluation import evaluate

    found = {}
    for name, settings in named.items():
        async with Memory(settings, tenant=tenant) as memory:
            with progress_bar("asking" if len(named) == 1 else f"asking, {name}") as tell:
                found[name] = await evaluate(memory, asked, k=k, on_progress=tell)
    return found


def _changed(settings: Settings, changes: Sequence[str], file: Path | None) -> Settings:
    """Return settings with what a file and the options say instead."""
    import tomllib

    values = settings.model_dump(exclude_unset=True)
    if file is not None:
        try:
            values |= tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"could not read settings from {file}: {error}") from error
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign or name not in Settings.model_fields:
            raise InvalidInputError(
                f"--with {change!r} must be NAME=VALUE with the name of a setting; see "
                "'agentmem config'"
            )
        values[name] = value
    return Settings(**values)


def _bound(text: str) -> tuple[str, float]:
    with _measuring():
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


def _print(found: dict[str, Evaluation]) -> None:
    from agentmem.evaluation._report import (
        changed_table,
        difference_table,
        quality_table,
        time_table,
    )

    for title, headers, rows in (
        quality_table(found),
        difference_table(found),
        time_table(found),
        changed_table(found),
    ):
        if rows:
            table = Table(title=title)
            for place, header in enumerate(headers):
                table.add_column(header, justify="right" if place else "left")
            for row in rows:
                table.add_row(*row)
            console.print(table)
    for name, evaluation in found.items():
        console.print(f"{name}: {evaluation.tokens():.0f} tokens of context on average")


# ------------------------------------------------------------------------- drafting


def _name(query: str) -> str:
    return " ".join(query.casefold().split())


def _known(path: Path) -> set[str]:
    from agentmem.evaluation._questions import load_questions

    if not path.exists() or not path.read_text(encoding="utf-8").strip():
        return set()
    return {_name(question.query) for question in load_questions(path)}


async def _again(memory: Memory, entry: Logged) -> SearchResult:
    from agentmem._cli._input import moment

    scope = dict(entry.scope)
    as_of = moment(scope.pop("as_of", None), "as_of")
    return await memory.search(entry.query, k=_SHOWN, as_of=as_of, **scope)


def _chosen(entry: Logged, result: SearchResult, top: int | None) -> list[str] | None:
    """Return ids of the right hits, an empty list to skip, None to stop."""
    if top is not None:
        return list(dict.fromkeys(hit.document_id for hit in result.hits[:top]))
    console.rule(f"asked {entry.times} times")
    console.print(entry.query, markup=False, style="bold")
    for number, hit in enumerate(result.hits, start=1):
        console.print(f"{number}. {' '.join(hit.text.split())[:200]}", markup=False)
    while True:
        answer = typer.prompt("right hits (such as 1 3), s skip, q stop").strip().casefold()
        if answer == "q":
            return None
        if answer == "s":
            return []
        try:
            numbers = [int(part) for part in answer.replace(",", " ").split()]
            return list(dict.fromkeys(result.hits[n - 1].document_id for n in numbers if n > 0))
        except (ValueError, IndexError):
            errors.print(f"{answer!r} is not an answer; write numbers from the list")


def _append(path: Path, entry: Logged, chosen: list[str], *, is_draft: bool) -> None:
    record: dict[str, Any] = {"query": entry.query, "relevant": chosen, **entry.scope}
    if is_draft:
        record["draft"] = True
    with path.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(record, ensure_ascii=False) + "\n")
