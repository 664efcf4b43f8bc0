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
            "--strict",
            "--quiet",
            *("--config-file", "docs/_site/mkdocs.yml", "--site-dir", str(folder)),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetching = re.compile(
        r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?(https?:)?//""", re.I
    )
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert [str(page) for page in pages if fetching.search(page.read_text("utf-8"))] == []
    styles = [p for p in site.rglob("*.css") if re.search(r"url\(['\"]?https?:", p.read_text())]
    assert styles == []


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = [*(site / "reference").rglob("*.html"), site / "errors" / "index.html"]
    shown = " ".join(text_of(page) for page in pages)
    missing = [name for name in agentmem.__all__ if not re.search(rf"\b{name}\b", shown)]
    assert missing == []
    assert re.search(r"search\(\s*query", shown)


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
