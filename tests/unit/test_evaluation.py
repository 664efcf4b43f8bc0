"""Question sets, measures after each stage, comparisons, the page, drafts from a log."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentmem import Document, F, Memory, Progress, Settings
from agentmem._cli._app import app
from agentmem._cli._eval_settings import changed, difference
from agentmem.errors import ConfigurationError, InvalidInputError
from agentmem.evaluation import (
    RANKINGS,
    Answer,
    Evaluation,
    Question,
    Target,
    Wanted,
    compare,
    evaluate,
    load_questions,
    read_log,
)
from agentmem.evaluation._report import html_report
from agentmem.evaluation._tables import as_json, check_bounds, missing_lines, remarks, verdict
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
    assert full["success@1"] == full["success@5"] == full["mrr"] == 1.0
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
    assert len(said) == 3
    assert "question a: the memory has no document with key 'boat'" in said[0]
    assert "quote 'submarine'" in said[2]
    assert "1 of the questions are drafts" in remarks(found)[0]


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
        ('{"query": "x", "relevant": ["a"], "unanswerable": true}', '"unanswerable": true'),
        ('{"query": "x", "relevant": ["a"], "draft": "no"}', "draft must be true or false"),
        ('{"query": "x", "relevant": [{"id": "a", "collection": 1}]}', "collection must be"),
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


async def test_a_quote_is_answered_by_any_document_that_holds_it(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m", embedder=WordEmbedder())
    await memory.open()
    for text in ("The tide is at nine. Boats wait.", "Nine o'clock: the tide is at nine."):
        await memory.write(text)
    path = lines(tmp_path / "q.jsonl", {"query": "tide nine", "relevant": [{"quote": "at nine"}]})
    found = await evaluate(memory, load_questions(path))
    await memory.close()
    answer = found.answers[0]
    # Whichever of the two a ranking puts first, its first place is right.
    assert [answer.place(ranking) for ranking in RANKINGS] == [1, 1, 1, 1]
    assert len(answer.judged()) == 1
    assert len(answer.rankings["full"]) == 2
    assert {found.measures(ranking)["recall@1"] for ranking in RANKINGS} == {1.0}


def test_each_ranking_is_judged_by_the_holder_that_stands_first_in_it() -> None:
    answer = Answer(
        question=Question("1", "tide", (Target(quote="nine"),)),
        rankings={"vector": ["x", "b", "a"], "full": ["a", "x", "b"], "lexical": ["x"]},
        wanted=(Wanted(Target(quote="nine"), "a", "nine"),),
        stands_for={"a": "a", "b": "a"},
        tokens=1,
        milliseconds={"total": 1.0},
        found=(),
    )
    assert answer.judged("vector") == ["x", "a"]
    assert [answer.place(name) for name in ("vector", "full", "lexical")] == [2, 1, None]


async def test_a_quote_that_no_search_finds_is_told_from_one_that_is_not_there(
    tmp_path: Path,
) -> None:
    memory = Memory(Settings(url=str(tmp_path / "m"), pool=1, fused=1), embedder=WordEmbedder())
    await memory.open()
    await memory.write("tide tide tide")
    hidden = await memory.write("The heron\n  waits.", user_id="ada")
    await memory.write("Ada's secret egret", user_id="bob")
    path = lines(
        tmp_path / "q.jsonl",
        {"query": "tide", "relevant": [{"quote": "heron waits"}], "user_id": "ada"},
        {"query": "tide", "relevant": [{"quote": "egret"}], "user_id": "ada"},
    )
    found = await evaluate(memory, load_questions(path), k=1)
    await memory.close()
    assert list(found.answers[0].relevant) == list(hidden.ids)
    assert found.by_question("recall@10") == {"1": 0.0, "2": 0.0}
    assert [line.split(":")[0] for line in missing_lines(found)] == ["question 2"]


async def test_small_pools_are_measured_as_they_are(tmp_path: Path) -> None:
    path = lines(tmp_path / "q.jsonl", {"query": "ferry", "relevant": [{"key": "garden"}]})
    await (await filled(tmp_path / "m")).close()
    seen = []
    for pool in (1, 100):
        settings = Settings(url=str(tmp_path / "m"), pool=pool)
        async with Memory(settings, embedder=WordEmbedder()) as memory:
            found = await evaluate(memory, load_questions(path), k=1)
        seen.append((found.measures("vector")["recall@10"], found.measures()["recall@10"]))
    assert seen == [(0.0, 0.0), (1.0, 1.0)]


async def test_unanswerable_questions_are_counted_and_not_asked(tmp_path: Path) -> None:
    memory = await filled(tmp_path / "m")
    nothing = {"query": "snow", "relevant": [], "unanswerable": True}
    path = lines(tmp_path / "q.jsonl", nothing, {"query": "ferry", "relevant": [{"key": "ferry"}]})
    found = await evaluate(memory, load_questions(path))
    assert [answer.question.query for answer in found.answers] == ["ferry"]
    assert remarks(found) == ["1 unanswerable questions were not asked"]
    with pytest.raises(InvalidInputError, match="nothing to measure"):
        await evaluate(memory, load_questions(lines(tmp_path / "none.jsonl", nothing)))
    await memory.close()


def test_equal_changes_have_an_interval() -> None:
    before = {str(n): 0.0 for n in range(8)}
    found = compare(before, {name: 0.5 for name in before})
    assert found is not None
    assert (found.low, found.high) == (0.5, 0.5)
    assert found.p < 0.01
    mixed = compare(before, {name: n / 8 for n, name in enumerate(before)})
    assert mixed is not None
    assert mixed.low < mixed.mean < mixed.high


async def compared(folder: Path, *records: Any) -> tuple[Evaluation, Evaluation]:
    """Evaluations of a good memory and of one that holds nothing."""
    questions = load_questions(lines(folder / "q.jsonl", *records))
    good = await filled(folder / "good")
    first = await evaluate(good, questions)
    await good.close()
    async with Memory(folder / "empty", embedder=WordEmbedder()) as empty:
        return first, await evaluate(empty, questions)


async def test_a_comparison_says_whether_it_may_be_chance(tmp_path: Path) -> None:
    records = [{"query": text, "relevant": [{"key": key}]} for key, text in TEXTS.items()]
    first, second = await compared(tmp_path, *records, *records, *records)
    both = {"first": first, "second": second}
    assert "worse by 1.000" in verdict(both)
    assert "beyond chance" in verdict(both)
    assert "differently" in verdict({"first": first, "second": first})
    assert verdict({"first": first}) == ""
    few = {name: Evaluation(e.answers[:2], e.stats) for name, e in both.items()}
    assert "may be chance" in verdict(few)
    shown = json.loads(json.dumps(as_json(both, {"second": "empty"}), allow_nan=False))
    assert shown["second"]["settings"] == "empty"
    assert shown["changed"][0] == {"id": "1", "first": 1.0, "second": 0.0}
    assert shown["first"]["answers"][0]["places"] == dict.fromkeys(RANKINGS, 1)
    assert {entry["measure"]: entry["mean"] for entry in shown["differences"]}["mrr"] == -1.0


async def test_the_page_escapes_and_fetches_nothing(tmp_path: Path) -> None:
    tag = "<script>alert(1)</script>"
    first, second = await compared(
        tmp_path,
        {"query": "<b>ferry</b> & tide", "relevant": [{"quote": tag}]},
        {"query": "boiler", "relevant": [{"key": "boiler"}]},
    )
    text = html_report(
        {"first": first, "second": second}, source="<i>q</i>.jsonl", about={"second": f"url={tag}"}
    )
    assert "<script>" not in text
    assert "<b>ferry" not in text
    assert "<i>q" not in text
    assert "&lt;b&gt;ferry" in text
    assert "url=&lt;script&gt;" in text
    assert text.count("<svg") == 3
    assert re.findall(r"""(?:href|src)=["'](?!#)([^"']+)""", text) == []
    alone = html_report({"first": first}, source="q.jsonl", about={})
    assert alone.count("<svg") == 2
    assert "Is the second better" not in alone
    # Colours of drawings are those of the page, which is dark where the reader wants that.
    assert "var(--c0)" in alone
    drawings = re.findall(r"<svg.*?</svg>", alone, re.DOTALL)
    assert not any("#1c2126" in drawing for drawing in drawings)


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


@pytest.mark.parametrize("name", ["no/such/folder", "a\0b"])
async def test_a_log_that_cannot_be_written_stops_no_search(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    settings = Settings(url=str(tmp_path / "m"), search_log=tmp_path / name)
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


def test_a_log_of_several_tenants_is_read_for_one(tmp_path: Path) -> None:
    records = [{"query": name, "tenant": name} for name in ("acme", "initech")]
    log = lines(tmp_path / "log", *records)
    assert [entry.query for entry in read_log(log)] == ["acme", "initech"]
    assert [entry.query for entry in read_log(log, tenant="acme")] == ["acme"]


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
    assert "second (pool=50, reranker=none)" in both or "second (reranker=none, pool=50)" in both
    assert "No question is answered differently" in both
    (tmp_path / "other.toml").write_text('reranker = "none"\n')
    other = json.loads(command("eval", "q.jsonl", "--against", "other.toml", "--json").stdout)
    assert {row["measure"] for row in other["differences"]} >= {"ndcg@10", "recall@1"}
    assert other["second"]["settings"] == "reranker=none"
    command("eval", "--fail-under", "ndcg@10=0.5", "q.jsonl")
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
        (["q.jsonl", "--with", "chunk_tokens=64"], InvalidInputError, "changes nothing"),
        (["q.jsonl", "--report", "no/such.html"], InvalidInputError, "cannot be written"),
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


def test_settings_of_writing_may_differ_between_two_folders(command: Any, tmp_path: Path) -> None:
    command("write", TEXTS["ferry"], "--key", "ferry", "--url", "other")
    shown = command("eval", "q.jsonl", "--with", "chunk_tokens=64", "--with", "url=other").stdout
    assert "second (url=other, chunk_tokens=64)" in shown


def test_secrets_are_not_shown() -> None:
    first = Settings(url="oracle://me@host/service")
    second = changed(first, ["oracle_password=hush", "url=oracle://me:pw@host/other"], None)
    shown = difference(first, second)
    assert "hush" not in shown
    assert ":pw@" not in shown
    assert "oracle_password=another one" in shown
    assert difference(first, changed(first, [], None)) == "the same settings once more"


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    for name in ("ir_measures", "matplotlib"):
        text = f"raise ModuleNotFoundError({name!r}, name={name!r})"
        (tmp_path / f"{name}.py").write_text(text)
    lines(tmp_path / "q.jsonl", {"query": "ferry", "relevant": ["a"]})
    lines(tmp_path / "log.jsonl", {"query": "ferry"})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    for arguments in (["q.jsonl"], ["draft", "log.jsonl"]):
        done = subprocess.run(
            [sys.executable, "-m", "agentmem", "eval", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        assert done.returncode == 1
        assert "pip install 'agentmem[eval]'" in done.stderr
        assert "Traceback" not in done.stderr


def test_draft_asks_and_goes_on_later(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTMEM_SEARCH_LOG", str(tmp_path / "log.jsonl"))
    for query in ("the ferry", "The  Ferry", "boiler", "ferns"):
        command("search", query)
    monkeypatch.delenv("AGENTMEM_SEARCH_LOG")
    first = command("eval", "draft", "log.jsonl", "-o", "set.jsonl", input="x\n0\n99\n1\nq\n")
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
    assert "3 of the questions are drafts" in shown.stderr


def test_draft_takes_a_quote_or_no_answer_where_no_hit_is_right(
    command: Any, tmp_path: Path
) -> None:
    lines(tmp_path / "log.jsonl", {"query": "ferry"}, {"query": "snow"}, {"query": "boiler"})
    given = "n\nleaves at seven\nn\n\ns\n"
    command("eval", "draft", "log.jsonl", "-o", "set.jsonl", input=given)
    questions = load_questions(tmp_path / "set.jsonl")
    assert [question.relevant for question in questions] == [(Target(quote="leaves at seven"),), ()]
    # What was skipped comes again, what was answered does not.
    again = command("eval", "draft", "log.jsonl", "-o", "set.jsonl", input="q\n").stdout
    assert "boiler" in again
    assert "snow" not in again
    assert "unanswerable" in command("eval", "set.jsonl").stderr


def test_one_query_in_two_scopes_is_two_questions(command: Any, tmp_path: Path) -> None:
    ada = {"query": "ferry", "user_id": "ada", "where": {"kind": {"ne": "x"}}, "collections": None}
    lines(tmp_path / "log.jsonl", ada, {"query": "ferry", "tenant": "default"}, ada)
    for count in (2, 0):
        arguments = ("log.jsonl", "-o", "set.jsonl", "--accept-top", "1")
        assert f"{count} questions added" in command("eval", "draft", *arguments).stdout
    first, second = load_questions(tmp_path / "set.jsonl")
    assert (first.user_id, second.user_id) == ("ada", None)


def test_measuring_is_not_logged(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.jsonl"
    monkeypatch.setenv("AGENTMEM_SEARCH_LOG", str(log))
    command("search", "ferry")
    before = log.read_text()
    command("eval", "q.jsonl")
    command("eval", "draft", "log.jsonl", "-o", "set.jsonl", "--accept-top", "1")
    assert log.read_text() == before


def test_a_set_that_cannot_be_written_is_named(command: Any, tmp_path: Path) -> None:
    lines(tmp_path / "log.jsonl", {"query": "ferry"})
    arguments = ["eval", "draft", "log.jsonl", "-o", "no/set.jsonl", "--accept-top", "1"]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InvalidInputError)
    assert "cannot be added to 'no/set.jsonl'" in str(result.exception)
