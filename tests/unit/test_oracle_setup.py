"""The set-up scripts of Oracle, run on the stand-in, and the checks of what they made."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import oracledb
import pytest
from typer.testing import CliRunner

from agentmem._cli._app import app
from agentmem.backends.oracle import admin, read_target
from agentmem.backends.oracle._names import TENANT_TABLES
from agentmem.backends.oracle._setup import run_step, substituted
from agentmem.config import Settings
from agentmem.errors import ConfigurationError, StoreError, StoreUnavailableError
from tests.databases import StandInStore, oracle_settings, plan_for
from tests.standin.errors import error
from tests.support import WordEmbedder

PASSWORDS = {"owner_password": "Owner_1", "app_password": "App_1"}


def set_up_with(standin: StandInStore, passwords: dict[str, str] | None = None) -> admin.SetUp:
    plan = plan_for(WordEmbedder())
    administrator = admin.LogOn("system", "x", "stand-in", {})
    owner = admin.LogOn(plan.owner, "Owner_1", "stand-in", {})
    return admin.SetUp(plan, administrator, owner, PASSWORDS if passwords is None else passwords)


async def test_every_step_runs_once(standin: StandInStore) -> None:
    work = set_up_with(standin)
    before = await work.states()
    assert not any(state.done for state in before)
    assert [name async for name in work.run()] == [state.step.name for state in before]
    after = await work.states()
    assert all(state.done is not False for state in after)
    first = len(standin.server.catalog.history)
    assert [name async for name in work.run()]
    again = standin.server.catalog.history[first:]
    assert not [text for text in again if text.startswith(("CREATE TABLE", "CREATE INDEX"))]


async def test_it_goes_on_where_it_stopped(standin: StandInStore) -> None:
    work = set_up_with(standin)
    standin.server.fail_next("ORA-01031", when=lambda sql: "CREATE TABLE mem_receipts" in sql)
    with pytest.raises(StoreError, match=r"step 'receipts' stopped at statement 1.*ORA-01031"):
        [name async for name in work.run()]
    assert "mem_chunks" in standin.server.catalog.tables
    assert [name async for name in work.run()]
    assert set(TENANT_TABLES) <= standin.server.catalog.tables.keys()


@pytest.mark.parametrize(("drg", "stops"), [("DRG-10701", False), ("DRG-10700", True)])
async def test_only_a_preference_that_is_there_is_passed_over(
    standin: StandInStore, monkeypatch: pytest.MonkeyPatch, drg: str, stops: bool
) -> None:
    run = standin.server.catalog.run

    def failing(sql: str) -> bool:
        if "CREATE_PREFERENCE" in sql:
            raise error("ORA-20000", f"Oracle Text error:\n{drg}: preference")
        return run(sql)

    monkeypatch.setattr(type(standin.server.catalog), "run", lambda self, sql: failing(sql))
    work = set_up_with(standin)
    if stops:
        with pytest.raises(StoreError, match=r"'text preferences'.*ORA-20000"):
            [name async for name in work.run()]
    else:
        assert [name async for name in work.run()]


async def test_each_step_can_be_taken_back(standin: StandInStore) -> None:
    plan = plan_for(WordEmbedder())
    work = set_up_with(standin)
    assert [name async for name in work.run()]
    standin.server.set_up(s for step in reversed(admin.steps(plan)) for s in step.undo)
    assert not standin.server.catalog.tables
    assert not any(state.done for state in await work.states())


def test_every_tenant_table_has_a_policy_for_all_statements() -> None:
    plan = plan_for(WordEmbedder())
    text = "\n".join(s for step in admin.steps(plan) for s in step.statements)
    tables = set(re.findall(r"CREATE TABLE (\w+) \(\s*tenant_id", text))
    assert tables == set(TENANT_TABLES)
    for table in tables:
        block = next(b for b in text.split("BEGIN") if f"object_name => '{table.upper()}'" in b)
        assert "statement_types => 'SELECT,INSERT,UPDATE,DELETE', update_check => TRUE" in block


def test_keys_carry_the_tenant() -> None:
    plan = plan_for(WordEmbedder())
    text = "\n".join(s for step in admin.steps(plan) for s in step.statements)
    keys = re.findall(r"PRIMARY KEY \(([^)]*)\)|CREATE UNIQUE INDEX \w+ ON \w+ \((.*)\)", text)
    of_tenants = [key for pair in keys for key in pair if key and key != "name"]
    assert len(of_tenants) == 4
    assert all("tenant_id" in key for key in of_tenants)


def test_the_application_user_gets_no_more_than_it_needs() -> None:
    plan = plan_for(WordEmbedder())
    grants = [s for step in admin.steps(plan) for s in step.statements if s.startswith("GRANT")]
    to_app = [grant for grant in grants if grant.endswith("TO mem_app")]
    assert not [grant for grant in to_app if " ANY " in grant or "DR$" in grant]
    assert "GRANT SELECT, INSERT ON mem_owner.mem_receipts TO mem_app" in to_app


@pytest.mark.parametrize("password", ['with"quote', "two\nlines", ""])
def test_a_password_cannot_leave_its_place(password: str) -> None:
    with pytest.raises(ConfigurationError, match="owner password"):
        substituted('IDENTIFIED BY "&owner_password"', {"owner_password": password})


async def test_a_missing_password_is_named(standin: StandInStore) -> None:
    work = set_up_with(standin, passwords={})
    with pytest.raises(ConfigurationError, match="no owner password is given"):
        [name async for name in work.run()]


@pytest.mark.parametrize(
    "arguments", [{"owner": 'x"; DROP'}, {"app": "a b"}, {"models": ["m;n"]}, {"tablespace": "1"}]
)
def test_names_are_checked(arguments: dict[str, Any]) -> None:
    names: dict[str, Any] = {"owner": "o", "app": "a", "meta": plan_for(WordEmbedder()).meta}
    with pytest.raises(ConfigurationError, match="cannot be the name of"):
        admin.make_plan(**(names | arguments))


def test_unknown_choices_are_named() -> None:
    with pytest.raises(ConfigurationError, match="there is no lexer 'latin'; choose terms"):
        admin.make_meta("e", 3, None, lexer="latin")


# ------------------------------------------------------------------------- the doctor


async def examined(standin: StandInStore) -> dict[str, admin.Check]:
    plan = plan_for(WordEmbedder())
    settings = oracle_settings("stand-in:1521/none", plan)
    return {check.name: check for check in await admin.examine(read_target(settings))}


@pytest.fixture
async def ready(standin: StandInStore) -> StandInStore:
    assert [name async for name in set_up_with(standin).run()]
    return standin


async def test_a_sound_database_passes(ready: StandInStore) -> None:
    checks = await examined(ready)
    assert {name: check.state for name, check in checks.items()} == {
        "version": "ok", "tables": "ok", "privileges": "ok", "row-level security": "ok",
        "text index": "ok", "text backlog": "ok", "vector memory": "ok", "models": "ok",
        "clock": "ok",
    }  # fmt: skip
    for table in TENANT_TABLES:  # the checks leave nothing behind
        assert ready.server.database.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,)


@pytest.mark.parametrize("table", TENANT_TABLES)
async def test_a_missing_policy_is_found(ready: StandInStore, table: str) -> None:
    ready.server.database.execute(
        "INSERT INTO mem_receipts VALUES ('t', 1, TIMESTAMP '2020-01-01', 'a', '', '', '', '')"
    )
    ready.server.catalog.policies.pop(table)
    check = (await examined(ready))["row-level security"]
    expected = "ok" if table != "mem_receipts" else "fault"
    assert check.state == expected or "without a tenant" in check.message


async def test_a_policy_without_update_check_is_found(ready: StandInStore) -> None:
    policies = ready.server.catalog.policies
    old = policies["mem_receipts"]
    policies["mem_receipts"] = type(old)(old.function, old.kinds, False)
    check = (await examined(ready))["row-level security"]
    assert (check.state, check.message) == ("fault", "a tenant can write rows for another one")


async def test_a_powerful_user_is_found(ready: StandInStore) -> None:
    ready.server.database.execute("INSERT INTO session_privs VALUES ('EXEMPT ACCESS POLICY')")
    assert (await examined(ready))["privileges"].state == "fault"


async def test_an_index_that_is_not_filled_is_found(ready: StandInStore) -> None:
    index = ready.server.catalog.text_index
    assert index
    ready.server.catalog.text_index = (*index[:2], False)
    assert (await examined(ready))["text index"].state == "fault"


async def test_rows_that_failed_to_be_indexed_are_counted(ready: StandInStore) -> None:
    ready.server.lose_text("t/x:1:0")
    check = (await examined(ready))["text backlog"]
    assert (check.state, check.message) == ("fault", "1 rows could not be indexed")


async def test_a_wrong_clock_is_found(ready: StandInStore) -> None:
    ready.server.clock_ahead = timedelta(minutes=5)
    assert (await examined(ready))["clock"].state == "warning"


async def test_missing_tables_are_a_fault_with_advice(standin: StandInStore) -> None:
    check = (await examined(standin))["tables"]
    assert check.state == "fault"
    assert "ORA-00942" in check.message


async def test_an_unreachable_database_is_named(standin: StandInStore) -> None:
    standin.server.down = True
    with pytest.raises(StoreUnavailableError, match=r"log on as 'mem_app'.*DPY-6005"):
        await examined(standin)


# ------------------------------------------------------------------------- the commands

URL = "oracle://mem_app@stand-in:1521/none"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("PASSWORD", "OWNER_PASSWORD", "ADMIN_PASSWORD"):
        monkeypatch.setenv(f"AGENTMEM_ORACLE_{name}", "Secret_1")
    monkeypatch.setenv("AGENTMEM_ORACLE_OWNER", "mem_owner")
    monkeypatch.setenv("COLUMNS", "200")
    runner = CliRunner()
    return lambda *arguments, **more: runner.invoke(app, ["oracle", *arguments], **more)


def test_init_then_doctor(standin: StandInStore, command: Any) -> None:
    result = command("init", "--url", URL, "--admin-user", "system", "--yes")
    assert result.exit_code == 0, result.output
    assert "to do" in result.output
    assert "is set up" in result.output
    assert "Secret_1" not in result.output
    result = command("doctor", "--url", URL, "--json")
    assert result.exit_code == 0, result.output
    assert {row["state"] for row in json.loads(result.stdout)} == {"ok"}
    standin.server.clock_ahead = timedelta(minutes=5)
    assert "synchronised" in command("doctor", "--url", URL).output


def test_init_asks_first(standin: StandInStore, command: Any) -> None:
    result = command("init", "--url", URL, "--admin-user", "system", input="n\n")
    assert result.exit_code == 1
    assert not standin.server.catalog.tables


def test_doctor_exits_with_1_for_a_fault(standin: StandInStore, command: Any) -> None:
    assert command("doctor", "--url", URL).exit_code == 1


def test_ddl_prints_everything_and_no_password(command: Any) -> None:
    text = command("ddl", "--owner", "acme", "--app", "acme_app", "--vector-index", "hnsw").output
    assert "CREATE VECTOR INDEX" in text
    assert "VECTOR(384, FLOAT32)" in text
    assert '"&owner_password"' in text
    undo = command("ddl", "--owner", "acme", "--undo").output
    assert undo.index("DROP TABLE mem_chunks") < undo.index("DROP TABLE mem_documents")


def test_a_local_url_is_refused(command: Any) -> None:
    result = command("doctor", "--url", "./memory")
    assert isinstance(result.exception, ConfigurationError)


def test_models_are_built_and_loaded(standin: StandInStore, command: Any, tmp_path: Path) -> None:
    assert command("init", "--url", URL, "--admin-user", "system", "--yes").exit_code == 0
    for _ in range(2):  # a second time takes the place of the first
        result = command("models", "--out", str(tmp_path), "--load", "--url", URL)
        assert result.exit_code == 0, result.output
    assert "least cosine between graph and client: 1.0000" in result.output
    assert "that graph and client order alike: 1.0000" in result.output
    for name, function in (("mem_embedder", "embedding"), ("mem_reranker", "regression")):
        metadata = json.loads((tmp_path / f"{name}.json").read_text())
        assert metadata["function"] == function
        graph = (tmp_path / f"{name}.onnx").read_bytes()
        assert standin.server.loaded[name.upper()] == (graph, metadata)
    assert len(standin.server.loaded) == 2


async def test_a_second_run_of_a_step_does_no_harm(ready: StandInStore) -> None:
    async with oracledb.connect_async(user="mem_owner", password="x", dsn="d") as connection:
        for step in admin.steps(plan_for(WordEmbedder())):
            await run_step(connection, step, PASSWORDS)


def test_settings_never_show_secrets() -> None:
    settings = Settings(url=URL, oracle_password="hunter2", oracle_wallet_password="hunter3")
    assert "hunter" not in repr(settings)
    assert "hunter" not in repr(read_target(settings))
