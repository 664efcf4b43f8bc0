"""Checks a block that cannot be run here: that it is a program, and that its commands exist."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import typer

from agentmem._cli._app import app
from agentmem.config import Settings
from tests.docs.pages import ROOT, Block, commands

_ENVIRONMENT = re.compile(r"\bAGENTMEM_([A-Z0-9_]+)")
# Read by single commands and by the tests; they are no settings.
_NO_SETTINGS = {
    "CONFIG",
    "MCP_TOKEN",
    "ORACLE_OWNER_PASSWORD",
    "ORACLE_ADMIN_PASSWORD",
    "TEST_ORACLE_DSN",
}


def check(block: Block) -> None:
    """Check what can be checked without running the block."""
    if block.language == "python":
        compile(block.text, f"line {block.line}", "exec", dont_inherit=True)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "console":
        for command in commands(block):
            check_command(command.text)
    check_environment(block.text)


def check_command(line: str) -> None:
    """Check that a command of ours, of pip or of make could be run as it is written."""
    words = [word for word in shlex.split(line, comments=True) if word.strip()]
    while words and re.fullmatch(r"\w+=.*", words[0]):
        del words[0]
    if words[:1] == ["agentmem"]:
        parse(words[1 : words.index(">") if ">" in words else None])
    elif words[:2] == ["pip", "install"]:
        check_extras(words[2:])
    elif words[:1] == ["make"]:
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), f"no target {words[1]}"


def parse(words: list[str]) -> None:
    """Let the command line read the words without doing anything."""
    command: Any = typer.main.get_command(app)
    context = None
    while hasattr(command, "resolve_command"):
        context = command.make_context("agentmem", list(words), parent=context)
        rest = [*context._protected_args, *context.args]
        _, command, words = command.resolve_command(context, rest)
    command.make_context("agentmem", list(words), parent=context)


def check_client(configuration: dict[str, Any]) -> None:
    """Check that the servers which a client is configured to start can be started so."""
    servers = configuration.get("mcpServers") or configuration.get("servers") or {}
    for server in servers.values():
        assert server["command"] == "agentmem"
        parse(server["args"])


def check_extras(requirements: list[str]) -> None:
    """Check that the extras which are to be installed exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in requirements:
        match = re.fullmatch(r"agentmem(?:\[([\w,-]+)\])?", requirement)
        assert match or requirement.startswith("-"), requirement
        for extra in (match[1] or "").split(",") if match else ():
            assert not extra or extra in project["optional-dependencies"], f"no extra {extra!r}"


def check_environment(text: str) -> None:
    """Check that environment variables of ours are read by something."""
    for name in _ENVIRONMENT.findall(text):
        known = name in _NO_SETTINGS or name.lower() in Settings.model_fields
        assert known, f"nothing reads AGENTMEM_{name}"


def check_words(page: Path) -> None:
    """Check the commands and variables that a page names in its sentences."""
    text = page.read_text(encoding="utf-8")
    check_environment(text.replace("AGENTMEM_*", ""))
    for extras in re.findall(r"agentmem\[([\w,-]+)\]", text):
        check_extras([f"agentmem[{extras}]"])
    root: Any = typer.main.get_command(app)
    for names in re.findall(r"`agentmem ([a-z]+(?: [a-z]+)*)", text):
        first, *more = names.split()
        assert first in root.commands, f"there is no command 'agentmem {first}'"
        inner = getattr(root.commands[first], "commands", None)
        if inner and more:
            assert more[0] in inner, f"there is no command 'agentmem {names}'"
