"""What only the embedded engine has: its folder, its index, its matrix, other processes."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

from agentmem import (
    ConfigurationError,
    Document,
    F,
    Memory,
    ModelMismatchError,
    Settings,
    StoreAccessError,
    StoreCorruptError,
    StoreError,
    StoreVersionError,
)
from agentmem.backends.embedded import EmbeddedBackend, _connection, _proof
from agentmem.backends.embedded._resident import Resident
from agentmem.backends.embedded._schema import SCHEMA_VERSION, counter
from tests.older_store import downgrade, former_code, token_vectors
from tests.support import SetClock, WordEmbedder, texts


def open_at(folder: Path, **arguments: Any) -> Memory:
    arguments.setdefault("embedder", WordEmbedder())
    return Memory(folder, **arguments)


def word(number: int) -> str:
    """Return a word for a number, of letters only."""
    return "x" + "".join(chr(ord("a") + int(digit)) for digit in str(number))


@pytest.fixture
async def filled(tmp_path: Path) -> Path:
    """Return the folder of a memory with 300 rows."""
    folder = tmp_path / "filled"
    async with open_at(folder) as memory:
        rows = [f"tide {word(n)}" for n in range(300)]
        await memory.write(rows, metadata={"half": 1})
        await memory.search("tide")
    return folder


async def test_case_37_another_model_is_refused_by_both_names(tmp_path: Path) -> None:
    async with open_at(tmp_path / "empty", embedder=WordEmbedder("first")):
        pass
    async with open_at(tmp_path / "full", embedder=WordEmbedder("first")) as memory:
        await memory.write("tide")
    for folder in ("empty", "full"):
        with pytest.raises(ModelMismatchError, match=r"'first'.*'second'"):
            await open_at(tmp_path / folder, embedder=WordEmbedder("second")).open()

    class Longer(WordEmbedder):
        dimensions = 128

    with pytest.raises(ModelMismatchError, match=r"64 dimensions.*128 dimensions"):
        await open_at(tmp_path / "full", embedder=Longer("first")).open()
    async with open_at(tmp_path / "full", embedder=WordEmbedder("first")) as memory:
        assert texts(await memory.search("tide")) == ["tide"]


async def test_case_38_without_sqlite_vec_the_result_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = str(tmp_path / "missing")
    monkeypatch.setattr(_connection, "vector_extension", lambda: missing)
    async with open_at(tmp_path / "m") as memory:
        await memory.write("tide")
        result = await memory.search("tide")
        assert texts(result) == ["tide"]
        assert "sqlite-vec" in result.degraded[0]
        assert "sqlite-vec" in (await memory.stats()).degraded[0]


async def test_vectors_on_disk_give_the_same_result(filled: Path) -> None:
    found = []
    for megabytes in (1024, 0):
        settings = Settings(url=str(filled), vector_memory_mb=megabytes)
        async with Memory(settings, embedder=WordEmbedder()) as memory:
            for where in (None, F("half") == 1):
                result = await memory.search(f"tide {word(7)} {word(11)}", k=20, where=where)
                found.append(result.hits)
    for hits in found[1:]:
        assert [hit.id for hit in hits] == [hit.id for hit in found[0]]
        for one, other in zip(hits, found[0], strict=True):
            assert one.score == pytest.approx(other.score, abs=2e-6)


@pytest.mark.parametrize("megabytes", [1024, 0])
@pytest.mark.parametrize("nearest", [True, False])
async def test_damaged_vectors_are_an_error_of_ours_and_can_be_repaired(
    filled: Path, megabytes: int, nearest: bool
) -> None:
    """Also where only words have found the chunk, and its similarity is looked up afterwards."""
    database = apsw.Connection(str(filled / "memory.db"))
    hurt = "chunk_row = 7" if nearest else "chunk_row > 0"
    database.execute(f"UPDATE vectors SET embedding = zeroblob(12) WHERE {hurt}")
    database.close()
    settings = Settings(url=str(filled), vector_memory_mb=megabytes)
    async with Memory(settings, embedder=WordEmbedder()) as memory:
        with pytest.raises(StoreError, match="verify"):
            await memory.search(f"tide {word(7)}")
        assert (await memory.verify(repair=True)).findings
        found = await memory.search(f"tide {word(6)}", k=1)
        assert texts(found) == [f"tide {word(6)}"]


async def test_a_large_memory_loads_its_vectors_behind_the_first_searches(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.backends.embedded._resident._LOADED_AT_ONCE", 10)
    async with open_at(filled) as memory:
        resident = memory._open_parts().backend._resident  # type: ignore[attr-defined]
        expected = [hit.id for hit in (await memory.search(f"tide {word(7)}", k=20)).hits]
        for turn in range(200):
            await memory.write(f"owl {turn}", key="changing")
            if resident._snapshot.matrix is not None:
                break
            await asyncio.sleep(0.01)
        assert [hit.id for hit in (await memory.search(f"tide {word(7)}", k=20)).hits] == expected
        assert resident._snapshot.matrix is not None
        assert texts(await memory.search(f"owl {turn}", k=1)) == [f"owl {turn}"]


async def test_vectors_come_back_after_compacting(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.backends.embedded._resident._LOADED_AT_ONCE", 10)
    async with open_at(filled) as memory:
        resident = memory._open_parts().backend._resident  # type: ignore[attr-defined]

        async def search_until_loaded() -> None:
            for _ in range(200):
                assert texts(await memory.search(f"tide {word(7)}", k=1)) == [f"tide {word(7)}"]
                if resident._snapshot.matrix is not None:
                    return
                await asyncio.sleep(0.01)
            pytest.fail("the vectors were not loaded")

        await search_until_loaded()
        await memory.compact()
        await memory.search("tide")
        assert resident._snapshot.matrix is None
        await search_until_loaded()


async def test_a_purge_empties_the_page_cache(filled: Path) -> None:
    async with open_at(filled) as memory:
        database = memory._open_parts().backend._database  # type: ignore[attr-defined]
        await memory.write([f"owl {word(n)} " + "old " * 500 for n in range(50)])

        def cached() -> int:
            """Return the bytes of pages that the connections hold."""
            kind = apsw.SQLITE_DBSTATUS_CACHE_USED
            return sum(connection.status(kind)[0] for connection in database._connections)

        before = cached()
        await memory.forget(everything=True, purge=True)
        assert before > 400_000
        assert cached() < 200_000


async def test_purged_rows_leave_the_matrix(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_at(filled) as memory:
        owls = await memory.write([Document(f"owl {word(n)}") for n in range(20)])
        await memory.forget(owls.ids[3])
        backend = memory._open_parts().backend
        assert isinstance(backend, EmbeddedBackend)
        connection = apsw.Connection(str(filled / "memory.db"))
        late = Resident(backend._model, 1 << 20)
        monkeypatch.setattr("agentmem.backends.embedded._resident._LOADED_AT_ONCE", 10)
        late.load_vectors(connection)
        for number in (5, 6, 19):
            await memory.forget(owls.ids[number], purge=True)
            assert texts(await memory.search(f"owl {word(7)}", k=1)) == [f"owl {word(7)}"]
        await memory.write(f"owl {word(21)}")
        await memory.restore(owls.ids[3])
        await memory.search("owl")
        monkeypatch.undo()
        anew = Resident(backend._model, 1 << 20).snapshot(connection)
        assert anew.rows == 318
        assert anew.matrix is not None
        for held in (backend._resident._snapshot, late.snapshot(connection)):
            assert held is not None
            assert held.matrix is not None
            assert held.ids[: held.rows] == anew.ids
            assert (held.column("chunk_row") == anew.column("chunk_row")).all()
            every = np.arange(anew.rows)
            assert (held.matrix.steps(every) == anew.matrix.steps(every)).all()
        connection.close()


@pytest.mark.parametrize("damage", ["deleted", "no state", "no meta", "state ahead", "garbage"])
async def test_a_damaged_text_index_is_made_anew(filled: Path, damage: str) -> None:
    index = filled / "text" / "1"
    if damage == "deleted":
        shutil.rmtree(filled / "text")
    elif damage == "no state":
        (index / "agentmem.json").unlink()
    elif damage == "no meta":
        (index / "meta.json").unlink()
    elif damage == "state ahead":
        state = json.loads((index / "agentmem.json").read_text())
        (index / "agentmem.json").write_text(json.dumps({**state, "opstamp": 10**9}))
    else:
        (index / "meta.json").write_bytes(b"\0garbage")
    async with open_at(filled) as memory:
        result = await memory.search(word(123), explain=True)
        assert [e.text for e in result.trace.explanations or () if e.scores.lexical_rank] == [
            f"tide {word(123)}"
        ]
        assert (await memory.verify()).ok


async def test_verify_finds_and_repairs_a_wrong_index(filled: Path) -> None:
    async with open_at(filled) as memory:
        await memory.search("tide")
        index = memory._open_parts().backend._text  # type: ignore[attr-defined]
        writer = index._held.index.writer(15_000_000, 1)
        writer.delete_documents_by_term("chunk_row", 7)
        writer.commit()
        writer.wait_merging_threads()
        index._held.index.reload()
        found = await memory.verify()
        assert [(f.kind, f.subject, f.repaired) for f in found.findings] == [
            ("text index", "chunk row 7", False)
        ]
        assert not found.ok
        assert (await memory.verify(repair=True)).ok
        assert (await memory.verify()).findings == ()
        assert texts(await memory.search(word(6), k=1)) == [f"tide {word(6)}"]


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        ("DELETE FROM vectors WHERE chunk_row IN (5, 6)", "vector"),
        ("UPDATE vectors SET embedding = x'0011' WHERE chunk_row IN (5, 6)", "vector"),
        ("DELETE FROM codes WHERE chunk_row IN (5, 6)", "token codes"),
    ],
)
async def test_verify_makes_lost_vectors_and_codes_anew(
    filled: Path, damage: str, kind: str
) -> None:
    with apsw.Connection(str(filled / "memory.db")) as connection:
        wanted = [
            connection.execute(f"SELECT {column} FROM {table} WHERE chunk_row = 5").get
            for column, table in (("embedding", "vectors"), ("code", "codes"))
        ]
        connection.execute(damage)
    async with open_at(filled) as memory:
        found = await memory.verify()
        assert [(f.kind, f.repaired) for f in found.findings] == [(kind, False)] * 2
        if "x'0011'" in damage:
            with pytest.raises(StoreCorruptError, match="verify"):
                await memory.search("tide")
        assert (await memory.verify(repair=True)).ok
        assert (await memory.verify()).findings == ()
        assert texts(await memory.search(word(4), k=1)) == [f"tide {word(4)}"]
    with apsw.Connection(str(filled / "memory.db")) as connection:
        found_again = [
            connection.execute(f"SELECT {column} FROM {table} WHERE chunk_row = 5").get
            for column, table in (("embedding", "vectors"), ("code", "codes"))
        ]
    assert found_again == wanted


async def test_verify_names_what_it_cannot_mend(filled: Path) -> None:
    with apsw.Connection(str(filled / "memory.db")) as connection:
        name = connection.execute("SELECT document_id FROM documents LIMIT 1").get
        connection.execute("UPDATE documents SET is_head = 0 WHERE document_id = ?", (name,))
    async with open_at(filled) as memory:
        result = await memory.verify(repair=True)
        assert [(f.kind, f.subject, f.repaired) for f in result.findings] == [
            ("document", name, False)
        ]
        assert not result.ok


async def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreAccessError, match="it is a file"):
        await open_at(tmp_path / "file").open()
    with pytest.raises(StoreAccessError):
        await open_at(tmp_path / "file" / "below").open()


async def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"x")
    with pytest.raises(StoreAccessError, match=r"holds other files.*cat\.jpg"):
        await open_at(tmp_path / "photos").open()
    assert [p.name for p in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


async def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with apsw.Connection(str(tmp_path / "m" / "memory.db")) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StoreAccessError, match="not made by agentmem"):
        await open_at(tmp_path / "m").open()


async def test_bytes_that_are_no_database(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "memory.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreCorruptError, match="not a SQLite database"):
        await open_at(tmp_path / "m").open()


async def test_a_newer_schema_is_refused(filled: Path) -> None:
    with apsw.Connection(str(filled / "memory.db")) as connection:
        connection.pragma("user_version", 99)
    with pytest.raises(StoreVersionError, match="schema version 99"):
        await open_at(filled).open()


@pytest.mark.parametrize("url", ["", " ", "mysql://x/y", "local://relative", "a\0b", "\udcff"])
async def test_urls_that_name_no_store(url: str) -> None:
    with pytest.raises(ConfigurationError):
        await Memory(url, embedder=WordEmbedder()).open()


async def test_a_local_url_and_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for url in (f"local://{tmp_path}/one%20two", "~/three"):
        async with Memory(url, embedder=WordEmbedder()) as memory:
            await memory.write("tide")
    assert (tmp_path / "one two" / "memory.db").is_file()
    assert (tmp_path / "three" / "memory.db").is_file()


async def test_two_memories_on_one_folder_see_each_other(opened: Any) -> None:
    one, two = await opened(), await opened()
    await one.write("tide one")
    assert texts(await two.search("tide")) == ["tide one"]
    await two.write("tide two")
    assert sorted(texts(await one.search("tide"))) == ["tide one", "tide two"]
    await one.forget(where=F("title").exists(False), purge=True)
    assert (await two.search("tide")).hits == ()
    await two.write("tide three")
    await two.compact()
    assert texts(await one.search("tide")) == ["tide three"]


_WRITER = """
import asyncio, sys
from agentmem import Memory
sys.path.insert(0, sys.argv[3])
from tests.support import WordEmbedder
async def main():
    async with Memory(sys.argv[1], embedder=WordEmbedder()) as memory:
        for n in range(25):
            await memory.write(f"tide {sys.argv[2]} {n}")
            await memory.search(f"{sys.argv[2]} {n}")
