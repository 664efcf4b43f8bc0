"""Tenants, faults and round trips of the Oracle engine, on the stand-in."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import oracledb
import pytest

from agentmem import Memory, Settings
from agentmem.backends.oracle import read_target
from agentmem.backends.oracle._errors import _KINDS, translated
from agentmem.errors import (
    AgentMemError,
    ConfigurationError,
    NotOpenError,
    StoreAccessError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreUnavailableError,
)
from tests.databases import StandInStore
from tests.standin.driver import Connection, Pool
from tests.standin.errors import error, text_error
from tests.support import SetClock, WordEmbedder, texts

Call = Callable[[Memory], Awaitable[Any]]


@pytest.fixture
def opened(standin: StandInStore, clock: SetClock) -> Callable[..., Memory]:
    def make(*, tenant: str = "acme", **settings: Any) -> Memory:
        return standin.memory(WordEmbedder(), {"tenant": tenant, "clock": clock}, **settings)

    return make


def tenants_left(standin: StandInStore) -> list[str]:
    return [s.tenant for s in standin.server.sessions.values() if s.tenant is not None]


def is_insert(sql: str) -> bool:
    return sql.startswith("INSERT INTO mem_documents")


def is_search(sql: str) -> bool:
    return "vec AS" in sql


def is_commit(sql: str) -> bool:
    return sql == "commit"


# ------------------------------------------------------------------------- round trips


async def _filled(memory: Memory) -> str:
    result = await memory.write("tea with milk", key="k")
    return result.ids[0]


TRIPS: dict[str, tuple[int, Call]] = {
    "search": (1, lambda m: m.search("tea")),
    "get": (1, lambda m: m.get("nothing")),
    "list": (1, lambda m: m.list()),
    "count": (1, lambda m: m.count()),
    "history": (1, lambda m: m.history("k")),
    "stats": (1, lambda m: m.stats()),
    "receipts": (1, lambda m: m.receipts()),
    "dry run": (1, lambda m: m.forget(key="k", dry_run=True)),
    "write what is there": (1, lambda m: m.write("tea with milk", key="k")),
    # heads; tenant, versions, documents, chunks and their codes, commit
    "write": (8, lambda m: m.write("something new")),
    "write 50": (8 + 49 * 2, lambda m: m.write([f"note {n}" for n in range(50)])),
    # three more statements: the old head, and the windows in both tables
    "rewrite": (11, lambda m: m.write("coffee", key="k")),
    # tenant, documents, both tables, last receipt, receipt, commit
    "forget": (7, lambda m: m.forget(key="k")),
    # and for the receipt of the search afterwards: tenant, look, last receipt, receipt, commit
    "purge": (12, lambda m: m.forget(key="k", purge=True)),
}


@pytest.mark.parametrize("name", TRIPS)
async def test_round_trips(standin: StandInStore, opened: Any, name: str) -> None:
    expected, call = TRIPS[name]
    async with opened() as memory:
        await _filled(memory)
        before = standin.server.round_trips
        await call(memory)
        assert standin.server.round_trips - before == expected


async def test_restore_takes_five_round_trips(standin: StandInStore, opened: Any) -> None:
    async with opened() as memory:
        name = await _filled(memory)
        await memory.forget(name)
        before = standin.server.round_trips
        await memory.restore(name)
        assert standin.server.round_trips - before == 5


# ------------------------------------------------------------------------- tenants


async def test_no_connection_remembers_a_tenant(standin: StandInStore, opened: Any) -> None:
    async with opened() as memory:
        for _, call in TRIPS.values():
            await call(memory)
            assert tenants_left(standin) == []
            assert standin.server.checked_out == 0


@pytest.mark.parametrize("code", ["ORA-01555", "ORA-29902", "ORA-00942"])
async def test_a_failed_statement_leaves_no_tenant(
    standin: StandInStore, opened: Any, code: str
) -> None:
    async with opened(oracle_retries=0) as memory:
        standin.server.fail_next(code, when=is_search)
        with pytest.raises(StoreError, match=code):
            await memory.search("tea")
        standin.server.fail_next(code, when=is_insert)
        with pytest.raises(StoreError, match=code):
            await memory.write("tea")
        assert tenants_left(standin) == []
        assert await memory.count() == 0


async def test_a_connection_that_cannot_be_cleared_is_dropped(
    standin: StandInStore, opened: Any
) -> None:
    async with opened() as memory:
        await memory.count()
        old = set(standin.server.sessions)
        failed: list[str] = []

        def clearing_after_the_fault(sql: str) -> bool:
            failed.extend([sql] * is_insert(sql))
            return bool(failed) and sql.endswith(".clear_tenant")

        standin.server.fail_next("ORA-04068", when=clearing_after_the_fault)
        standin.server.fail_next("ORA-01653", when=is_insert)
        with pytest.raises(StoreFullError):
            await memory.write("tea")
        assert not old & set(standin.server.sessions)
        assert await memory.count() == 0


async def test_a_cancelled_call_gives_its_connection_up(standin: StandInStore, opened: Any) -> None:
    async with opened() as memory:
        await memory.count()
        old = set(standin.server.sessions)
        standin.server.delay = 0.2
        task = asyncio.create_task(memory.search("tea"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        standin.server.delay = 0.0
        assert not old & set(standin.server.sessions)
        assert standin.server.checked_out == 0
        assert await memory.count() == 0


async def test_rows_without_a_tenant_are_not_seen(standin: StandInStore, opened: Any) -> None:
    async with opened() as memory:
        await memory.write("tea")
    async with oracledb.connect_async(user="mem_app", password="x", dsn="d") as connection:
        assert await connection.fetchall("SELECT COUNT(*) FROM mem_documents d") == [(0,)]
        await connection.callproc("mem_owner.mem_session.set_tenant", ["acme"])
        assert await connection.fetchall("SELECT COUNT(*) FROM mem_documents d") == [(1,)]


async def test_a_hundred_tenants_with_cancelled_tasks(standin: StandInStore, opened: Any) -> None:
    """No row crosses and no connection leaks, whatever is cancelled whenever.

    All tenants share four connections.
    """
    chance = random.Random(7)
    memories = [
        opened(tenant=f"tenant {n}", oracle_pool_max=4, oracle_pool_timeout=60) for n in range(100)
    ]
    for memory in memories:
        await memory.open()

    async def work(number: int, memory: Memory) -> None:
        own = f"secret{number}"
        await memory.write(f"{own} shared words", key="k")
        for _ in range(3):
            call: Callable[[], Awaitable[Any]] = chance.choice(
                [
                    lambda: memory.search("shared words"),
                    lambda: memory.write(f"{own} shared words {chance.random()}", key="k"),
                    lambda: memory.list(),
                    lambda: memory.forget(key="none"),
                ]
            )
            task = asyncio.ensure_future(call())
            if chance.random() < 0.5:
                for _ in range(chance.randrange(12)):
                    await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            hits = texts(await memory.search("shared words secret", k=20))
            assert hits
            assert all(text.split()[0] == own for text in hits)

    try:
        assert len(standin.server.sessions) <= 4
        await asyncio.gather(*(work(n, memory) for n, memory in enumerate(memories)))
        assert standin.server.checked_out == 0
        assert tenants_left(standin) == []
    finally:
        for memory in memories:
            await memory.close()
    assert not standin.server.sessions


async def test_cancelling_twice_leaks_nothing(standin: StandInStore, opened: Any) -> None:
    standin.server.break_fails = True
    async with opened() as memory:
        for steps in range(20):
            task = asyncio.create_task(memory.write(f"tea {steps}"))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await memory.write("at last")
        assert "at last" in texts(await memory.search("at last", k=1))
    assert standin.server.checked_out == 0
    assert not standin.server.sessions


# ------------------------------------------------------------------------- faults


async def test_a_killed_session_is_replaced_without_a_word(
    standin: StandInStore, opened: Any
) -> None:
    async with opened() as memory:
        await memory.write("tea")
        standin.server.kill_sessions()
        assert await memory.count() == 1
        standin.server.kill_sessions()
        assert (await memory.write("coffee")).created == 1


async def test_reading_gives_up_after_its_repetitions(standin: StandInStore, opened: Any) -> None:
    async with opened(oracle_retries=2) as memory:
        standin.server.fail_next("DPY-4011", times=2, when=is_search)
        await memory.search("tea")
        standin.server.fail_next("DPY-4011", times=3, when=is_search)
        with pytest.raises(StoreUnavailableError, match=r"could not search.*DPY-4011"):
            await memory.search("tea")


@pytest.mark.parametrize("code", ["ORA-00060", "ORA-08177", "ORA-00001"])
async def test_a_write_that_raced_starts_again(
    standin: StandInStore, opened: Any, code: str
) -> None:
    async with opened() as memory:
        standin.server.fail_next(code, when=is_insert)
        assert (await memory.write("tea")).created == 1
        assert await memory.count() == 1


async def test_a_write_gives_up_when_others_are_always_faster(
    standin: StandInStore, opened: Any
) -> None:
    async with opened() as memory:
        standin.server.fail_next("ORA-00060", times=99, when=is_insert)
        with pytest.raises(StoreLockedError, match="ORA-00060"):
            await memory.write("tea")


async def test_a_commit_whose_answer_was_lost_is_not_done_twice(
    standin: StandInStore, opened: Any
) -> None:
    async with opened() as memory:
        standin.server.fail_next("DPY-4011", when=is_commit, after=True)
        written = (await memory.write("tea", key="k")).documents[0]
        assert (written.status, written.version) == ("created", 1)
        standin.server.fail_next("DPY-4011", when=is_commit, after=True)
        written = (await memory.write("coffee", key="k")).documents[0]
        assert (written.status, written.version) == ("updated", 2)
        assert len(await memory.history("k")) == 2


async def test_a_forget_whose_commit_was_lost_says_so(standin: StandInStore, opened: Any) -> None:
    async with opened() as memory:
        await memory.write("tea")
        standin.server.fail_next("DPY-4011", when=is_commit, after=True)
        with pytest.raises(StoreUnavailableError, match="look whether it was done"):
            await memory.forget(everything=True)
        assert await memory.count() == 0


@pytest.mark.parametrize("call", [lambda m: m.search("tea"), lambda m: m.write("tea")])
async def test_a_slow_answer_ends_in_a_named_error(
    standin: StandInStore, opened: Any, call: Call
) -> None:
    async with opened(oracle_call_timeout=0.1, oracle_retries=0) as memory:
        standin.server.delay = 0.5
        with pytest.raises(StoreUnavailableError, match="raise oracle_call_timeout"):
            await call(memory)
        standin.server.delay = 0.0
        assert await memory.count() == 0


async def test_waiting_for_a_connection_ends(standin: StandInStore, opened: Any) -> None:
    async with opened(oracle_pool_max=1, oracle_pool_timeout=0.1) as memory:
        standin.server.delay = 0.3
        first = asyncio.create_task(memory.count())
        await asyncio.sleep(0.05)
        with pytest.raises(StoreUnavailableError, match=r"raise oracle_pool_max.*DPY-4005"):
            await memory.count()
        await first


async def test_an_unreachable_database(standin: StandInStore, opened: Any) -> None:
    standin.server.down = True
    memory = opened()
    with pytest.raises(StoreUnavailableError, match="mem_app@stand-in:1521/none") as caught:
        await memory.open()
    assert "Test_password" not in str(caught.value)
    with pytest.raises(NotOpenError):
        await memory.count()


async def test_a_schema_that_was_never_set_up(standin: StandInStore, opened: Any) -> None:
    memory = opened()
    standin.server.set_up(["DROP TABLE mem_meta PURGE"])
    with pytest.raises(StoreAccessError, match="run 'agentmem oracle init'"):
        await memory.open()
    assert standin.server.checked_out == 0


@pytest.mark.parametrize("code", sorted(_KINDS))
def test_errors_are_told_apart_by_code(code: str) -> None:
    kind, advice = _KINDS[code]
    made = translated(error(code, "secret text of a row"), "search")
    assert type(made) is kind
    assert advice in str(made)
    assert "secret" not in str(made)


def test_an_unknown_code_is_a_store_error() -> None:
    made = translated(error("ORA-07445"), "search")
    assert type(made) is StoreError
    assert "ORA-07445" in str(made)


def test_an_error_of_oracle_text_shows_its_own_code() -> None:
    assert "ORA-29902, DRG-50901" in str(translated(text_error("DRG-50901", "syntax"), "search"))


async def test_no_error_of_the_driver_leaves(standin: StandInStore, opened: Any) -> None:
    codes = ["ORA-00600", "ORA-12899", "ORA-51803", "DPY-4011", "ORA-28115", "ORA-29902"]
    async with opened(oracle_retries=0) as memory:
        for code in codes:
            for _, call in TRIPS.values():
                standin.server.fail_next(code, when=lambda sql: not sql.endswith("_tenant"))
                try:
                    await call(memory)
                except AgentMemError:
                    continue
    assert standin.server.checked_out == 0


# ------------------------------------------------------------------------- where it is


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("oracle://host:1521/service", "names no user"),
        ("oracle://u@host:1521", "names no service"),
        ("oracle://u@host:port/service", "a port that is no number"),
        ("oracle://u@", "does not say where"),
        ("oracle://u:p@host/s?x=1", "options behind"),
        ("oracle://u%22x@host/s", "cannot be the name of a database user"),
    ],
)
async def test_urls_that_cannot_be_used(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        await Memory(url).open()


async def test_a_password_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="AGENTMEM_ORACLE_PASSWORD"):
        await Memory("oracle://u@host/s").open()


async def test_a_head_that_was_forgotten_meanwhile_is_not_continued(
    standin: StandInStore, opened: Any
) -> None:
    async with opened() as memory:
        first = (await memory.write("tea", key="k")).ids[0]
        done: list[str] = []

        def forget_meanwhile(sql: str) -> bool:
            if "new_ids" in sql and not done:
                done.append(sql)
                standin.server.database.cursor().execute(
                    "UPDATE mem_documents SET deleted_at = created_at, live_identity = NULL"
                )
            return False

        standin.server.fail_next("ORA-00600", when=forget_meanwhile, after=True)
        written = (await memory.write("coffee", key="k")).documents[0]
        assert done
        assert (written.status, written.version) == ("created", 1)
        assert written.id != first or [v.version for v in await memory.history("k")] == [1]


def test_a_name_of_tnsnames_with_a_wallet(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    target = read_target(
        Settings(
            url="oracle://ada@",
            oracle_dsn="mydb_high",
            oracle_owner="acme",
            oracle_password_file=tmp_path / "secret",
            oracle_config_dir=tmp_path,
            oracle_wallet_dir=tmp_path,
            oracle_wallet_password="shut",
        )
    )
    assert (target.user, target.password, target.dsn, target.owner) == (
        "ada", "from a file", "mydb_high", "acme",
    )  # fmt: skip
    assert target.extra == {
        "config_dir": str(tmp_path), "wallet_location": str(tmp_path), "wallet_password": "shut",
    }  # fmt: skip
    assert "from a file" not in repr(target)
    assert "shut" not in repr(target)


@pytest.mark.parametrize(
    ("url", "dsn"),
    [
        ("oracle://ada:p@db/service", "db:1521/service"),
        ("oracle://ada:p%40ss@db:1522/a.b.c", "db:1522/a.b.c"),
        ("oracle://ada:p@[::1]:1521/s", "[::1]:1521/s"),
    ],
)
def test_where_a_url_points(url: str, dsn: str) -> None:
    assert read_target(Settings(url=url)).dsn == dsn


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"oracle_password_file": "/nowhere"}, "cannot be read"),
        ({"oracle_password": "p", "oracle_wallet_dir": "/nowhere"}, "is not a folder"),
        ({"oracle_password": "p", "oracle_dsn": "x"}, "both"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_target(Settings(url="oracle://ada@db/service", **settings))


async def test_the_pool_gets_what_the_settings_say(
    standin: StandInStore, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    make = standin.server.create_pool_async

    def note(**arguments: Any) -> Any:
        seen.update(arguments)
        return make(**arguments)

    monkeypatch.setattr(oracledb, "create_pool_async", note)
    async with opened(oracle_pool_min=2, oracle_pool_max=5, oracle_pool_timeout=3):
        assert (seen["min"], seen["max"], seen["wait_timeout"]) == (2, 5, 3000)
        assert seen["getmode"] == oracledb.POOL_GETMODE_TIMEDWAIT
        assert seen["tcp_connect_timeout"] == 10.0


async def test_a_connection_that_never_comes(
    standin: StandInStore, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: Any) -> None:
        await asyncio.sleep(60)

    async with opened(oracle_pool_timeout=0.05, oracle_connect_timeout=0.05) as memory:
        monkeypatch.setattr(Pool, "_connection", never)
        with pytest.raises(StoreUnavailableError, match=r"no connection to .* within 0\.1 s"):
            await memory.count()


async def test_upkeep_may_take_longer_than_a_call(
    standin: StandInStore, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: dict[str, int] = {}
    call = Connection.callproc

    async def noted(self: Any, name: str, parameters: Any = None) -> Any:
        limits[name.rpartition(".")[2]] = self.call_timeout
        return await call(self, name, parameters)

    async with opened(oracle_call_timeout=7) as memory:
        monkeypatch.setattr(Connection, "callproc", noted)
        await memory.compact()
    assert limits == {"set_tenant": 7000, "compact_text": 0, "clear_tenant": 7000}
