"""Gives each parameter its own type where a docstring describes several together.

Docstrings say ``user_id, collections`` once, with one text. The reader of docstrings gives both the
type of the first, so they are taken apart before it looks.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_TOGETHER = re.compile(r"^(\w+(?:, \*{0,2}\w+)+)\n((?:    .*\n?|\n(?=    ))+)", re.MULTILINE)


class SplitNames(griffe.Extension):
    """Takes apart what a numpy docstring describes together."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = _TOGETHER.sub(_apart, obj.docstring.value + "\n").rstrip()


def _apart(found: re.Match[str]) -> str:
    text = found[2].rstrip("\n")
    return "\n".join(f"{name}\n{text}" for name in found[1].split(", ")) + "\n"
