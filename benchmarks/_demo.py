"""The demonstration: write, ask, see the cited answers and the stages, forget."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from agentmem import Memory, SearchResult
from benchmarks._household import Answered, SetClock, ask, fill, load_questions, print_by_kind

_CHOSEN = (
    "q070",  # a value that was corrected twice
    "q100",  # the same, as of April
    "q034",  # no word in common with the answer
    "q054",  # a code
    "q166",  # two memories that differ in one number
    "q198",  # what one user prefers
    "q199",  # the same question by the other
    "q180",  # with a filter
    "q208",  # a fact in a long note
    "q144",  # a time relative to the clock
    "q220",  # German
)


async def run_demo(console: Console) -> int:
    """Run the demonstration and return an exit code: 0 when every shown question was answered."""
    console.rule("[bold]agentmem: write, search, forget - offline, in one folder")
    clock = SetClock()
    with tempfile.TemporaryDirectory(prefix="agentmem-demo-") as folder:
        async with Memory(Path(folder) / "memory", clock=clock) as memory:
            references = await fill(memory, clock, console)
            stats = await memory.stats()
            console.print(
                f"{len(references)} memories of ten months, {stats.documents} documents, "
                f"{stats.versions} versions, {(stats.bytes or 0) / 1e6:.1f} MB on disk.\n"
            )
            answered = await ask(memory, clock, load_questions(), references)
            for entry in answered:
                if entry.question.id in _CHOSEN:
                    _show(entry, console)
            first = next(entry for entry in answered if entry.question.id == _CHOSEN[0])
            clock.now = first.question.asked_at
            again = await memory.search(first.question.text, k=10, **first.question.arguments)
            _show_stages(first.result, again, console)
            console.print(Panel(escape(str(memory.pipeline)), title="the pipeline"))
            print_by_kind(answered, console)
            await _forget(memory, console)
    shown = [entry for entry in answered if entry.question.id in _CHOSEN]
    complete = len(shown) == len(_CHOSEN)
    return 0 if complete and all(entry.hit and not entry.wrong for entry in shown) else 1


def _show(entry: Answered, console: Console) -> None:
    question = entry.question
    asked = {k: str(v) for k, v in question.arguments.items()}
    scope = ", ".join(f"{name}={value}" for name, value in asked.items())
    blocks = entry.result.context.split("\n\n")
    console.print(
        Panel(
            escape("\n\n".join(_shortened(block) for block in blocks[:2])),
            title=f"[bold]{escape(question.text)}[/bold]",
            subtitle=escape(f"{question.kind}: {scope}"),
            title_align="left",
            subtitle_align="left",
        )
    )
    mark = "[green]found[/green]" if entry.hit else "[red]not found[/red]"
    console.print(f"  wanted: {escape(question.answer)} - {mark}\n")


def _shortened(block: str) -> str:
    """Return a block with the middle left out when it is long."""
    return block if len(block) <= 500 else f"{block[:200]} [...] {block[-250:]}"


def _show_stages(first: SearchResult, again: SearchResult, console: Console) -> None:
    """Show what each stage did; the first search also loads what is loaded on first use."""
    table = Table(title=f"what each stage did for {first.plan.query!r}")
    for header in ("stage", "runs in", "first ms", "again ms", "in", "out", "details"):
        numbers = header not in ("stage", "runs in", "details")
        table.add_column(header, justify="right" if numbers else "left")
    for cold, warm in zip(first.trace.stages, again.trace.stages, strict=True):
        table.add_row(
            warm.name,
            warm.runs,
            f"{cold.milliseconds:.1f}",
            f"{warm.milliseconds:.1f}",
            "" if warm.count_in is None else str(warm.count_in),
            "" if warm.count_out is None else str(warm.count_out),
            ", ".join(f"{name}={value}" for name, value in warm.details.items()),
        )
    table.add_section()
    table.add_row(
        "all six", "", f"{first.trace.milliseconds:.1f}", f"{again.trace.milliseconds:.1f}"
    )
    console.print(table)


async def _forget(memory: Memory, console: Console) -> None:
    question = "What happened with my knee?"
    before = await memory.search(question, user_id="jonas", k=3)
    console.print(Panel(escape(before.context), title="before: Jonas asks about his knee"))
    receipt = await memory.forget(user_id="jonas", where={"kind": "health"}, purge=True)
    table = Table(title=f"purged at {receipt.at.isoformat(timespec='seconds')}")
    for header in ("document", "user", "collection", "versions", "chunks"):
        table.add_column(header)
    for d in receipt.documents:
        table.add_row(d.id, d.user_id, d.collection, str(d.versions), str(d.chunks))
    console.print(table)
    if receipt.scan is not None:
        console.print(
            f"Searched {receipt.scan.bytes:,} bytes in {receipt.scan.files} files for "
            f"{receipt.scan.fingerprints} pieces of it: "
            f"{', '.join(receipt.scan.found) or 'found nothing'}.\n"
        )
    after = await memory.search(question, user_id="jonas", k=3)
    gone = {d.id for d in receipt.documents}
    assert not gone & {hit.document_id for hit in after.hits}
    left = after.context or "(nothing)"
    console.print(Panel(escape(left), title="after: the notes on his health are gone"))
