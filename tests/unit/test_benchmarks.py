"""Suites are read strictly, run in processes of their own, checked and reported."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentmem import Settings
from agentmem.evaluation import by_query, compare, measures_of
from agentmem.evaluation._tables import number
from agentmem.models.onnx_embedder import OnnxEmbedder
from benchmarks.__main__ import app
from benchmarks._datasets import DataError
from benchmarks._material import _base, _documents
from benchmarks._results import Results, measured
from benchmarks._suite import Case, Expected, load_suite, ratio_of, suite_names
from benchmarks.systems import find_system, system_names

SUITE = """
title = "Tiny"
about = "Three documents."

[[case]]
id = "full"
system = "embedded"
data = "tiny"
reopen = true
expect = { "recall@1" = { value = 1.0 }, "p50_ms / floor" = { value = 1000, bound = "most" } }

[[case]]
id = "floor"
system = "floor"
data = "tiny"
expect = { "recall@10" = { value = 0.0 } }

[[case]]
id = "many"
system = "embedded"
data = "scale"
rows = 120
users = 3
passing = 0.5
load = true

[[case]]
id = "elsewhere"
system = "embedded"
data = "missing"

[[case]]
id = "nothing"
system = "embedded"
data = "tiny"
settings = { pool = 0 }
"""
TEXTS = {"a": "The kettle boils.", "b": "The heron stands in the water.", "c": "Rain is near."}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny = tmp_path / "data" / "tiny"
    tiny.mkdir(parents=True)
    rows = [{"id": k, "conversation": "c", "text": t} for k, t in TEXTS.items()]
    asked = [
        {"id": "q1", "conversation": "c", "question": "Who boils?", "relevant": ["a"]},
        {"id": "q2", "conversation": "c", "question": "Where is the heron?", "relevant": ["b"]},
    ]
    for name, records in (("corpus", rows), ("queries", asked)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (tiny / f"{name}.jsonl").write_text(lines)
    (tmp_path / "suite.toml").write_text(SUITE)
    return tmp_path


def test_a_run_is_kept_checked_and_reported(folder: Path) -> None:
    suite, out = str(folder / "suite.toml"), str(folder / "out.duckdb")
    runner = CliRunner(env={"COLUMNS": "200"})
    done = runner.invoke(app, ["run", suite, "--data", str(folder / "data"), "--out", out])
    assert done.exit_code == 1, done.output  # two cases cannot be measured, one expectation fails
    lines = {tuple(part.strip() for part in line.split("│")) for line in done.output.splitlines()}
    verdicts = {(row[1], row[2]): row[5] for row in lines if len(row) == 7}
    assert verdicts == {
        ("full", "recall@1"): "OK",
        ("full", "p50_ms / floor"): "OK",
        ("floor", "recall@10"): "FAIL",
    }
    assert "elsewhere: the set 'missing' is not here" in done.output
    assert "nothing: " in done.output
    assert "pool" in done.output

    results = Results(Path(out))
    run = results.last_run(suite)
    assert run is not None
    full, many = results.values(run, "full"), results.values(run, "many")
    results.close()
    stages = ("understand", "scope", "candidates", "fuse", "rerank", "budget")
    parts = [full[f"mean_ms/{stage}"] for stage in stages]
    assert sum(parts) <= full["mean_ms"] * 1.01
    assert full["ndcg@10"] == full["recall@10/lexical"] == 1.0
    for name in ("rows_per_s", "share_of_embedding", "rss_mb", "open_and_search_s"):
        assert full[name] > 0, name
    assert many["rows"] == 120
    for name in ("write_ms", "write_over_bare", "searches_per_s", "together", "slowest"):
        assert many[name] > 0, name
    assert "stall_ms" in many
    assert "stall_ms" not in full
    assert "share_of_embedding" not in many
    assert "ndcg@10" not in many

    html, markdown = folder / "r.html", folder / "r.md"
    done = runner.invoke(
        app, ["report", suite, "--out", out, "--html", str(html), "--markdown", str(markdown)]
    )
    assert done.exit_code == 0, done.output
    page = html.read_text()
    assert page.count("<svg") >= 3
    links = set(re.findall(r"""(?:href|src)=["'](?!#)([^"']+)""", page))
    assert links == set(), "a page must not fetch anything"
    assert "elsewhere" in markdown.read_text()
    assert "Under load" in markdown.read_text()
    again = runner.invoke(app, ["check", suite, "--out", out])
    assert again.exit_code == 1


def test_the_projects_suites_can_be_read_and_name_systems_that_exist() -> None:
    assert suite_names()
    for name in suite_names():
        assert {case.system for case in load_suite(name).case} <= set(system_names()), name


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id = "floor"', 'id = "full"', "two cases are called 'full'"),
        ("/ floor", "/ ground", "names no case"),
        ("rows = 120\n", "", "'rows' belongs to the data 'scale'"),
        ("users = 3", "user = 3", "user"),
        ("title =", "title", "is not TOML"),
    ],
)
def test_a_suite_with_a_mistake_is_refused(folder: Path, old: str, new: str, message: str) -> None:
    path = folder / "bad.toml"
    path.write_text(SUITE.replace(old, new))
    with pytest.raises(DataError, match=message):
        load_suite(str(path))


