"""Stages 2 to 5 as one statement.

The scope is written out in each pool: a shared subquery could be stored in a temporary table, and
then neither the vector index nor the text index would be reachable. Each pool limits its rows in
the innermost block and ranks them one block further out; the pools meet in a FULL OUTER JOIN; only
the rows that are left are reranked; texts and codes are joined last.

The only things put into the text are numbers that were checked, names of models that were checked
and conditions that `_filters` compiled. A statement depends on the kind of a search, never on its
values, so that the server parses each kind once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentmem.backends._context import FIRST, REACH, set_around
from agentmem.backends._rules import searchable_text
from agentmem.backends.base import Candidate, CandidateRequest, ChunkRow, Scope, begin_of
from agentmem.backends.oracle._filters import FilterCompiler, listed_names
from agentmem.backends.oracle._meta import Meta
from agentmem.backends.oracle._text_query import contains_query
from agentmem.backends.oracle._values import (
    Bind,
    json_bind,
    time_bind,
    to_metadata,
    to_micros,
    vector_bind,
)

_DIGITS = 6
_RERANKED_CHARACTERS = 1000
"""Characters of a chunk that a model in the database reads; always below 4,000 bytes."""

_FIRST_NEIGHBOUR = 17
"""Place of the first neighbour behind `_ROW_COLUMNS` and the chunk's own codes."""

_ROW_COLUMNS = """c.document_id, c.version, c.chunk_index, c.span_start, c.span_end, c.tokens,
       c.doc_key, c.title, c.source_uri, c.user_id, c.collection, c.created_at, c.valid_from,
       c.valid_until, c.metadata, c.text"""


@dataclass(slots=True)
class Statement:
    """A statement with what it binds."""

    sql: str
    binds: dict[str, Bind] = field(default_factory=dict)
    left_out: int = 0


def search_statement(
    scope: Scope,
    request: CandidateRequest,
    meta: Meta,
    *,
    embed: str | None = None,
    rerank: str | None = None,
    exact: bool = False,
) -> Statement | None:
    """Return the statement of a search, or None when it has neither a vector nor a word.

    Parameters
    ----------
    embed, rerank
        Models in the database that embed the query and rerank the candidates.
    exact
        Do without the vector index even when there is one.
    """
    binds: dict[str, Bind] = {}
    words, left_out = contains_query(request.terms, request.text, meta.lexer)
    words = words if request.terms else None
    vector = _query_vector(request, embed, binds)
    if vector is None and words is None:
        return None
    condition = scope_condition(scope, binds)
    pools = []
    if vector is not None:
        approximate = meta.vector_index != "none" and not exact
        pools.append(_vector_pool(condition, vector, request.pool, approximate=approximate))
    if words is not None:
        binds["tq"] = words
        pools.append(_lexical_pool(condition, request.pool))
    blocks = [
        *pools,
        _fused(vector is not None, words is not None, request.fusion_k),
        _best(request.limit),
    ]
    score = "CAST(NULL AS NUMBER)"
    if rerank is not None:
        binds["q"] = request.text
        blocks.append(_reranked(rerank))
        score = "k.rerank"
    around = ""
    if request.want_codes or request.tokens is not None:
        around = _around(scope, binds, request.limit)
    sql = "WITH " + ",\n".join(blocks) + "\n" + _final(vector, score, around)
    return Statement(sql, binds, left_out)


def _query_vector(
    request: CandidateRequest, embed: str | None, binds: dict[str, Bind]
) -> str | None:
    if embed is not None:
        binds["q"] = request.text
        return f"VECTOR_EMBEDDING({embed} USING :q AS DATA)"
    if request.vector is None:
        return None
    binds["qv"] = vector_bind(request.vector)
    return ":qv"


def scope_condition(scope: Scope, binds: dict[str, Bind], alias: str = "c") -> str:
    """Return the condition over ``mem_chunks`` that a scope stands for."""
    binds["tenant"], binds["now"] = scope.tenant, time_bind(scope.now)
    parts = [f"{alias}.tenant_id = :tenant"]
    if scope.user_id is None:
        parts.append(f"{alias}.user_id IS NULL")
    else:
        binds["owner"] = scope.user_id
        parts.append(f"({alias}.user_id IS NULL OR {alias}.user_id = :owner)")
    if scope.collections is not None:
        binds["collections"] = json_bind(list(scope.collections))
        parts.append(f"{alias}.collection IN ({listed_names(':collections')})")
    parts.append(f"{alias}.deleted_at IS NULL")
    parts.append(f"({alias}.expires_at IS NULL OR {alias}.expires_at > :now)")
    if scope.as_of is None:
        parts.append(f"{alias}.visible_from <= :now AND {alias}.visible_until > :now")
    else:
        binds["as_of"] = time_bind(scope.as_of)
        parts.append(f"{alias}.as_of_from <= :as_of AND {alias}.as_of_until > :as_of")
    if scope.begins is not None:
        binds["begins"], binds["begun"] = map(time_bind, scope.begins)
        parts.append(f"{alias}.as_of_from >= :begins AND {alias}.as_of_from < :begun")
    if scope.where is not None:
        parts.append(FilterCompiler(alias, binds).compile(scope.where))
    return "\n      AND ".join(parts)


