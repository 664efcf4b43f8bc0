"""The command that makes a question set from logged searches: `eval draft`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentmem._cli._console import console, errors
from agentmem._cli._input import moment
from agentmem._cli._options import Tenant, Url, measuring, run, settings_for
from agentmem.errors import InvalidInputError

if TYPE_CHECKING:
    from agentmem import Memory, SearchResult
    from agentmem.evaluation import Logged, Question

_SHOWN = 8
_Chosen = list[str | dict[str, str]]


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
    say which hits are right: their numbers, 'n' when none is (then you can quote the right answer),
    's' to skip, 'q' to stop. Questions that the set has already are passed over, so that it can be
    gone on with later.
    """
    with measuring():
        from agentmem.evaluation._draft import not_in, question_line, read_log

    logged = read_log(log, tenant=tenant or settings_for(url).tenant)
    fresh = not_in(logged, _known(out))[:most]

    async def work(memory: Memory) -> int:
        written = 0
        for entry in fresh:
            result = await _again(memory, entry)
            chosen = _asked(entry, result) if accept_top is None else _top(result, accept_top)
            if chosen == "stop":
                break
            if chosen != "skip":
                _append(out, question_line(entry, chosen, draft=accept_top is not None))
                written += 1
        return written

    written = run(url, tenant, work, logged=False)
    console.print(f"{written} questions added to {out}", markup=False, soft_wrap=True)


def _known(path: Path) -> list[Question]:
    from agentmem.evaluation import load_questions

    try:
        empty = not path.exists() or path.stat().st_size == 0
    except OSError as error:
        raise InvalidInputError(f"could not look at {str(path)!r}: {error.strerror}") from error
    return [] if empty else load_questions(path)


async def _again(memory: Memory, entry: Logged) -> SearchResult:
    scope: dict[str, Any] = dict(entry.scope)
    as_of = moment(scope.pop("as_of", None), "as_of")
    return await memory.search(entry.query, k=_SHOWN, as_of=as_of, **scope)


def _top(result: SearchResult, most: int) -> _Chosen | Literal["skip"]:
    return list(dict.fromkeys(hit.document_id for hit in result.hits[:most])) or "skip"


def _asked(entry: Logged, result: SearchResult) -> _Chosen | Literal["skip", "stop"]:
    """Return the right answers, an empty list when the memory has none, or what to do instead."""
    console.rule(f"asked {entry.times} times")
    console.print(entry.query, markup=False, style="bold")
    for number, hit in enumerate(result.hits, start=1):
        console.print(f"{number}. {' '.join(hit.text.split())[:200]}", markup=False)
    while True:
        answer = typer.prompt("right hits (such as 1 3), n none, s skip, q stop").strip().casefold()
        if answer == "q":
            return "stop"
        if answer == "s":
            return "skip"
        if answer == "n":
            return _quoted()
        numbers = answer.replace(",", " ").split()
        if numbers and all(n.isdecimal() and 1 <= int(n) <= len(result.hits) for n in numbers):
            return list(dict.fromkeys(result.hits[int(n) - 1].document_id for n in numbers))
        errors.print(f"{answer!r} is not an answer; write numbers from the list", markup=False)


def _quoted() -> _Chosen:
    """Ask for the answer that was not found: such questions are worth the most."""
    quote = typer.prompt(
        "words that the right text holds (nothing when the memory has no answer)",
        default="",
        show_default=False,
    ).strip()
    return [{"quote": quote}] if quote else []


def _append(path: Path, line: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as lines:
            lines.write(line)
    except OSError as error:
        raise InvalidInputError(
            f"the question cannot be added to {str(path)!r}: {error.strerror}"
        ) from error
