"""Shows what may be returned although it was forgotten: three stores against one.

In each trial one document, the best answer to the question, is forgotten or given to another user
while the question is on its way: after the first hop, and acknowledged before the next. A search
that still returns it has shown somebody what was no longer theirs to see. Then a deletion is cut
short after the first of the stores, and each store is asked whether it still holds the document.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from agentmem import Document, Memory
from agentmem.models.onnx_embedder import OnnxEmbedder
from benchmarks._household import as_dataset
from benchmarks.systems.base import Question
from benchmarks.systems.polyglot import Polyglot

_K = 10
_OWNER, _OTHER = "ada", "bob"
_KINDS = ("forgotten on the way", "moved on the way", "left behind by a crash")
Shown = dict[str, int]


class Subject(ABC):
    """A system in which something happens while a question is on its way."""

    between: Callable[[], Awaitable[None]] | None = None

    @abstractmethod
    async def ask(self, text: str) -> list[str]:
        """Return the keys that are shown to the owner."""

    @abstractmethod
    async def forget(self, key: str) -> None:
        """Forget a document, acknowledged when it returns."""

    @abstractmethod
    async def move(self, key: str, text: str) -> None:
        """Give a document to another user."""

    @abstractmethod
    async def crash(self, key: str) -> bool:
        """Cut a deletion short and return whether the document is left anywhere."""


class ThreeStores(Subject):
    """PostgreSQL, Chroma, and words in a second database."""

    def __init__(self, system: Polyglot) -> None:
        self._system = system

    async def ask(self, text: str) -> list[str]:
        """Ask all three."""
        self._system.between = self.between
        return (await self._system.search(Question(text, "default", _OWNER), _K)).keys

    async def forget(self, key: str) -> None:
        """Delete it where the truth is; the other stores follow later, as with an outbox."""
        self._system.forget(key, stores=1)

    async def move(self, key: str, text: str) -> None:
        """Change the owner in PostgreSQL."""
        self._system.move(key, _OTHER)

    async def crash(self, key: str) -> bool:
        """Delete from the first store and look into the others."""
        self._system.forget(key, stores=1)
        return self._system.is_left(key)


class OneStore(Subject):
    """A memory; the first hop is the understanding of the question."""

    def __init__(self, folder: Path, model: OnnxEmbedder) -> None:
        self.memory = Memory(folder, embedder=model, understand=self._understand)

    async def _understand(self, plan: object, request: object) -> None:
        if self.between is not None:
            await self.between()

    async def ask(self, text: str) -> list[str]:
        """Search."""
        found = await self.memory.search(text, user_id=_OWNER, k=_K)
        return [hit.key or "" for hit in found.hits]

    async def forget(self, key: str) -> None:
        """Forget it."""
        await self.memory.forget(key=key, user_id=_OWNER)

    async def move(self, key: str, text: str) -> None:
        """Forget it for the one and write it for the other."""
        await self.memory.write(text, key=key, user_id=_OTHER)
        await self.memory.forget(key=key, user_id=_OWNER)

    async def crash(self, key: str) -> bool:
        """Forget; there is one transaction, so there is no half of it."""
        await self.memory.forget(key=key, user_id=_OWNER, purge=True)
        return bool(await self.memory.history(key, user_id=_OWNER))


async def run_gap(trials: int, console: Console) -> dict[str, Shown]:
    """Run the trials on each system; print and return how often the document was shown."""
    texts = [document.content for document in as_dataset().documents]
    documents = [Document(t, key=str(n), user_id=_OWNER) for n, t in enumerate(texts)]
    trials = min(trials, len(documents) // len(_KINDS))
    model = OnnxEmbedder()
    found: dict[str, Shown] = {}
    with tempfile.TemporaryDirectory(prefix="agentmem-") as folder:
        for name, last_look in (("three stores", False), ("three stores, last look", True)):
            place = Path(folder) / str(last_look)
            place.mkdir()
            system = Polyglot(place, model, {"last_look": last_look})
            await system.open()
            try:
                await system.write(documents)
                found[name] = await _tried(ThreeStores(system), documents, trials, name, console)
            finally:
                await system.close()
        subject = OneStore(Path(folder) / "memory", model)
        async with subject.memory as memory:
            await memory.write(documents)
            found["agentmem"] = await _tried(subject, documents, trials, "agentmem", console)
    await model.close()
    _print(found, trials, console)
    return found


async def _tried(
    subject: Subject, documents: list[Document], trials: int, name: str, console: Console
) -> Shown:
    """Return how often a document was shown or left, of each kind, each with its own documents."""
    shown = dict.fromkeys(_KINDS, 0)
    for trial in track(range(trials), name, console=console):
        forgotten, moved, half = documents[len(_KINDS) * trial :][: len(_KINDS)]
        for document, kind in ((forgotten, _KINDS[0]), (moved, _KINDS[1])):
            key, text = document.key or "", document.content
            if key not in await subject.ask(text):
                raise RuntimeError(f"{name} does not find document {key} before the trial")

            async def happen(key: str = key, text: str = text, kind: str = kind) -> None:
                subject.between = None
                await (subject.forget(key) if kind == _KINDS[0] else subject.move(key, text))

            subject.between = happen
            shown[kind] += key in await subject.ask(text)
        shown[_KINDS[2]] += await subject.crash(half.key or "")
    return shown


def _print(found: dict[str, Shown], trials: int, console: Console) -> None:
    table = Table(title=f"documents shown or left, of {trials} each")
    table.add_column("system")
    for kind in _KINDS:
        table.add_column(kind, justify="right")
    for name, shown in found.items():
        table.add_row(name, *(str(shown[kind]) for kind in _KINDS))
    console.print(table)
    console.print(
        "A last look asks PostgreSQL once more before hits are returned: it closes the gap for "
        "what is shown, costs a hop, and leaves what a crash left in the other stores."
    )
