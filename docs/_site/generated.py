"""Makes what would go stale if a person wrote it: commands, settings, errors, limits, names.

A hook of the site's generator. Pages say ``<!-- generated: NAME -->`` where a part goes; the pages
of the Python reference are made whole and exist only in the built site.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import agentmem
from agentmem import Settings, _arguments, _prepare, _terms, errors, integrations
from agentmem._cli._app import app
from agentmem._filters import parse, tree, values
from agentmem.pipeline import understand
from agentmem.pipeline.understand import _times

_ROOT = Path(__file__).resolve().parents[2]
_DECISIONS = "decisions"
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")
_PLACE = re.compile(r"<!-- generated: (\w+) ?(.*?) -->")
_HOMES = {
    "reference/types.md": ("agentmem._types", "agentmem._types_moving", "agentmem._chunking"),
    "reference/filters.md": ("agentmem._filters",),
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the decisions in the navigation, in the order of their names."""
    found = sorted(Path(config.docs_dir, _DECISIONS).glob("*.md"))
    if config.nav is not None:
        config.nav[-1] = {"Decisions": [f"{_DECISIONS}/{path.name}" for path in found]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made whole."""
    for path, text in {**reference_pages(), "changelog.md": changelog()}.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the generated parts of a page in their places, and say what the tests do not run."""
    shown = _NOT_RUN.sub(r'<p class="not-run">Not run by the tests: \1.</p>', markdown)
    return _PLACE.sub(lambda place: _PARTS[place[1]](place[2]), shown)


# ------------------------------------------------------------------------- commands


def commands(_: str) -> str:
    """Return every command with its arguments and options, from the commands themselves."""
    root: Any = typer.main.get_command(app)
    return "\n".join(_command(words, command) for words, command in _walk((), root))


def _walk(words: tuple[str, ...], command: Any) -> list[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        return [(words, command)]
    found = []
    for name, inner in sorted(command.commands.items()):
        found += _walk((*words, name), inner)
    return found


def _command(words: tuple[str, ...], command: Any) -> str:
    names = " ".join(("agentmem", *words))
    shown = [p for p in command.params if not getattr(p, "hidden", False)]
    arguments = [_argument(p) for p in shown if p.param_type_name == "argument"]
    usage = " ".join((names, "[OPTIONS]", *arguments))
    lines = [f"## {names}\n", inspect.cleandoc(command.help or ""), "", f"```text\n{usage}\n```\n"]
    if shown:
        lines += ["| argument or option | meaning |", "|---|---|", *map(_parameter, shown), ""]
    return "\n".join(lines)


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name).upper().strip("[]")
    name = f"{name}..." if parameter.nargs == -1 and not name.endswith("...") else name
    return name if parameter.required else f"[{name}]"


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{_argument(parameter)}`"
    else:
        name = ", ".join(f"`{n}`" for n in (*parameter.opts, *parameter.secondary_opts))
    default = parameter.default
    given = "" if default in (None, False, ()) or callable(default) else f" Default: `{default}`."
    return f"| {name} | {_cell(getattr(parameter, 'help', None) or '')}{given} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# ------------------------------------------------------------------------- settings, limits


def settings(_: str) -> str:
    """Return the table of the settings, from the fields themselves."""
    lines = ["| setting, variable | default | range | meaning |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        cells = (
            f"`{name}`<br>`AGENTMEM_{name.upper()}`",
            "" if default is None else f"`{default}`",
            _range(field.metadata),
            _cell(field.description or ""),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _range(constraints: list[Any]) -> str:
    """Return the bounds of a number, such as ``1 to 4,096`` or ``above 0, up to 600``."""
    bounds = {
        name: getattr(constraint, name)
        for constraint in constraints
        for name in ("ge", "gt", "le")
        if getattr(constraint, name, None) is not None
    }
    if not bounds:
        return ""
    if "gt" in bounds:
        return f"above {bounds['gt']:,}, up to {bounds['le']:,}"
    return (
        f"{bounds['ge']:,} to {bounds['le']:,}" if "le" in bounds else f"{bounds['ge']:,} or more"
    )


def limits(_: str) -> str:
    """Return the table of limits, from the constants that are checked."""
    rows = (
        ("content of a document", f"{_prepare.MAX_CONTENT_BYTES >> 20} MiB"),
        ("key", f"{_prepare.MAX_KEY_BYTES:,} bytes"),
        ("title, source", f"{_prepare.MAX_TITLE_BYTES:,} bytes each"),
        ("name of a tenant, user or collection", f"{_prepare.MAX_NAME_BYTES:,} bytes"),
        ("name of a metadata field", f"{values.MAX_KEY_BYTES:,} bytes"),
        ("nesting of metadata", f"{values.MAX_DEPTH} levels"),
        ("whole numbers in metadata", "64 bits with sign"),
        ("fractions in metadata", f"from {values.MIN_FLOAT:g} to {values.MAX_FLOAT:g}, and 0"),
        ("query", f"{understand.MAX_QUERY_BYTES >> 20} MiB"),
        ("words of a query that are looked up", f"{_terms.MAX_QUERY_TERMS}"),
        ("characters of a query that are read for times", f"{_times.MAX_LENGTH:,}"),
        ("hits of a search (`k`)", f"{_arguments.MAX_HITS:,}"),
        ("documents on a page", f"{_arguments.MAX_PAGE:,}"),
        ("nesting of a filter", f"{parse.MAX_DEPTH} levels"),
        ("comparisons in a filter", f"{parse.MAX_COMPARISONS:,}"),
        ("values of one `in` list", f"{tree.MAX_MEMBERS:,}"),
        ("text that a filter compares with", f"{tree.MAX_TEXT_BYTES:,} bytes"),
    )
    return "\n".join(["| what | most |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])


# ------------------------------------------------------------------------- errors


def error_tree(_: str) -> str:
    """Return the tree as it is drawn in the module, and each class with its text."""
    drawing = inspect.cleandoc(inspect.getdoc(errors) or "").split("\n\n")[1]
    parts = [f"```text\n{inspect.cleandoc(drawing)}\n```"]
    parts += [_member(f"agentmem.{kind.__name__}", 3) for kind in _kinds(errors.AgentMemError)]
    return "\n\n".join(parts)


def _kinds(root: type[BaseException]) -> list[type[BaseException]]:
    own = [kind for kind in root.__subclasses__() if kind.__module__ == errors.__name__]
    return [root, *(kind for inner in own for kind in _kinds(inner))]


# ------------------------------------------------------------------------- other files


def readme(title: str) -> str:
    """Return a section of the README, without its heading."""
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if section is None:
        raise ValueError(f"the README has no section {title!r}")
    named = re.sub(r"\[docs/(\w+)\.md\]", lambda page: f"[{page[1].capitalize()}]", section[1])
    return named.replace("](docs/", "](").strip()


def changelog() -> str:
    """Return the changelog as a page."""
    return (_ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# ------------------------------------------------------------------------- reference


def reference_pages() -> dict[str, str]:
    """Return the pages of the Python reference: every public name on one of them."""
    pages = {
        "reference/memory.md": memory_page(),
        "reference/models.md": _page("Models", ["agentmem.models.base", *_models()]),
        "reference/pipeline.md": _page("Pipeline", ["agentmem.pipeline"]),
        "reference/evaluation.md": _page("Evaluation", ["agentmem.evaluation"]),
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


def memory_page() -> str:
    """Return the page of `Memory`: its three verbs first, what it inherits behind them."""
    homes = (home for home in agentmem.Memory.__mro__ if home.__module__.startswith("agentmem"))
    names = dict.fromkeys(n for home in homes for n in vars(home) if not n.startswith("_"))
    return f"# Memory\n\n{_member('agentmem.Memory', 2)}\n      members: [{', '.join(names)}]\n"


def alone(name: str) -> str:
    """Return a class without its members, which the page describes otherwise."""
    return f"{_member(name, 2)}\n      members: false"


def _models() -> list[str]:
    return [
        "agentmem.models.onnx_embedder.OnnxEmbedder",
        "agentmem.models.onnx_reranker.CrossEncoderReranker",
        "agentmem.models.late_interaction.LateInteractionReranker",
    ]


def _integrations() -> list[str]:
    found = (info.name for info in iter_modules(integrations.__path__))
    return [f"agentmem.integrations.{name}" for name in sorted(found) if not name.startswith("_")]


def _page(title: str, names: list[str]) -> str:
    return f"# {title}\n\n" + "\n\n".join(_member(name, 2) for name in names) + "\n"


def _member(name: str, level: int) -> str:
    is_module = name.rpartition(".")[2].islower()
    options = f"heading_level: {level}\n      show_root_full_path: {str(is_module).lower()}"
    return f"::: {name}\n    options:\n      {options}"


_PARTS: dict[str, Callable[[str], str]] = {
    "alone": alone,
    "commands": commands,
    "settings": settings,
    "limits": limits,
    "errors": error_tree,
    "readme": readme,
}
