"""Question sets, measures after each stage, comparisons, the page, drafts from a log."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentmem import Document, F, Memory, Progress, Settings
from agentmem._cli._app import app
from agentmem.errors import ConfigurationError, InvalidInputError
from agentmem.evaluation import Target, evaluate, load_questions, read_log
from agentmem.evaluation._report import check_bounds, html_report, missing_lines
from tests.support import WordEmbedder

TEXTS = {
    "ferry": "The ferry leaves at seven from pier two.",
    "wifi": "The password of the network is heron.",
    "boiler": "The boiler was serviced in May.",
    "garden": "Water the ferns on Friday.",
}


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


async def filled(folder: Path, **given: Any) -> Memory:
    memory = Memory(folder, embedder=WordEmbedder(), **given)
    await memory.open()
    await memory.write([Document(text, key=key) for key, text in TEXTS.items()])
    return memory


async def test_measures_of_each_stage(tmp_path: Path) -> None:
    memory = await filled(tmp_path / "m")
    wifi = (await memory.history("wifi"))[0].id
    path = lines(
        tmp_path / "q.jsonl",
        {"query": "When does the ferry leave?", "relevant": [{"key": "ferry"}]},
        {"query": "password heron", "relevant": [wifi]},
        {"query": "boiler", "relevant": [{"quote": "SERVICED  in may"}, {"key": "wifi"}]},
    )
    told: list[Progress] = []
    found = await evaluate(memory, load_questions(path), on_progress=told.append)
    await memory.close()
    assert [step.done for step in told] == [1, 2, 3]
    full = found.measures()
    assert full["recall@1"] == pytest.approx((1 + 1 + 0.5) / 3)
    assert full["success@5"] == full["mrr"] == 1.0
    assert found.measures("lexical")["recall@1"] == full["recall@1"]
    # The third question's second answer is found by meaning alone: no word of it is in the query.
    assert found.measures("lexical")["recall@10"] == pytest.approx(2.5 / 3)
    assert found.measures("vector")["recall@10"] == 1.0
    assert found.by_question("recall@1") == {"1": 1.0, "2": 1.0, "3": 0.5}
    times = found.times()
    assert list(times) == [
        "understand", "scope", "candidates", "fuse", "rerank", "budget", "total",
    ]  # fmt: skip
    assert 0 < times["total"][0] <= times["total"][1]
    assert found.tokens() > 0
    assert missing_lines(found) == []
    assert check_bounds(found, [("recall@1", 0.8), ("mrr", 1.0)]) == []
    assert check_bounds(found, [("recall@1", 0.9)]) == ["recall@1 is 0.833, below 0.900"]


async def test_answers_that_are_nowhere_count_as_not_found_and_are_named(tmp_path: Path) -> None:
    memory = await filled(tmp_path / "m")
    path = lines(
        tmp_path / "q.jsonl",
        {"id": "a", "query": "ferry", "relevant": [{"key": "boat"}]},
        {"id": "b", "query": "ferry", "relevant": ["nosuchid"], "draft": True},
        {"id": "c", "query": "ferry", "relevant": [{"quote": "submarine"}, {"key": "ferry"}]},
    )
    found = await evaluate(memory, load_questions(path))
    await memory.close()
    assert found.by_question("recall@10") == {"a": 0.0, "b": 0.0, "c": 0.5}
    said = missing_lines(found)
    assert len(said) == 4
    assert "question a: key 'boat'" in said[0]
    assert "1 questions are drafts" in said[3]


async def test_scope_and_grades_of_a_question_count(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m", embedder=WordEmbedder())
    await memory.open()
    await memory.write("tide at nine", key="t", user_id="ada", metadata={"kind": "x"})
    await memory.write("tide at ten", key="t", user_id="bob", collection="c")
    path = lines(
        tmp_path / "q.jsonl",
        {"query": "tide", "relevant": [{"key": "t"}], "user_id": "ada", "where": {"kind": "x"}},
        {
            "query": "tide",
            "relevant": [{"key": "t", "collection": "c", "grade": 3}],
            "user_id": "bob",
            "collections": ["c"],
            "as_of": "2999-01-01",
        },
        {"query": "tide", "relevant": [{"key": "t"}], "user_id": "ada", "where": {"kind": "y"}},
    )
    questions = load_questions(path)
    assert questions[1].relevant == (Target(key="t", collection="c", grade=3),)
    found = await evaluate(memory, questions)
    await memory.close()
    assert found.by_question("recall@1") == {"1": 1.0, "2": 1.0, "3": 0.0}
    assert list(found.answers[1].relevant.values()) == [3]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is no JSON"),
        ("[1]", "must be an object"),
        ('{"query": "x"}', "needs 'relevant'"),
        ('{"query": " ", "relevant": ["a"]}', "needs a 'query'"),
        ('{"query": "x", "relevant": []}', "needs 'relevant'"),
        ('{"query": "x", "relevant": [{"key": "a", "id": "b"}]}', "one of id, key and quote"),
        ('{"query": "x", "relevant": [{"key": "a", "grade": 0}]}', "grade is 0"),
        ('{"query": "x", "relevant": [{"quote": " "}]}', "one of id, key and quote"),
        ('{"query": "x", "relevant": [1]}', "an id or an object"),
        ('{"query": "x", "relevant": ["a"], "wher": {}}', "has 'wher'"),
        ('{"query": "x", "relevant": ["a"], "where": {"a": {"bad": 1}}}', "bad"),
        ('{"query": "x", "relevant": ["a"], "as_of": "yesterday"}', "as_of is 'yesterday'"),
        ('{"query": "x", "relevant": ["a"], "collections": "c"}', "list of names"),
        ('{"query": "x", "relevant": ["a"], "user_id": 3}', "user_id must be a text"),
        ('{"query": "x", "relevant": ["a"], "id": "1"}', "two questions have the id '1'"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"query": "fine", "relevant": ["a"]}\n' + line + "\n")
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        load_questions(path)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="could not read"):
        load_questions(tmp_path / "none.jsonl")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(InvalidInputError, match="holds no question"):
        load_questions(tmp_path / "empty")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match="could not read"):
        load_questions(tmp_path / "bytes")


async def test_the_page_escapes_and_fetches_nothing(tmp_path: Path) -> None:
    memory = await filled(tmp_path / "m")
    await memory.write("<script>alert(1)</script> ferry")
    path = lines(
        tmp_path / "q.jsonl",
        {"query": "<b>ferry</b> & tide", "relevant": [{"key": "boat"}]},
        {"query": "boiler", "relevant": [{"key": "boiler"}]},
    )
    found = await evaluate(memory, load_questions(path))
    await memory.close()
    text = html_report({"first": found, "second": found}, source="<i>q</i>.jsonl")
    assert "<script>" not in text
    assert "<b>ferry" not in text
    assert "&lt;b&gt;ferry" in text
    assert text.count("<svg") == 3
    assert re.findall(r"""(?:href|src)=["'](?!#)([^"']+)""", text) == []


# ------------------------------------------------------------------------- the log of searches


async def test_searches_are_logged_when_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "searches.jsonl"
    settings = Settings(url=str(tmp_path / "m"), search_log=log)
    async with Memory(settings, embedder=WordEmbedder()) as memory:
        written = await memory.write("tide at nine", user_id="ada", metadata={"kind": "x"})
        await memory.search("Tide", user_id="ada", where=F("kind") == "x", collections=["default"])
        await memory.search(" tide ", user_id="ada", where={"kind": "x"}, collections=["default"])
        await memory.search("tide", user_id="bob")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(records) == 3
    assert records[0]["hits"] == list(written.ids)
    assert records[2]["hits"] == []
    assert "nine" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    first, second = read_log(log)
    assert (first.query, first.times) == ("Tide", 2)
    assert first.scope["where"] == {"kind": {"eq": "x"}}
    assert (second.scope, second.times) == ({"user_id": "bob"}, 1)


async def test_a_log_that_cannot_be_written_stops_no_search(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(url=str(tmp_path / "m"), search_log=tmp_path / "no" / "such" / "folder")
    caplog.set_level(logging.WARNING, "agentmem")
    async with Memory(settings, embedder=WordEmbedder()) as memory:
        await memory.write("tide")
        for _ in range(3):
            assert len((await memory.search("tide")).hits) == 1
    assert len(caplog.records) == 1
    assert "cannot be logged" in caplog.text


def test_a_log_with_a_line_cut_short_is_read_and_another_file_is_not(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"query": "tide"}\n{"query": "mo')
    assert [entry.query for entry in read_log(log)] == ["tide"]
    log.write_text('hello\n{"query": "tide"}\n')
    with pytest.raises(InvalidInputError, match="line 1 is no logged search"):
        read_log(log)
    with pytest.raises(InvalidInputError, match="could not read the log"):
        read_log(tmp_path / "none")


# ------------------------------------------------------------------------- the command


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("AGENTMEM_URL", str(tmp_path / "memory"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def run(*arguments: str, fails: int = 0, **more: Any) -> Result:
        result = runner.invoke(app, arguments, **more)
        assert result.exit_code == fails, (result.output, result.exception)
        return result

    documents = ({"content": text, "key": key} for key, text in TEXTS.items())
    run("write", "--file", str(lines(tmp_path / "texts.jsonl", *documents)))
    lines(
        tmp_path / "q.jsonl",
        {"query": "When does the ferry leave?", "relevant": [{"key": "ferry"}]},
        {"query": "Which day for the ferns?", "relevant": [{"quote": "Friday"}]},
    )
    return run


def test_eval_measures_compares_and_reports(command: Any, tmp_path: Path) -> None:
    shown = command("eval", "q.jsonl", "--report", "r.html").stdout
    for word in ("ndcg@10", "vector", "lexical", "fused", "full", "rerank", "tokens of context"):
        assert word in shown
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    result = json.loads(command("eval", "run", "q.jsonl", "--json").stdout)
    assert result["first"]["measures"]["full"]["recall@1"] == 1.0
    both = command("eval", "q.jsonl", "--with", "reranker=none", "--with", "pool=50").stdout
    assert "Difference, second minus first" in both
    (tmp_path / "other.toml").write_text('reranker = "none"\n')
    other = json.loads(command("eval", "q.jsonl", "--against", "other.toml", "--json").stdout)
    assert {row["measure"] for row in other["difference"]} >= {"ndcg@10", "recall@1"}
    command("eval", "q.jsonl", "--fail-under", "ndcg@10=0.5")
    lines(tmp_path / "bad.jsonl", {"query": "ferry", "relevant": [{"key": "boat"}]})
    low = command("eval", "bad.jsonl", "--fail-under", "ndcg@10=0.5", fails=1)
    assert "ndcg@10 is 0, below 0.500" in low.stderr
    assert "key 'boat'" in command("eval", "bad.jsonl", "--strict", fails=1).stderr
    command("eval", "bad.jsonl")


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["q.jsonl", "--with", "pool"], InvalidInputError, "NAME=VALUE"),
        (["q.jsonl", "--with", "pol=3"], InvalidInputError, "name of a setting"),
        (["q.jsonl", "--with", "pool=x"], ConfigurationError, "pool"),
        (["q.jsonl", "--fail-under", "ndcg=1"], InvalidInputError, "ndcg@10"),
        (["q.jsonl", "--fail-under", "mrr=2"], InvalidInputError, "from 0 to 1"),
        (["none.jsonl"], InvalidInputError, "could not read"),
        (["q.jsonl", "--against", "none.toml"], ConfigurationError, "none.toml"),
    ],
)
def test_eval_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    kind: type,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "q.jsonl", {"query": "ferry", "relevant": ["a"]})
    result = CliRunner().invoke(app, ["eval", *arguments])
    assert isinstance(result.exception, kind)
    assert message in str(result.exception)


def test_draft_asks_and_goes_on_later(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTMEM_SEARCH_LOG", str(tmp_path / "log.jsonl"))
    for query in ("the ferry", "The  Ferry", "boiler", "ferns"):
        command("search", query)
    monkeypatch.delenv("AGENTMEM_SEARCH_LOG")
    first = command("eval", "draft", "log.jsonl", "-o", "set.jsonl", input="x\n99\n1\nq\n")
    assert "asked 2 times" in first.stdout
    assert "1 questions added" in first.stdout
    assert [question.query for question in load_questions(tmp_path / "set.jsonl")] == ["the ferry"]
    command("eval", "draft", "log.jsonl", "-o", "set.jsonl", input="s\n1\n")
    drafted = load_questions(tmp_path / "set.jsonl")
    assert [question.query for question in drafted] == ["the ferry", "ferns"]
    assert not any(question.draft for question in drafted)
    taken = command("eval", "draft", "log.jsonl", "-o", "all.jsonl", "--accept-top", "1")
    assert "3 questions added" in taken.stdout
    shown = command("eval", "all.jsonl")
    assert "3 questions are drafts" in shown.stderr
