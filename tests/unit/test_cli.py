"""The command line, as a person or a script meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner, Result

from agentmem._cli._app import app
from agentmem._cli._input import documents
from agentmem.errors import AgentMemError, InvalidInputError, ModelMismatchError


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("AGENTMEM_URL", str(tmp_path / "memory"))
    monkeypatch.setenv("COLUMNS", "200")
    runner = CliRunner()

    def run(*arguments: str, fails: int = 0, **more: Any) -> Result:
        result = runner.invoke(app, arguments, **more)
        assert result.exit_code == fails, (result.output, result.exception)
        return result

    return run


def ids(command: Any) -> list[str]:
    page = json.loads(command("list", "--user", "ada", "--json").stdout)
    return [document["id"] for document in page["documents"]]


def test_write_search_forget_restore(command: Any) -> None:
    written = command(
        "write", "tea with milk", "the kettle boils", "--user", "ada", "--metadata", '{"kind": "x"}'
    )
    assert "2 created" in written.stdout
    assert (
        "1 unchanged"
        in command("write", "tea with milk", "--user", "ada", "--metadata", '{"kind": "x"}').stdout
    )
    result = command("search", "kettle", "--user", "ada", "-k", "1")
    assert "the kettle boils" in result.stdout
    assert "Nothing was found" in command("search", "kettle").stdout
    found = json.loads(command("search", "kettle", "--user", "ada", "--json").stdout)
    assert found["hits"][0]["text"] == "the kettle boils"
    explained = command("search", "kettle", "--user", "ada", "--explain").stdout
    assert "candidates" in explained
    assert "kept as [1]" in explained
    context = command("search", "kettle", "--user", "ada", "--context", "-k", "1").stdout
    assert context.startswith("[1] (")
    name = found["hits"][0]["document_id"]
    assert "1 would be forgotten" in command("forget", name, "--user", "ada", "--dry-run").stdout
    assert "1 forgotten" in command("forget", name, "--user", "ada").stdout
    assert command("count", "--user", "ada").stdout.strip() == "1"
    assert "1 restored" in command("restore", name, "--user", "ada").stdout
    assert command("get", name, "--user", "ada").stdout == "the kettle boils\n"
    purged = command("forget", name, "--user", "ada", "--purge").stdout
    assert "found nothing" in purged
    assert "restored" in command("restore", name, "--user", "ada", fails=1).stdout


def test_keys_versions_and_time(command: Any) -> None:
    command("write", "first", "--key", "k", "--valid-from", "2025-01-01")
    command("write", "second", "--key", "k")
    assert command("history", "k").stdout.count("│ k ") == 2  # an id may begin with k
    versions = json.loads(command("history", "k", "--json").stdout)
    assert [v["content"] for v in versions] == ["first", "second"]
    assert versions[0]["valid_from"].startswith(("2025-01-01", "2024-12-31"))
    listed = json.loads(command("list", "--as-of", "2025-02-01", "--json").stdout)
    assert [d["content"] for d in listed["documents"]] == ["first"]


def test_pages(command: Any) -> None:
    command("write", *(f"note {n}" for n in range(5)))
    page = json.loads(command("list", "--limit", "2", "--json").stdout)
    assert len(page["documents"]) == 2
    following = json.loads(command("list", "--cursor", page["cursor"], "--json").stdout)
    assert len(following["documents"]) == 3
    assert "more: --cursor" in command("list", "--limit", "2").stdout


def test_files_lines_folders_and_standard_input(command: Any, tmp_path: Path) -> None:
    (tmp_path / "notes" / "deep").mkdir(parents=True)
    (tmp_path / "notes" / "a.md").write_text("# tea")
    (tmp_path / "notes" / "deep" / "b.txt").write_text("milk")
    (tmp_path / "notes" / "c.png").write_bytes(b"\x89PNG")
    lines = tmp_path / "rows.jsonl"
    lines.write_text(
        '{"content": "sugar", "key": "s", "metadata": {"n": 1}}\n\n'
        '{"content": "salt", "valid_from": "2025-01-01T00:00:00+00:00"}\n'
    )
    assert "2 created" in command("write", "--file", str(tmp_path / "notes")).stdout
    (tmp_path / "notes" / "a.md").write_text("# green tea")
    again = command("write", "--file", str(tmp_path / "notes")).stdout
    assert "1 updated" in again
    assert "1 unchanged" in again
    assert "2 created" in command("write", "--file", str(lines)).stdout
    assert "1 created" in command("write", "-", input="from a pipe").stdout
    page = json.loads(command("list", "--json").stdout)
    assert {d["key"] for d in page["documents"]} == {"a.md", "deep/b.txt", "s", None}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 of"),
        ("[1]", "must be a JSON object"),
        ('{"text": "x"}', "unknown field 'text'"),
        ('{"key": "x"}', "has no text in 'content'"),
        ('{"content": 5}', "has no text in 'content'"),
        ('{"content": "x", "valid_from": "soon"}', "which is no time"),
    ],
)
def test_lines_that_cannot_be_read(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(line)
    with pytest.raises(InvalidInputError, match=message):
        list(documents([], [path]))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read: No such file"):
        list(documents([], [tmp_path / "none.txt"]))
    (tmp_path / "x.bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match="no UTF-8 text"):
        list(documents([], [tmp_path / "x.bin"]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="holds no"):
        list(documents([], [tmp_path / "empty"]))


def test_many_documents_are_asked_for(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_FORGET_LIMIT", "2")
    command("write", "a", "b", "c")
    command("forget", "--everything", input="n\n", fails=1)
    assert command("count").stdout.strip() == "3"
    assert "3 forgotten" in command("forget", "--everything", input="y\n").stdout
    command("write", "d", "e", "f")
    # Those that were forgotten before are purged as well.
    assert "6 purged" in command("forget", "--everything", "--purge", "--yes").stdout


def test_receipts(command: Any, tmp_path: Path) -> None:
    assert "the chain of 0 receipts is whole" in command("receipts", "verify").stdout
    command("write", "tea")
    command("forget", "--everything")
    listed = json.loads(command("receipts", "list", "--json").stdout)
    assert [entry["action"] for entry in listed] == ["forget"]
    assert listed[0]["hash"] in command("receipts", "list").stdout
    assert listed[0]["hash"] in command("receipts", "verify").stdout
    with apsw.Connection(str(tmp_path / "memory" / "memory.db")) as connection:
        connection.execute("UPDATE receipts SET ids = '[]'")
    connection.close()
    assert "broken at 1" in command("receipts", "verify", fails=1).stdout


def test_verify_and_repair(command: Any, tmp_path: Path) -> None:
    command("write", "tea")
    command("search", "tea")
    assert "no fault" in command("verify").stdout
    with apsw.Connection(str(tmp_path / "memory" / "memory.db")) as connection:
        connection.execute("DELETE FROM vectors")
    connection.close()
    assert "fault: vector" in command("verify", fails=1).stdout
    assert "repaired: vector" in command("verify", "--repair").stdout
    assert json.loads(command("verify", "--json").stdout) == {"findings": []}


def test_reembed(command: Any, tmp_path: Path) -> None:
    command("write", "the kettle boils")
    assert "is embedded by" in command("reembed").stdout
    with apsw.Connection(str(tmp_path / "memory" / "memory.db")) as connection:
        connection.execute("UPDATE meta SET value = 'former' WHERE name = 'embedder'")
        connection.execute("UPDATE vectors SET embedding = zeroblob(400)")
    connection.close()
    refused = command("search", "kettle", fails=1)
    assert isinstance(refused.exception, ModelMismatchError)
    assert "agentmem reembed" in str(refused.exception)
    assert json.loads(command("reembed", "--json").stdout)["embedder"] != "former"
    assert "the kettle boils" in command("search", "kettle").stdout
    assert "no fault" in command("verify").stdout


def test_numbers_and_settings(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    command("write", "tea")
    assert json.loads(command("stats", "--json").stdout)["documents"] == 1
    assert "documents" in command("stats").stdout
    assert "compacted" in command("compact").stdout
    monkeypatch.setenv("AGENTMEM_ORACLE_PASSWORD", "hunter2")
    monkeypatch.setenv("AGENTMEM_URL", "oracle://u:hunter2@h/s")
    for output in (command("config").stdout, command("config", "--json").stdout):
        assert "hunter2" not in output
        assert "oracle_pool_max" in output


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "x", "--where", "{"],
        ["search", "x", "--where", '{"a": {"bad": 1}}'],
        ["search", "x", "--as-of", "yesterday"],
        ["search", "x", "-k", "0"],
        ["write", "x", "--metadata", "[1]"],
        ["write", "   "],
        ["forget"],
        ["get", "x", "--url", "postgres://h"],
    ],
)
def test_a_fault_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentmem", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout


@pytest.mark.parametrize(
    "arguments", [["write"], ["search"], ["nothing"], ["search", "x", "-k", "y"]]
)
def test_a_wrong_call_exits_with_2(command: Any, arguments: list[str]) -> None:
    command(*arguments, fails=2)


def test_what_is_not_there(command: Any) -> None:
    assert "there is no document" in command("get", "a" * 24, fails=1).stderr
    assert "not found: nothing" in command("forget", "nothing").stdout
    assert "There are no such documents" in command("list").stdout


def test_moving(command: Any, tmp_path: Path) -> None:
    command("write", "tea", "milk", "--user", "ada")
    path, other = str(tmp_path / "m.parquet"), str(tmp_path / "other")
    assert "2 documents, 2 versions" in command("export", path).stdout
    assert "2 documents stored" in command("import", path, "--url", other).stdout
    assert "2 were there" in command("import", path, "--url", other).stdout
    again = json.loads(command("copy", str(tmp_path / "memory"), other, "--json").stdout)
    assert (again["present"], again["comparison"]["missing"]) == (2, [])
    command("forget", "--user", "ada", "--url", other)
    assert "different" in command("copy", str(tmp_path / "memory"), other, fails=1).stdout
    (tmp_path / "t.csv").write_text("id,body\n1,salt\n")
    assert (
        "1 created of 1"
        in command(
            "import", str(tmp_path / "t.csv"), "--map", "content=body", "--map", "key=id"
        ).stdout
    )
    command("import", str(tmp_path / "t.csv"), "--map", "content", fails=1)


def test_every_command_and_option_says_what_it_is() -> None:
    import typer

    def walk(group: Any, path: str) -> None:
        for name, inner in getattr(group, "commands", {}).items():
            assert inner.help, f"{path} {name}"
            for parameter in inner.params:
                assert getattr(parameter, "help", None), f"{path} {name} {parameter.name}"
            walk(inner, f"{path} {name}")

    walk(typer.main.get_command(app), "agentmem")


def test_errors_of_ours_are_not_swallowed(command: Any) -> None:
    result = command("search", "x", "--url", "postgres://h", fails=1)
    assert isinstance(result.exception, AgentMemError)
