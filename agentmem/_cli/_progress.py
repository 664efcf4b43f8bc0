"""Shows on a terminal how far long work is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from agentmem import Progress as Done
from agentmem._cli._console import errors
from agentmem._types import ProgressCallback


@contextmanager
def progress_bar(word: str) -> Iterator[ProgressCallback]:
    """Show a bar while the block runs, moved by the callback that it gets."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    ) as progress:
        task = progress.add_task(word, total=None)

        def tell(done: Done) -> None:
            progress.update(task, completed=done.done, total=done.total)

        yield tell