def _vector_pool(condition: str, vector: str, pool: int, *, approximate: bool) -> str:
    distance = f"VECTOR_DISTANCE(c.embedding, {vector}, COSINE)"
    if approximate:
        # The index is used only when the distance itself comes first.
        inner, fetch, outer = distance, "APPROX", f"ROUND(v.distance, {_DIGITS})"
    else:
        inner, fetch, outer = f"ROUND({distance}, {_DIGITS})", "EXACT", "v.distance"
    return f"""vec AS (
  SELECT v.id, ROW_NUMBER() OVER (ORDER BY {outer}, v.id) AS vector_rank
  FROM (
    SELECT c.id, {inner} AS distance
    FROM mem_chunks c
    WHERE {condition}
      AND c.embedding IS NOT NULL
    ORDER BY distance, c.id
    FETCH {fetch} FIRST {pool:d} ROWS ONLY
  ) v
)"""


def _lexical_pool(condition: str, pool: int) -> str:
    return f"""lex AS (
  SELECT t.id, t.lexical_score,
         DENSE_RANK() OVER (ORDER BY t.lexical_score DESC) AS lexical_rank
  FROM (
    SELECT c.id, SCORE(1) AS lexical_score
    FROM mem_chunks c
    WHERE {condition}
      AND CONTAINS(c.search_text, :tq, 1) > 0
    ORDER BY lexical_score DESC, c.id
    FETCH FIRST {pool:d} ROWS ONLY
  ) t
)"""


def _fused(vector: bool, lexical: bool, fusion_k: int) -> str:
    parts = []
    if vector:
        parts.append(f"COALESCE(1 / ({fusion_k:d} + vec.vector_rank), 0)")
    if lexical:
        parts.append(f"COALESCE(1 / ({fusion_k:d} + lex.lexical_rank), 0)")
    fusion = " + ".join(parts)
    rank = "vec.vector_rank" if vector else "CAST(NULL AS NUMBER) AS vector_rank"
    words = (
        "lex.lexical_rank, lex.lexical_score"
        if lexical
        else "CAST(NULL AS NUMBER) AS lexical_rank, CAST(NULL AS NUMBER) AS lexical_score"
    )
    if vector and lexical:
        name, source = "COALESCE(vec.id, lex.id)", "vec FULL OUTER JOIN lex ON vec.id = lex.id"
    else:
        source = "vec" if vector else "lex"
        name = f"{source}.id"
    near = "COUNT(vec.id) OVER ()" if vector else "0"
    found = "COUNT(lex.id) OVER ()" if lexical else "0"
    return f"""fused AS (
  SELECT {name} AS id, {rank}, {words},
         {fusion}
           AS fusion,
         {near} AS vector_pool, {found} AS lexical_pool
  FROM {source}
)"""


def _best(limit: int | None) -> str:
    fetch = "" if limit is None else f"\n  FETCH FIRST {limit:d} ROWS ONLY"
    return f"""cand AS (
  SELECT f.id, f.vector_rank, f.lexical_rank, f.lexical_score, f.fusion,
         f.vector_pool, f.lexical_pool,
         ROW_NUMBER() OVER (ORDER BY f.fusion DESC, f.id) AS place
  FROM fused f
  ORDER BY f.fusion DESC, f.id{fetch}
)"""


def _reranked(model: str) -> str:
    text = "CASE WHEN c.title IS NULL THEN c.text ELSE c.title || CHR(10) || c.text END"
    return f"""scored AS (
  SELECT r.id, r.vector_rank, r.lexical_rank, r.lexical_score, r.fusion,
         r.vector_pool, r.lexical_pool, r.place,
         PREDICTION({model} USING :q AS DATA1,
                    DBMS_LOB.SUBSTR({text}, {_RERANKED_CHARACTERS:d}, 1) AS DATA2) AS rerank
  FROM cand r JOIN mem_chunks c ON c.tenant_id = :tenant AND c.id = r.id
)"""


@dataclass(frozen=True, slots=True)
class _Side:
    """Where neighbours stand: how they compare with the chunk, which comes first, what is read."""

    name: str
    sign: str
    order: str
    columns: tuple[str, ...]


