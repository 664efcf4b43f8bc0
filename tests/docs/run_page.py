"""Runs a page of docs/ as a reader would: every block in order, in the folder it is called in.

    python -m tests.docs.run_page PAGE

Ends with 1 and says which block is wrong when something fails or prints anything else than the
page shows. Programs share one namespace, commands one environment and all of them one folder, so
what the page shows is what somebody sees who follows it from its beginning.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn

from agentmem._cli import main as agentmem_command
from agentmem.config import Settings
from tests.docs import static
from tests.docs.pages import Block, Command, blocks, commands, fits, on_stand_in

_SHELL = re.compile(r"[|;&<>$`\\*]")
_EXPORT = re.compile(r"export (\w+)=(.*)")


class Wrong(Exception):
    """A block does not do what the page says."""


class Reader:
    """Somebody who follows a page."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self._kinds: dict[str, Callable[[Block], object]] = {
            "python": self._python,
            "console": self._console,
            "json": lambda block: static.check_client(json.loads(block.text)),
            "jsonl": lambda block: [json.loads(line) for line in block.text.splitlines()],
            "toml": self._toml,
        }

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        if block.not_run:
            static.check(block)
            return
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        if block.title and block.language == "python":
            return  # a command of the page runs the file
        if block.language in self._kinds:
            self._kinds[block.language](block)
        else:
            raise Wrong(f"nothing can be done with {block.language!r}; say '<!-- not run: why -->'")

    def _python(self, block: Block) -> None:
        # Empty lines in front: a traceback then names the line of the page.
        source = "\n" * block.line + block.text
        code = compile(source, str(self.page), "exec", dont_inherit=True)
        with printed() as output:
            exec(code, self.namespace)
        self._compare(output.getvalue(), block.shown or "", block.line)

    def _console(self, block: Block) -> None:
        for command in commands(block):
            self._compare(run_command(command), command.shown, command.line)

    def _toml(self, block: Block) -> None:
        Settings(**tomllib.loads(block.text))

    def _compare(self, output: str, shown: str, line: int) -> None:
        if not fits(output, shown):
            raise Wrong(f"line {line} prints\n{output}\nbut the page shows\n{shown}")


def run_command(command: Command) -> str:
    """Return what a command prints on a terminal; our own runs in this process when it is alone."""
    if exported := _EXPORT.fullmatch(command.text):
        os.environ[exported[1]] = shlex.split(exported[2])[0]
        return ""
    if command.text.startswith("agentmem ") and not _SHELL.search(_unquoted(command.text)):
        return _our_command(shlex.split(command.text))
    done = subprocess.run(
        ["bash", "-c", command.text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    if done.returncode:
        raise Wrong(f"{command.text}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def _unquoted(text: str) -> str:
    return re.sub(r"\\\n|'[^']*'", "", text)


def _our_command(words: list[str]) -> str:
    before, sys.argv = sys.argv, words
    try:
        with printed() as output:
            agentmem_command()
    except SystemExit as end:
        if end.code:
            raise Wrong(f"{words}\nended with {end.code}:\n{output.getvalue()}") from None
    finally:
        sys.argv = before
    return output.getvalue()


@contextmanager
def printed() -> Iterator[io.StringIO]:
    """Catch what is printed, errors among it, as a terminal shows it."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        yield output


@contextmanager
def stand_in() -> Iterator[None]:
    """Put the stand-in in the place of Oracle's driver."""
    import pytest

    from tests.databases import PASSWORD, use_standin

    for name in ("PASSWORD", "OWNER_PASSWORD", "ADMIN_PASSWORD"):
        os.environ[f"AGENTMEM_ORACLE_{name}"] = PASSWORD
    with pytest.MonkeyPatch.context() as patch:
        for _ in use_standin(patch):
            yield


def forbid_network() -> None:
    """Let every attempt to reach another machine fail."""

    def refuse(*arguments: Any, **named: Any) -> NoReturn:
        raise OSError(f"a page must not need the network: {arguments}")

    socket.getaddrinfo = refuse
    socket.socket.connect = refuse  # type: ignore[method-assign]


def main() -> None:
    """Follow the page that is named."""
    page = Path(sys.argv[1])
    forbid_network()
    reader = Reader(page)
    with ExitStack() as stack:
        if on_stand_in(page):
            stack.enter_context(stand_in())
        for block in blocks(page):
            try:
                reader.follow(block)
            except Exception:
                sys.exit(f"{page}:{block.line}:\n{traceback.format_exc()}")


if __name__ == "__main__":
    main()