def test_names_that_do_not_exist_are_answered_with_those_that_do(folder: Path) -> None:
    with pytest.raises(DataError, match="quality"):
        load_suite("nothing")
    with pytest.raises(DataError, match="embedded"):
        find_system("nothing")
    runner = CliRunner()
    done = runner.invoke(app, ["run", str(folder / "suite.toml"), "--case", "no"])
    assert isinstance(done.exception, DataError)
    done = runner.invoke(app, ["check", "quality", "--out", str(folder / "empty.duckdb")])
    assert isinstance(done.exception, DataError)


@pytest.mark.parametrize(
    ("bound", "measured_value", "verdict"),
    [
        ("about", 0.50, "OK"),
        ("about", 0.52, "OK"),
        ("about", 0.53, "near"),
        ("about", 0.46, "near"),
        ("about", 0.55, "FAIL"),
        ("least", 0.90, "OK"),
        ("least", 0.47, "near"),
        ("least", 0.40, "FAIL"),
        ("most", 0.10, "OK"),
        ("most", 0.55, "FAIL"),
        ("about", None, "not measured"),
    ],
)
def test_verdicts(bound: str, measured_value: float | None, verdict: str) -> None:
    expected = Expected.model_validate({"value": 0.5, "tolerance": 0.02, "bound": bound})
    assert expected.verdict(measured_value) == verdict


def test_ratios() -> None:
    assert ratio_of("p50_ms / floor-10k") == ("p50_ms", "floor-10k")
    assert ratio_of("p50_ms/rerank") is None
    values = {"a": {"p50_ms": 6.0}, "b": {"p50_ms": 4.0}, "c": {}}
    assert measured("p50_ms / b", "a", values) == 1.5
    assert measured("p50_ms / c", "a", values) is None
    assert measured("p50_ms", "c", values) is None


def test_measures_and_differences() -> None:
    rows = [("q1", ["a", "b"], ["a"]), ("q2", ["b", "a"], ["a"]), ("q3", [], ["a"])]
    values = measures_of(rows)
    assert values["recall@1"] == pytest.approx(1 / 3)
    assert values["mrr"] == pytest.approx(0.5)
    each = by_query(rows, "mrr")
    assert each == {"q1": 1.0, "q2": 0.5, "q3": 0.0}
    better = {str(n): 0.6 for n in range(40)}
    worse = {str(n): 0.5 - 0.01 * (n % 3) for n in range(40)}
    found = compare(worse, better)
    assert found is not None
    assert found.low < found.mean < found.high
    assert found.p < 0.001
    steady = compare(worse, {name: value + 0.25 for name, value in worse.items()})
    assert steady is not None
    assert (steady.low, steady.high) == pytest.approx((0.25, 0.25))
    same = compare(worse, worse)
    assert same is not None
    assert same.p == 1.0
    assert compare({"a": 1.0}, {"b": 1.0}) is None


def test_numbers_are_shown_with_the_digits_that_matter() -> None:
    assert [number(v) for v in (3.0, 1234.5, 12.34, 0.5571)] == ["3", "1,234", "12.3", "0.557"]


async def test_a_row_of_the_scale_is_one_chunk(real_embedder: OnnxEmbedder) -> None:
    texts, _ = _base(None)
    case = Case(id="x", system="floor", data="scale", rows=2 * len(texts))
    for document in _documents(texts, 2 * len(texts), case):
        assert real_embedder.count_tokens(document.content) <= Settings().chunk_tokens