_TIMES_AND_CODES = ("valid_from", "created_at", "codes")
_BEFORE = _Side("b", "<", "DESC", (*_TIMES_AND_CODES, "title", "text"))
_BEHIND = _Side("a", ">", "ASC", _TIMES_AND_CODES)
_NEIGHBOURS = [(side, number) for side in (_BEFORE, _BEHIND) for number in range(REACH)]


def _around(scope: Scope, binds: dict[str, Bind], limit: int | None) -> str:
    """Return the joins that give what stands around each candidate (`agentmem.backends._context`).

    With a limit only the first of the candidates are looked at in this way.
    """
    condition = scope_condition(replace(scope, where=None, begins=None), binds, "p")
    first = "" if limit is None else f"\n      AND k.place <= {FIRST:d}"
    return "".join(
        f"""
LEFT JOIN LATERAL (
  SELECT {", ".join(f"p.{column}" for column in side.columns)}
  FROM mem_chunks p
  WHERE {condition}
      AND p.collection = c.collection
      AND (p.user_id = c.user_id OR (p.user_id IS NULL AND c.user_id IS NULL))
      AND p.chunk_row {side.sign} c.chunk_row{first}
  ORDER BY p.chunk_row {side.order}, p.id
  OFFSET {number:d} ROWS FETCH NEXT 1 ROWS ONLY
) {side.name}{number:d} ON 1 = 1"""
        for side, number in _NEIGHBOURS
    )


def _final(vector: str | None, score: str, around: str) -> str:
    distance = (
        "CAST(NULL AS NUMBER)"
        if vector is None
        else f"ROUND(VECTOR_DISTANCE(c.embedding, {vector}, COSINE), {_DIGITS})"
    )
    source = "scored" if score == "k.rerank" else "cand"
    codes = "CAST(NULL AS NUMBER) AS codes"
    if around:
        codes = "c.codes AS codes" + "".join(
            ",\n       "
            + ", ".join(
                f"{side.name}{n:d}.{column} AS {side.name}{n:d}_{column}" for column in side.columns
            )
            for side, n in _NEIGHBOURS
        )
    return f"""SELECT k.id, k.vector_rank, k.lexical_rank, k.lexical_score,
       k.vector_pool, k.lexical_pool,
       {distance} AS distance,
       {score} AS rerank,
       {_ROW_COLUMNS}, {codes}
FROM {source} k JOIN mem_chunks c ON c.tenant_id = :tenant AND c.id = k.id{around}
ORDER BY k.fusion DESC, k.id"""


def read_candidates(rows: Sequence[tuple[Any, ...]]) -> list[Candidate]:
    """Return the candidates that a search statement found."""
    return [
        Candidate(
            id=row[0],
            vector_rank=_whole(row[1]),
            lexical_rank=_whole(row[2]),
            lexical_score=None if row[3] is None else float(row[3]),
            similarity=None if row[6] is None else round(1.0 - float(row[6]), _DIGITS),
            rerank=None if row[7] is None else float(row[7]),
            row=_chunk_row(row[8:]),
        )
        for row in rows
    ]


def _chunk_row(row: tuple[Any, ...]) -> ChunkRow:
    chunk = ChunkRow(
        document_id=row[0],
        version=int(row[1]),
        chunk_index=int(row[2]),
        start=int(row[3]),
        end=int(row[4]),
        tokens=int(row[5]),
        key=row[6],
        title=row[7],
        source_uri=row[8],
        user_id=row[9],
        collection=row[10],
        created_at=to_micros(row[11]) or 0,
        valid_from=to_micros(row[12]),
        valid_until=to_micros(row[13]),
        metadata=to_metadata(row[14]),
        text=row[15],
        codes=row[16],
    )
    ends = _FIRST_NEIGHBOUR + REACH * len(_BEFORE.columns)
    before = _neighbours(row[_FIRST_NEIGHBOUR:ends], len(_BEFORE.columns))
    behind = _neighbours(row[ends:], len(_BEHIND.columns))
    set_around(
        chunk,
        ((at, codes, searchable_text(title, text)) for at, codes, title, text in before),
        ((at, codes) for at, codes in behind),
    )
    return chunk


def _neighbours(values: tuple[Any, ...], width: int) -> Iterator[tuple[Any, ...]]:
    """Yield begin and all behind the times of each neighbour that there is."""
    for start in range(0, len(values), width):
        valid_from, created_at, *others = values[start : start + width]
        created = to_micros(created_at)
        if created is not None:
            yield begin_of(to_micros(valid_from), created), *others


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
