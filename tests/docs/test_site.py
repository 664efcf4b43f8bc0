"""The site builds without a warning, fetches nothing from elsewhere, and leaves nothing out."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import agentmem
from agentmem import Settings
from agentmem._cli._app import app

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",  # and not --quiet, which would hide warnings from it
            *("--config-file", "docs/_site/mkdocs.yml", "--site-dir", str(folder)),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Documentation built" in done.stderr
    assert "WARNING" not in done.stderr
    return folder


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetching = re.compile(
        r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?(https?:)?//""", re.I
    )
    pages = [page.read_text("utf-8") for page in site.rglob("*.html")]
    assert len(pages) > 40
    assert [found[0] for page in pages if (found := fetching.search(page))] == []
    linked = {host for page in pages for host in re.findall(r'href="https?://([^/"]+)', page)}
    assert linked == {"ir-measur.es", "keepachangelog.com"}  # for a reader to follow
    styles = [p for p in site.rglob("*.css") if re.search(r"url\(['\"]?https?:", p.read_text())]
    assert styles == []


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = [
        *(site / "reference").rglob("*.html"),
        *(site / name / "index.html" for name in ("errors", "settings")),
    ]
    shown = " ".join(text_of(page) for page in pages)
    missing = [name for name in agentmem.__all__ if not re.search(rf"\b{name}\b", shown)]
    assert missing == []
    assert re.search(r"search\(\s*query", shown)
    memory = (site / "reference" / "memory" / "index.html").read_text(encoding="utf-8")
    for name in dir(agentmem.Memory):
        assert name.startswith("_") or f'id="agentmem.Memory.{name}"' in memory, name


@pytest.mark.slow
def test_each_parameter_has_its_own_type(site: Path) -> None:
    memory = " ".join(text_of(site / "reference" / "memory" / "index.html").split())
    assert "collections Iterable[str] | None Names of collections" in memory
    assert "where Where | None As in search" in memory


@pytest.mark.slow
def test_what_the_code_says_is_filled_in(site: Path) -> None:
    assert not [page for page in site.rglob("*.html") if "generated:" in page.read_text("utf-8")]
    assert "4,096" in text_of(site / "operations" / "index.html")
    errors = text_of(site / "errors" / "index.html")
    assert errors.count("What to do:") == sum(name.endswith("Error") for name in agentmem.__all__)
    assert "nDCG@10" in text_of(site / "measured" / "index.html")


@pytest.mark.slow
def test_every_command_and_setting_is_there(site: Path) -> None:
    commands = text_of(site / "cli" / "index.html")
    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        for inner in getattr(command, "commands", {"": None}):
            assert f"agentmem {name} {inner}".strip() in commands, (name, inner)
    settings = text_of(site / "settings" / "index.html")
    for name, field in Settings.model_fields.items():
        assert f"AGENTMEM_{name.upper()}" in settings
        assert field.description, f"the setting {name} has no description"