asyncio.run(main())
"""


async def test_processes_write_and_search_at_the_same_time(tmp_path: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    arguments = [sys.executable, "-c", _WRITER, str(tmp_path / "m")]
    children = [
        subprocess.Popen([*arguments, name, root], stderr=subprocess.PIPE, text=True)
        for name in ("ada", "bob", "eve")
    ]
    for child in children:
        _, errors = await asyncio.to_thread(child.communicate, timeout=90)
        assert (child.returncode, errors) == (0, "")
    async with open_at(tmp_path / "m") as memory:
        assert await memory.count() == 75
        assert (await memory.verify()).ok
        assert len((await memory.search("tide", k=100, token_budget=10**6)).hits) == 75


SENTINEL = "xylophone-quartz-4711"


@pytest.mark.parametrize("documents", [1, 40])
async def test_case_15_purged_text_leaves_no_trace_in_the_folder(
    tmp_path: Path, documents: int
) -> None:
    folder = tmp_path / "m"
    async with open_at(folder) as memory:
        await memory.write([f"tide {word(n)} and shared words for all" for n in range(50)])
        for n in range(documents):
            text = f"the word {SENTINEL}{n} and shared words for all"
            meta = {"s": [f"{SENTINEL} {n}"]}
            await memory.write(text, key=f"k{n}", metadata=meta, title=SENTINEL, collection="c")
            await memory.write(f"other {SENTINEL} {n}", key=f"k{n}", collection="c")
        await memory.search(SENTINEL)
        assert _holds(folder, SENTINEL)
        result = await memory.forget(collection="c", purge=True)
        assert result.count == documents
        assert not _holds(folder, SENTINEL)
        assert result.scan is not None
        assert result.scan.found == ()
        assert result.scan.fingerprints >= 5 * documents
        assert result.scan.bytes >= (folder / "memory.db").stat().st_size
        assert texts(await memory.search(word(7), k=1))[0].startswith(f"tide {word(7)} ")
    assert not _holds(folder, SENTINEL)


def _holds(folder: Path, text: str) -> bool:
    return any(text.encode() in p.read_bytes() for p in folder.rglob("*") if p.is_file())


async def test_a_scan_finds_what_is_there(filled: Path) -> None:
    for extra in (0, 100):
        pieces = [f"tide {word(123)} padded".encode()[:16]]
        pieces += [f"unknown piece {n:02}".encode()[:16] for n in range(extra)]
        (filled / "stray.log").write_bytes(b"x" * 12_345 + pieces[0] + b"y" * 99)
        found = _proof.scan(filled, _proof.Fingerprints(pieces)).found
        assert found == ("stray.log: 1",)


async def test_receipts_form_a_chain(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    async with open_at(folder) as memory:
        names = (await memory.write(["heron", "owl", "pike"])).ids
        first = await memory.forget(names[0])
        second = await memory.forget(names[1], purge=True)
        assert (await memory.forget("nothing")).receipt is None
        log = await memory.receipts()
        assert [(r.action, r.ids) for r in log] == [
            ("forget", (names[0],)), ("purge", (names[1],)), ("scan", (names[1],)),
        ]  # fmt: skip
        assert [log[0].hash, log[1].hash] == [first.receipt, second.receipt]
        assert log[2].details["found"] == []
        assert (await memory.verify()).ok
    async with open_at(folder, tenant="other") as other:
        assert await other.receipts() == ()
    for fraud in (
        "UPDATE receipts SET ids = '[]' WHERE number = 1",
        "DELETE FROM receipts WHERE number = 2",
    ):
        shutil.copytree(folder, tmp_path / "copy")
        with apsw.Connection(str(tmp_path / "copy" / "memory.db")) as connection:
            connection.execute(fraud)
        async with open_at(tmp_path / "copy") as memory:
            kinds = [f.kind for f in (await memory.verify(repair=True)).findings]
            assert kinds == ["receipt"]
        shutil.rmtree(tmp_path / "copy")


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_an_older_schema_is_brought_up_to_date(filled: Path, version: int) -> None:
    assert SCHEMA_VERSION == 4
    before = _stored(filled)
    async with open_at(filled) as memory:
        expected = [hit.id for hit in (await memory.search(f"tide {word(7)}", k=20)).hits]
    downgrade(filled, version)
    assert _stored(filled) != before
    async with open_at(filled) as memory:
        assert [h.id for h in (await memory.search(f"tide {word(7)}", k=20)).hits] == expected
        assert await memory.count() == 300
        assert (await memory.verify()).ok
        assert (await memory.forget(where=F("half") == 1)).receipt is not None
        assert (await memory.verify()).ok
    after = _stored(filled)
    assert [vector for vector, _ in after] == [vector for vector, _ in before]
    for (_, one), (_, other) in zip(after, before, strict=True):
        # Rounded twice, once for each of the two formats.
        assert np.einsum("td,td->t", token_vectors(one), token_vectors(other)).min() > 0.85


def _stored(folder: Path) -> list[tuple[bytes, bytes]]:
    with apsw.Connection(str(folder / "memory.db")) as connection:
        sql = "SELECT embedding, code FROM vectors JOIN codes USING (chunk_row) ORDER BY chunk_row"
        found = list(connection.execute(sql))
    connection.close()
    return found


async def test_what_a_migration_cannot_read_is_made_anew(filled: Path) -> None:
    downgrade(filled, 3)
    with apsw.Connection(str(filled / "memory.db")) as connection:
        connection.execute("UPDATE vectors SET embedding = x'0102' WHERE chunk_row = 5")
        connection.execute("UPDATE codes SET code = x'0140ff' WHERE chunk_row = 6")
    connection.close()
    async with open_at(filled) as memory:
        found = (await memory.verify()).findings
        assert sorted(f.kind for f in found) == ["token codes", "vector"]
        assert (await memory.verify(repair=True)).ok
        assert texts(await memory.search(word(4), k=1)) == [f"tide {word(4)}"]


@pytest.mark.parametrize("earlier", [False, True])
async def test_token_codes_of_an_earlier_release_are_not_imported(
    filled: Path, tmp_path: Path, earlier: bool
) -> None:
    async with open_at(filled) as memory:
        await memory.export(tmp_path / "e.jsonl")
    text = (tmp_path / "e.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    for row in rows[:7] if earlier else ():
        code = former_code(token_vectors(base64.b64decode(row["chunks"][0]["codes"])))
        row["chunks"][0]["codes"] = base64.b64encode(code).decode("ascii")
    lines = "\n".join(json.dumps(row) for row in rows)
    (tmp_path / "e.jsonl").write_text(lines, encoding="utf-8")
    async with open_at(tmp_path / "other") as memory:
        assert (await memory.import_(tmp_path / "e.jsonl")).embedded == (7 if earlier else 0)
        assert texts(await memory.search(word(4), k=1)) == [f"tide {word(4)}"]


async def test_a_filter_on_the_expiry_sees_a_new_one(tmp_path: Path, clock: SetClock) -> None:
    """With more rows than are looked at one by one, so that answers of filters are remembered."""
    soon, later = clock.now + timedelta(hours=1), clock.now + timedelta(days=1)
    async with Memory(tmp_path / "m", embedder=WordEmbedder(), clock=clock) as memory:
        written = await memory.write([f"code {n}" for n in range(2_100)], expires_at=soon)
        where = F("expires_at") == soon
        assert (await memory.search("code 7", where=where)).hits
        await memory.set_expiry(written.ids, later)
        assert (await memory.search("code 7", where=where)).hits == ()
        assert (await memory.search("code 7", where=F("expires_at") == later)).hits


async def test_a_search_whose_transaction_fell_behind_begins_anew(tmp_path: Path) -> None:
    async with open_at(tmp_path / "m") as memory:
        await memory.write("tide one")
        assert memory._parts is not None
        backend = memory._parts.backend
        assert isinstance(backend, EmbeddedBackend)
        behind = apsw.Connection(str(tmp_path / "m" / "memory.db"))
        behind.execute("BEGIN")
        before = counter(behind, "change")
        await memory.write("tide two")
        assert len(texts(await memory.search("tide"))) == 2
        held = backend._resident.snapshot(behind)
        assert (held.rows, held.change) == (2, counter(behind, "change"))
        assert held.change > before
        behind.close()
