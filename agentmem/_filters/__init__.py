"""The filter language: one tree, one meaning on every engine.

    F("kind") == "note"                      {"kind": {"eq": "note"}}
    (F("year") >= 2024) & ~F("draft").exists()

Every predicate is true or false, and ``~`` is its exact complement: ``F("kind") != "note"`` holds
for a document without ``kind``. Values of different types are never equal, except that 1 and 1.0
are. `evaluate` is the reference; each engine compiles the same tree and is tested against it.
"""

from __future__ import annotations

from agentmem._filters.evaluate import evaluate
from agentmem._filters.parse import parse_filter, to_json
from agentmem._filters.tree import (
    COLUMNS,
    And,
    Comparison,
    F,
    Filter,
    Not,
    Operator,
    Or,
    columns_of,
)
from agentmem._filters.values import (
    canonical_json,
    check_metadata,
    decode_metadata,
    encode_metadata,
    read_metadata,
)

__all__ = [
    "COLUMNS",
    "And",
    "Comparison",
    "F",
    "Filter",
    "Not",
    "Operator",
    "Or",
    "canonical_json",
    "check_metadata",
    "columns_of",
    "decode_metadata",
    "encode_metadata",
    "evaluate",
    "parse_filter",
    "read_metadata",
    "to_json",
]
