"""Every statement and script that the Oracle engine can send, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, get_args

import numpy as np

from agentmem import F
from agentmem.backends.base import CandidateRequest, Owner, Scope, Selection
from agentmem.backends.oracle import (
    _doctor,
    _embedding,
    _maintenance,
    _meta,
    _receipts,
    _schema,
    _search,
    _selecting,
    _setup,
    _writing,
)

META = _meta.Meta(embedder="minilm", dimensions=384, token_dimensions=128)
INDEXED = _meta.Meta(
    embedder="minilm", dimensions=384, token_dimensions=128, vector_index="hnsw", lexer="world"
)
WHERE = (
    (F("lang") == "en")
    & (F("geo.country") != "fr")
    & (F("year") >= 2024)
    & F("tags").contains("tide")
    & F("kind").in_(["note", "", 3, None])
    & ~F("draft").exists()
    & F("slug").starts_with("a")
    & (F("due") < datetime(2025, 1, 1, tzinfo=UTC))
    & (F("list") == [1, {"a": 2}])
    & F("pairs").contains([1, 2])
    & (F("version") >= 2)
    & F("title").starts_with("T")
    & F("collection").in_(["a", "b"])
)
SCOPE: dict[str, Any] = {
    "tenant": "acme", "user_id": None, "collections": None, "where": None, "now": 1_000_000,
    "as_of": None,
}  # fmt: skip


def request(*, vector: bool = True, terms: tuple[str, ...] = ("tea",)) -> CandidateRequest:
    return CandidateRequest(
        text="cup of tea",
        vector=np.ones(384, dtype=np.float32) if vector else None,
        terms=terms,
        pool=100,
        fusion_k=60,
        limit=40,
        want_codes=True,
    )


def searches() -> Iterator[tuple[str, _search.Statement]]:
    """Yield the variants of a search."""
    plain, filtered = Scope(**SCOPE), Scope(**SCOPE | {"where": WHERE, "user_id": "ada"})
    variants: list[tuple[str, Scope, CandidateRequest, _meta.Meta, dict[str, Any]]] = [
        ("both", plain, request(), META, {}),
        ("vector", plain, request(terms=()), META, {}),
        ("lexical", plain, request(vector=False), META, {}),
        ("filtered", filtered, request(), META, {}),
        ("user", Scope(**SCOPE | {"user_id": "ada"}), request(), META, {}),
        ("collections", Scope(**SCOPE | {"collections": ("a", "b")}), request(), META, {}),
        ("as_of", Scope(**SCOPE | {"as_of": 5}), request(), META, {}),
        ("begins", Scope(**SCOPE | {"begins": (1, 9)}), request(), META, {}),
        ("approx", plain, request(), INDEXED, {}),
        ("approx_then_exact", plain, request(), INDEXED, {"exact": True}),
        ("rerank", plain, request(), META, {"rerank": "mem_reranker"}),
        ("embed", plain, request(vector=False), META, {"embed": "mem_embedder"}),
        (
            "embed_rerank",
            filtered,
            request(vector=False),
            META,
            {"embed": "mem_embedder", "rerank": "mem_reranker"},
        ),
    ]
    for name, scope, wanted, meta, arguments in variants:
        statement = _search.search_statement(scope, wanted, meta, **arguments)
        assert statement is not None
        yield f"search_{name}", statement


def selections() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the queries over documents."""
    selection = Selection(
        tenant="acme",
        owner=Owner("visible", "ada"),
        now=1,
        ids=("a",),
        key="k",
        collections=("c",),
        where=F("lang") == "en",
        as_of=4,
    )
    everything = Selection(tenant="acme", owner=Owner("every"), now=1)
    for name, wanted in (("selected", selection), ("everything", everything)):
        yield f"read_{name}", *_selecting.rows_query(wanted, (1, "a"), 100)
        yield f"versions_{name}", *_selecting.versions_query(wanted)
        yield f"count_{name}", *_selecting.count_query(wanted)
        yield f"documents_{name}", *_selecting.documents_query(wanted)


def constants() -> Iterator[tuple[str, str]]:
    """Yield the statements that are written out in the modules."""
    modules: tuple[ModuleType, ...] = (
        _writing, _selecting, _maintenance, _receipts, _doctor, _meta,
    )  # fmt: skip
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, str) and re.match(r"(SELECT|INSERT|UPDATE|DELETE)\b", value):
                for table in ("mem_documents", "mem_chunks") if "{table}" in value else ("",):
                    text = value.replace("{table}", table).replace("{more}", "")
                    text = text.replace("{limit:d}", "100").replace("{model}", "mem_reranker")
                    short = f"{module.__name__.rpartition('.')[2]}{name.lower()}"
                    yield f"{short}{'_' if table else ''}{table}".strip("_"), text
    yield "embed", _embedding.embed_statement("mem_embedder", ["a"])[0]


def plans() -> Iterator[tuple[str, _schema.Plan]]:
    """Yield set-ups with every index and every lexer."""
    for index in get_args(_meta.VectorIndex):
        for lexer in get_args(_meta.Lexer):
            meta = _meta.Meta(
                embedder="minilm",
                dimensions=384,
                token_dimensions=128,
                vector_index=index,
                lexer=lexer,
            )
            yield (
                f"{index}_{lexer}",
                _schema.Plan(owner="mem_owner", app="mem_app", meta=meta, models=("mem_embedder",)),
            )


def everything() -> Iterator[tuple[str, str]]:
    """Yield every statement and every statement of the scripts."""
    yield from ((name, statement.sql) for name, statement in searches())
    yield from ((name, sql) for name, sql, _ in selections())
    yield from constants()
    for name, plan in plans():
        for step in _schema.steps(plan):
            for number, sql in enumerate((*step.statements, *step.undo)):
                yield f"{name}_{step.name}_{number}", sql


def golden() -> Iterator[tuple[str, str]]:
    """Yield the texts that are kept as files, for a reader to see what changes."""
    yield from ((name, statement.sql) for name, statement in searches())
    yield from ((name, sql) for name, sql, _ in selections())
    yield from constants()
    for name, plan in plans():
        if name in ("none_terms", "ivf_world", "hnsw_terms"):
            yield f"setup_{name}", _setup.script(plan)
    yield "setup_undo", _setup.script(next(plans())[1], undo=True)
