"""A scripted life of a memory, and what must be true at each point of it.

`STEPS` are run in order; each is acknowledged when it returns. After a fault the store must be in
the state of the last acknowledged step or of the one after it, whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from agentmem import Document, Memory
from tests.older_store import downgrade
from tests.support import WordEmbedder

State = dict[str, str]


@dataclass(frozen=True)
class Step:
    """One call, and the live documents by key after it."""

    name: str
    call: Callable[[Memory], Awaitable[object]]
    after: State


A1, A2 = "alpha heron one", "alpha heron two"
B, C, D = "beta owl", "gamma pike", "delta wren"

STEPS = [
    Step("write", lambda m: m.write(A1, key="a"), {"a": A1}),
    Step(
        "batch",
        lambda m: m.write([Document(B, key="b"), Document(C, key="c")]),
        {"a": A1, "b": B, "c": C},
    ),
    Step("search", lambda m: m.search("heron"), {"a": A1, "b": B, "c": C}),
    Step("rewrite", lambda m: m.write(A2, key="a"), {"a": A2, "b": B, "c": C}),
    Step("forget", lambda m: m.forget(key="c"), {"a": A2, "b": B}),
    Step("search again", lambda m: m.search("owl"), {"a": A2, "b": B}),
    Step("restore", lambda m: _restore(m), {"a": A2, "b": B, "c": C}),
    Step("purge", lambda m: m.forget(key="b", purge=True), {"a": A2, "c": C}),
    Step("write more", lambda m: m.write(D, key="d"), {"a": A2, "c": C, "d": D}),
    Step("compact", lambda m: m.compact(), {"a": A2, "c": C, "d": D}),
    Step("verify", lambda m: m.verify(repair=True), {"a": A2, "c": C, "d": D}),
]
STATES: list[State] = [{}, *(step.after for step in STEPS)]


@dataclass(frozen=True)
class History:
    """A life that is lived with faults: how the folder looks before, and what is done then."""

    prepare: Callable[[Path], Awaitable[None]]
    steps: list[Step]
    states: list[State]
    open: Callable[[Memory], Awaitable[None]] = Memory.open


async def _nothing(folder: Path) -> None:
    """Start without a folder."""


async def _old_schema(folder: Path) -> None:
    """Start with a memory whose schema and codes are of the first version."""
    async with make(folder) as memory:
        await memory.write([Document(A1, key="a"), Document(B, key="b")])
    downgrade(folder, 1)


async def _damaged(folder: Path) -> None:
    """Start with a memory that lacks vectors, token codes and the text index."""
    async with make(folder) as memory:
        await memory.write([Document(A1, key="a"), Document(B, key="b")])
        await memory.search("heron")
    with apsw.Connection(str(folder / "memory.db")) as connection:
        connection.execute("DELETE FROM vectors; DELETE FROM codes")
    connection.close()
    shutil.rmtree(folder / "text")


async def _of_former_model(folder: Path) -> None:
    """Start with a memory that another model has embedded."""
    async with former(folder) as memory:
        await memory.write([Document(A1, key="a"), Document(B, key="b")])
        await memory.write(A2, key="a")
        await memory.search("heron")


async def _exported(folder: Path) -> None:
    """Start without a folder, beside a file to be imported."""
    source = _file(folder)
    if not source.exists():
        async with make(folder.with_name("source")) as memory:
            await memory.write([Document(A1, key="a"), Document(B, key="b")])
            await memory.export(source)


def _file(folder: Path) -> Path:
    return folder.with_name("source.parquet")


def _import(memory: Memory) -> Awaitable[object]:
    return memory.import_(_file(Path(memory._settings.url)))


_REPAIRED = {"a": A1, "b": B}
HISTORIES = {
    "life": History(_nothing, STEPS, STATES),
    "migration": History(_old_schema, [], [_REPAIRED]),
    "repair": History(
        _damaged,
        [Step("repair", lambda m: m.verify(repair=True), _REPAIRED)],
        [_REPAIRED, _REPAIRED],
    ),
    "reembed": History(
        _of_former_model, [], [{"a": A2, "b": B}], lambda memory: memory.open(reembed=True)
    ),
    "import": History(_exported, [Step("import", _import, _REPAIRED)], [{}, _REPAIRED]),
}


def make(folder: Path) -> Memory:
    """Return the memory of the history."""
    return Memory(folder, embedder=WordEmbedder())


def former(folder: Path) -> Memory:
    """Return the memory of the history with the model that it had before the change."""
    return Memory(folder, embedder=WordEmbedder("former"))


async def _restore(memory: Memory) -> object:
    """Bring the one forgotten document back, whose id only the store knows."""
    from agentmem.backends.base import Owner, Selection

    backend = memory._open_parts().backend
    rows = await backend.read(
        Selection(tenant="default", owner=Owner("every"), now=0, deleted=True, expired=True)
    )
    return await memory.restore([row.document_id for row in rows])


async def check(memory: Memory, history: History, acknowledged: int) -> None:
    """Compare an open memory with the state that it must have after `acknowledged` steps.

    Raises
    ------
    AssertionError
        Something acknowledged is lost, something is half there, or the next write fails.
    """
    found = {d.key or "": d.content for d in (await memory.list()).documents}
    found.pop("probe", None)
    allowed = history.states[acknowledged : acknowledged + 2]
    assert found in allowed, f"{found} after {acknowledged} steps; allowed are {allowed}"
    for key, text in found.items():
        versions = await memory.history(key)
        assert versions[-1].content == text
        near = await memory.search(text, k=1)
        assert near.hits[0].text == text, f"{text!r} is not found by meaning"
        word = text.split()[-1]
        listed = (await memory.search(word, explain=True)).trace.explanations or ()
        by_word = {e.text for e in listed if e.scores.lexical_rank is not None}
        assert text in by_word, f"{text!r} is not found by its word {word!r}"
    everything = await memory.search("heron owl pike wren", k=20)
    assert sorted(h.text for h in everything.hits if h.key != "probe") == sorted(found.values())
    verified = await memory.verify()
    assert verified.findings == (), verified.findings
    await memory.write("omega probe", key="probe")
    assert (await memory.search("probe omega", k=1)).hits[0].text == "omega probe"
    await memory.forget(key="probe", purge=True)
