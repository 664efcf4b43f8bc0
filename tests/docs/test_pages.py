"""The pages of docs/ are true: programs and commands run in order and print what is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import static
from tests.docs.pages import DOCS, PAGES, ROOT, RUN_FROM_THE_WHEEL, blocks, commands, fits
from tests.docs.run_page import Reader

_NAMED = [pytest.param(page, id=page.relative_to(DOCS).as_posix()) for page in PAGES]
_SLOW = {"evaluation.md", "oracle.md"}  # statistics and plots; models built for a database
_WITH_CODE = [
    pytest.param(
        page,
        id=page.relative_to(DOCS).as_posix(),
        marks=[pytest.mark.slow] if page.name in _SLOW else [],
    )
    for page in PAGES
    if "```" in page.read_text(encoding="utf-8")
]


def test_there_are_pages_with_code() -> None:
    assert len(_WITH_CODE) > 8


@pytest.mark.parametrize("page", _WITH_CODE)
def test_a_page_does_what_it_shows(tmp_path: Path, page: Path) -> None:
    # A process for each page: programs change what a process has only once, such as its tracer.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.docs.run_page", str(page)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", _NAMED)
def test_what_a_page_names_exists(page: Path) -> None:
    blocks(page)
    static.check_words(page)


def test_the_first_session_is_run_from_the_wheel() -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f'first_session.py "$wheel" {RUN_FROM_THE_WHEEL.relative_to(ROOT)}' in run
    assert blocks(RUN_FROM_THE_WHEEL)


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```", "but the page shows"),
        ("```python\nprint(1)\n```", "but the page shows"),
        ("```console\n$ agentmem count\n7\n```", "but the page shows"),
        ("```console\n$ agentmem cuont\n```", "ended with 2"),
        ("```console\n$ false | true; exit 3\n```", "ended with 3"),
        ("```yaml\na: 1\n```", "nothing can be done"),
        ("    indented\n", "without a language"),
        ("<!-- not run: x -->\n```python\nif\n```", "SyntaxError"),
        ("<!-- not run: x -->\n```console\n$ agentmem serach x\n```", "serach"),
        ("<!-- not run: x -->\n```console\n$ agentmem oracle init --amdin a\n```", "amdin"),
        ("<!-- not run: x -->\n```console\n$ pip install agentmem[orcale]\n```", "orcale"),
        ("<!-- not run: x -->\n```console\n$ export AGENTMEM_ORACEL_DSN=x\n```", "ORACEL"),
        ("```toml\npoool = 1\n```", "poool"),
    ],
)
def test_a_wrong_page_is_found(tmp_path: Path, page: str, said: str) -> None:
    written = tmp_path / "page.md"
    written.write_text(page)
    assert said in fault(written)


def fault(page: Path) -> str:
    """Return what is found to be wrong with a page."""
    try:
        follow(page)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def follow(page: Path) -> None:
    reader = Reader(page)
    for block in blocks(page):
        reader.follow(block)


def test_a_command_may_span_lines_and_hide_what_changes(tmp_path: Path) -> None:
    written = tmp_path / "page.md"
    written.write_text("```console\n$ echo a \\\n    b\na ...\n$ true\n```\n")
    first, second = commands(blocks(written)[0])
    assert (first.shown, second.text, second.shown) == ("a ...", "true", "")
    assert fits("a b\n", first.shown)
    assert not fits("b\n", first.shown)
    follow(written)
