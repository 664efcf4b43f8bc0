"""`verify` on the Oracle engine finds what is wrong in the tables and mends what is derived."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from agentmem import Memory
from tests.databases import StandInStore
from tests.support import SetClock, WordEmbedder, texts


@pytest.fixture
async def memory(standin: StandInStore, clock: SetClock) -> AsyncIterator[Memory]:
    async with standin.memory(WordEmbedder(), {"clock": clock}) as opened:
        await opened.write(["tea", "milk", "sugar"])
        yield opened


def ids(standin: StandInStore) -> list[str]:
    rows = standin.server.database.execute("SELECT id FROM mem_chunks ORDER BY id").fetchall()
    return [row[0] for row in rows]


async def test_a_sound_memory_has_no_findings(memory: Memory) -> None:
    assert (await memory.verify()).findings == ()


async def test_chunks_missing_in_the_text_index(standin: StandInStore, memory: Memory) -> None:
    lost = ids(standin)[1]
    standin.server.lose_text(f"default/{lost}")
    found = (await memory.verify()).findings
    assert [(f.kind, f.subject, f.repaired) for f in found] == [("text index", lost, False)]
    repaired = (await memory.verify(repair=True)).findings
    assert [(f.kind, f.repaired) for f in repaired] == [("text index", True)]
    assert (await memory.verify()).findings == ()


@pytest.mark.parametrize(("column", "kind"), [("embedding", "vector"), ("codes", "token codes")])
async def test_what_the_model_made_is_made_again(
    standin: StandInStore, memory: Memory, column: str, kind: str
) -> None:
    before = await memory.search("tea milk")
    standin.server.database.execute(f"UPDATE mem_chunks SET {column} = NULL")
    found = (await memory.verify()).findings
    assert {(f.kind, f.repaired) for f in found} == {(kind, False)}
    assert len(found) == 3
    assert all(f.repaired for f in (await memory.verify(repair=True)).findings)
    assert (await memory.verify()).findings == ()
    assert texts(await memory.search("tea milk")) == texts(before)


def orphaned(standin: StandInStore) -> None:
    standin.server.database.execute(
        "DELETE FROM mem_documents WHERE document_id = (SELECT MIN(document_id) FROM mem_documents)"
    )


def two_heads(standin: StandInStore) -> None:
    standin.server.database.execute("UPDATE mem_documents SET is_head = 0")


def lost_chunks(standin: StandInStore) -> None:
    standin.server.database.execute("DELETE FROM mem_chunks")


def moved_scope(standin: StandInStore) -> None:
    standin.server.database.execute("UPDATE mem_chunks SET user_id = 'eve'")


FAULTS = [
    (orphaned, "chunk", "it belongs to no document"),
    (two_heads, "document", "it has not exactly one newest version"),
    (lost_chunks, "document", "its number of chunks is wrong"),
    (moved_scope, "chunk", "its scope or times differ from the document's"),
]


@pytest.mark.parametrize(("damage", "kind", "message"), FAULTS)
async def test_tables_that_disagree(
    standin: StandInStore,
    memory: Memory,
    damage: Callable[[StandInStore], None],
    kind: str,
    message: str,
) -> None:
    damage(standin)
    found = (await memory.verify(repair=True)).findings
    assert (kind, message) in {(f.kind, f.message) for f in found}
    assert not any(f.repaired for f in found)


async def test_a_changed_receipt_is_found(standin: StandInStore, memory: Memory) -> None:
    for text in ("tea", "milk"):
        hits = await memory.search(text, k=1)
        await memory.forget(hits.hits[0].document_id)
    standin.server.database.execute("UPDATE mem_receipts SET ids = '[]' WHERE chain_number = 1")
    found = (await memory.verify()).findings
    assert [(f.kind, f.subject) for f in found] == [("receipt", "1")]


async def test_the_receipt_of_a_purge_says_what_a_database_keeps(memory: Memory) -> None:
    result = await memory.forget(everything=True, purge=True)
    assert result.scan is None  # a database shows no bytes
    receipt = (await memory.receipts())[-1]
    assert receipt.action == "scan"
    assert receipt.details["found"] == []
    assert "undo and redo logs" in receipt.details["not_looked_in"]


async def test_compacting_runs_in_the_database(standin: StandInStore, memory: Memory) -> None:
    await memory.compact()
    assert any(sql.endswith("mem_upkeep.compact_text") for _, sql in standin.server.log)
    assert standin.server.checked_out == 0
