"""Makes the pages that would go stale if a person wrote them: commands, settings, errors, names.

A hook of the site's generator: the pages exist only in the built site.
"""

from __future__ import annotations

import inspect
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import agentmem
from agentmem import Settings, errors
from agentmem._cli._app import app

_DECISIONS = "decisions"
_HOMES = {
    "reference/types.md": ("agentmem._types", "agentmem._types_moving"),
    "reference/filters.md": ("agentmem._filters",),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        "cli.md": commands_page(),
        "settings.md": settings_page(),
        "errors.md": errors_page(),
        **reference_pages(),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the decisions in the navigation, in the order of their names."""
    from pathlib import Path

    found = sorted(Path(config.docs_dir, _DECISIONS).glob("*.md"))
    if config.nav is not None:
        config.nav[-1] = {"Decisions": [f"{_DECISIONS}/{path.name}" for path in found]}
    return config


# ------------------------------------------------------------------------- commands


def commands_page() -> str:
    """Return the page of the command line, from the commands themselves."""
    group: Any = typer.main.get_command(app)
    parts = [
        "# Command line\n",
        "Every command that works on a memory takes `--url` (or `AGENTMEM_URL`) and `--tenant`. "
        "Exit codes: 0 when all went well, 1 for a fault that was found or met (one line on "
        "standard error), 2 for a wrong call. `agentmem --install-completion` sets up the "
        "completion of your shell.\n",
    ]
    parts += [_command(words, command) for words, command in _walk((), group)]
    return "\n".join(parts)


def _walk(words: tuple[str, ...], command: Any) -> list[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        return [(words, command)]
    found = []
    for name, inner in sorted(command.commands.items()):
        found += _walk((*words, name), inner)
    return found


def _command(words: tuple[str, ...], command: Any) -> str:
    names = " ".join(words)
    lines = [f"## agentmem {names}\n", inspect.cleandoc(command.help or ""), ""]
    rows = [_parameter(p) for p in command.params if not getattr(p, "hidden", False)]
    if rows:
        lines += ["| argument or option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{str(parameter.metavar or parameter.name).upper()}`"
    else:
        name = ", ".join(f"`{n}`" for n in (*parameter.opts, *parameter.secondary_opts))
    default = parameter.default
    shown = "" if default in (None, False, ()) or callable(default) else f" Default: `{default}`."
    text = (getattr(parameter, "help", None) or "").replace("|", "\\|")
    return f"| {name} | {text}{shown} |"


# ------------------------------------------------------------------------- settings


def settings_page() -> str:
    """Return the page of the settings, from the fields themselves."""
    lines = [
        "# Settings\n",
        "Strongest first: arguments of `Settings(...)`, environment variables, a TOML file "
        "(`agentmem.toml` in the working directory, or the one that `AGENTMEM_CONFIG` names), "
        "defaults. `agentmem config` shows what is in force, with secrets hidden.\n",
        "| setting | environment variable | default | meaning |",
        "|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        shown = "" if default is None else f"`{default}`"
        text = (field.description or "").replace("|", "\\|")
        lines.append(f"| `{name}` | `AGENTMEM_{name.upper()}` | {shown} | {text} |")
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------- errors


def errors_page() -> str:
    """Return the page of the errors, from the tree of classes."""
    lines = [
        "# Errors\n",
        "Every error is an `AgentMemError`. A message names what was asked, what stopped it and "
        "what to do. Errors of a driver never leave the library; they are chained as "
        "`__cause__`.\n",
    ]
    lines += _error_lines(errors.AgentMemError, 0)
    return "\n".join(lines) + "\n"


def _error_lines(kind: type[BaseException], depth: int) -> list[str]:
    text = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    lines = [f"{'    ' * depth}* `{kind.__name__}`: {text}"]
    for inner in kind.__subclasses__():
        if inner.__module__ == errors.__name__:
            lines += _error_lines(inner, depth + 1)
    return lines


# ------------------------------------------------------------------------- reference


def reference_pages() -> dict[str, str]:
    """Return the pages of the Python reference: every public name on one of them."""
    pages = {
        "reference/memory.md": _page("Memory", ["agentmem.Memory", "agentmem.Settings"]),
        "reference/models.md": _page("Models", ["agentmem.models.base"]),
        "reference/evaluation.md": _page("Evaluation", ["agentmem.evaluation"]),
        "reference/pipeline.md": _page("Pipeline", ["agentmem.pipeline"]),
        "reference/integrations.md": _page("Integrations", _integrations()),
    }
    for path, homes in _HOMES.items():
        names = [
            f"agentmem.{name}"
            for name in agentmem.__all__
            if getattr(agentmem, name).__module__.startswith(homes)
        ]
        pages[path] = _page(path.split("/")[1].removesuffix(".md").capitalize(), names)
    return pages


def _integrations() -> list[str]:
    from pkgutil import iter_modules

    from agentmem import integrations

    found = (info.name for info in iter_modules(integrations.__path__))
    return [f"agentmem.integrations.{name}" for name in sorted(found) if not name.startswith("_")]


def _page(title: str, names: list[str]) -> str:
    return f"# {title}\n\n" + "\n\n".join(f"::: {name}" for name in names) + "\n"
