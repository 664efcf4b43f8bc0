"""What pages of measurements share: their look, tables, and drawings as SVG."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

SIZE = (8.2, 4.2)
"""Inches of a drawing."""

COLOURS = (
    "#2f6690", "#d1603d", "#4d9078", "#8a5a83", "#c9a227", "#5b6770",
    "#a23b5a", "#7fb069", "#1d3557", "#e9a17c", "#b5c9c3", "#3d3a4b",
)  # fmt: skip
_PARAMETERS: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e6e8",
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "agentmem",
    "legend.frameon": False,
}
STYLE = """
:root { --ink: #1c2126; --soft: #5d6770; --paper: #fdfdfc; --line: #dfe3e6; --good: #1a7f4b;
  --bad: #b3261e; --near: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --soft: #9aa4ad; --paper: #16191c;
  --line: #30363c; --good: #55c98a; --bad: #ff8a80; --near: #e0b252; } figure { background: #fff;
  border-radius: 6px; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 74rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { margin-top: 3rem; font-size: 1.3rem; }
h3 { margin-top: 1.8rem; font-size: 1.05rem; } .soft { color: var(--soft); }
table { border-collapse: collapse; margin: .8rem 0 1.4rem; font-size: .85rem; width: 100%; }
th, td { padding: .32rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
  font-variant-numeric: tabular-nums; } th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
td.OK { color: var(--good); } td.near { color: var(--near); } td.FAIL { color: var(--bad);
  font-weight: 700; } figure { margin: 1rem 0; } figure, div { overflow-x: auto; }
figure svg { max-width: 100%; height: auto; }
"""

Table = tuple[str, list[str], list[list[str]]]
"""Title, headers, rows."""


def page(title: str, parts: Sequence[str]) -> str:
    """Return a whole page that fetches nothing from elsewhere."""
    head = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style><h1>{escape(title)}</h1>"
    )
    return "\n".join([head, *parts]) + "\n</html>\n"


def html_table(table: Table) -> str:
    """Return a table with its title; a column named ``verdict`` is coloured by its first word."""
    title, headers, rows = table
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    lines = ("".join(map(_cell, row, headers)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<h3>{escape(title)}</h3><div><table><tr>{head}</tr>{body}</table></div>"


def _cell(value: str, header: str) -> str:
    style = f' class="{escape(value.split()[0])}"' if header == "verdict" and value else ""
    return f"<td{style}>{escape(value)}</td>"


def number(value: float) -> str:
    """Return a number with as many digits as say something."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.3f}"


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


def svg(figure: Figure) -> str:
    """Return a drawing as the text of a `figure` element."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    drawn = text.getvalue()
    return f"<figure>{drawn[drawn.index('<svg') :]}</figure>"
