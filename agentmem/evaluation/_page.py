"""What pages of measurements share: their look, tables, and drawings as SVG."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from agentmem.evaluation._tables import Table

SIZE = (9.6, 4.0)
"""Inches of a drawing."""

COLOURS = (
    "#2f6690", "#d1603d", "#4d9078", "#8a5a83", "#c9a227", "#5b6770",
    "#a23b5a", "#7fb069", "#1d3557", "#e9a17c", "#b5c9c3", "#3d3a4b",
)  # fmt: skip
_DARK = (
    "#6fa8d6", "#f08a66", "#74c29c", "#c08fb8", "#e3c65a", "#9aa7b2",
    "#dd7391", "#a4d68f", "#8fb0dc", "#f2bf9f", "#cfe0db", "#b3aecb",
)  # fmt: skip
INK = "#1c2126"
_LINE = "#dfe3e6"
# In a drawing these stand for what the page says, so that it is dark where the page is.
_VARIABLES = {INK: "--ink", _LINE: "--line", **{c: f"--c{n}" for n, c in enumerate(COLOURS)}}
_PARAMETERS: Any = {
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": _LINE,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "agentmem",
    "legend.frameon": False,
}


def _palette(colours: Sequence[str]) -> str:
    return "; ".join(f"--c{place}: {value}" for place, value in enumerate(colours))


STYLE = f"""
:root {{ color-scheme: light dark; --ink: {INK}; --soft: #5d6770; --paper: #fdfdfc;
  --line: {_LINE}; --good: #1a7f4b; --bad: #b3261e; --near: #8a6100; {_palette(COLOURS)}; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6e8ea; --soft: #9aa4ad; --paper: #16191c;
  --line: #30363c; --good: #55c98a; --bad: #ff8a80; --near: #e0b252; {_palette(_DARK)}; }} }}
body {{ font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 68rem; margin: 2.5rem auto; padding: 0 1.2rem; }}
p, ul, dl {{ max-width: 46rem; }}
h1 {{ font-size: 1.8rem; line-height: 1.25; margin-bottom: .2rem; }}
h2 {{ margin-top: 3rem; font-size: 1.3rem; }}
h3 {{ margin-top: 1.8rem; font-size: 1.05rem; }} .soft {{ color: var(--soft); }}
dt {{ float: left; clear: left; width: 5rem; color: var(--soft); }} dd {{ margin-left: 5rem; }}
.cards {{ display: flex; flex-wrap: wrap; gap: .8rem 2.6rem; margin: 1.6rem 0; }}
.cards b {{ display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }}
.cards span {{ color: var(--soft); font-size: .85rem; }}
summary {{ cursor: pointer; }}
table {{ border-collapse: collapse; margin: .8rem 0 1.4rem; font-size: .85rem; width: 100%; }}
th, td {{ padding: .32rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
  font-variant-numeric: tabular-nums; vertical-align: top; }}
th {{ color: var(--soft); font-weight: 600; }}
th:first-child, td:first-child {{ padding-left: 0; }} .words {{ text-align: left; }}
td.OK {{ color: var(--good); }} td.near {{ color: var(--near); }} td.FAIL {{ color: var(--bad);
  font-weight: 700; }}
figure {{ margin: 1rem 0; }} figure, div {{ overflow-x: auto; }}
figure svg {{ max-width: 100%; height: auto; }}
figure svg text {{ font-family: inherit !important; }}
figcaption {{ color: var(--soft); font-size: .85rem; }}
"""


def page(title: str, parts: Sequence[str]) -> str:
    """Return a whole page that fetches nothing from elsewhere."""
    head = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style><h1>{escape(title)}</h1>"
    )
    return "\n".join([head, *parts]) + "\n</html>\n"


def html_table(table: Table, *, words: int = 1) -> str:
    """Return a table with its title.

    The first `words` columns hold words; a column named ``verdict`` is coloured by its first word.
    """
    title, headers, rows = table
    style = ["words" if place < words else "" for place in range(len(headers))]
    head = "".join(
        f"<th{_class(name)}>{escape(header)}</th>"
        for header, name in zip(headers, style, strict=True)
    )
    lines = ("".join(map(_cell, row, headers, style)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    return f"{heading}<div><table><tr>{head}</tr>{body}</table></div>"


def _cell(value: str, header: str, style: str) -> str:
    name = value.split()[0] if header == "verdict" and value else style
    return f"<td{_class(name)}>{escape(value)}</td>"


def _class(name: str) -> str:
    return f' class="{escape(name)}"' if name else ""


def cards(figures: Sequence[tuple[str, str]]) -> str:
    """Return names and numbers that are seen first."""
    shown = (f"<div><b>{escape(v)}</b><span>{escape(n)}</span></div>" for n, v in figures)
    return f'<div class="cards">{"".join(shown)}</div>'


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the style of the pages."""
    with mpl.rc_context(_PARAMETERS):
        yield


def axes(title: str, x: str, y: str) -> tuple[Figure, Any]:
    """Return an empty drawing and its axes."""
    figure = Figure(figsize=SIZE, layout="constrained")
    plot = figure.add_subplot()
    plot.set_title(title, loc="left", fontweight="bold")
    plot.set_xlabel(x)
    plot.set_ylabel(y)
    return figure, plot


def colour(place: int) -> str:
    """Return the colour of the n-th thing in a drawing."""
    return COLOURS[place % len(COLOURS)]


def svg(figure: Figure, note: str = "") -> str:
    """Return a drawing as the text of a `figure` element, with a line under it."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    for value, name in _VARIABLES.items():
        drawn = drawn.replace(value, f"var({name})")
    caption = f"<figcaption>{escape(note)}</figcaption>" if note else ""
    return f"<figure>{drawn}{caption}</figure>"
