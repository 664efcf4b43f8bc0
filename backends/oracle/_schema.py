"""The scripts that set up a database, as steps that can be read, run again and undone.

Each step says what it does and holds its statements, the statements that undo it, and a query that
tells whether it was done. The names of owner and application user are the only things put into the
texts; they are checked names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentmem.backends.oracle import _plsql
from agentmem.backends.oracle._meta import Meta
from agentmem.backends.oracle._names import (
    CHUNKS,
    DOCUMENTS,
    META,
    RECEIPTS,
    SESSION_PACKAGE,
    TENANT_TABLES,
    TEXT_INDEX,
    UPKEEP_PACKAGE,
    VECTOR_INDEX,
    context_name,
)

RunAs = Literal["admin", "owner"]
_LEXERS = {
    "terms": "BASIC_LEXER",
    "basic": "BASIC_LEXER",
    "world": "WORLD_LEXER",
    "chinese": "CHINESE_LEXER",
    "japanese": "JAPANESE_LEXER",
    "korean": "KOREAN_MORPH_LEXER",
}
_EXISTS = "SELECT COUNT(*) FROM user_objects WHERE object_name = :name AND object_type = :type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the set-up.

    Attributes
    ----------
    name, purpose
        Short name, and a sentence for the reader.
    run_as
        Who runs it: an administrator (``"admin"``) or the owner of the tables.
    statements
        What it runs, in order. Every statement of DDL commits by itself.
    undo
        What takes it back.
    done
        Query and binds whose first number is above 0 when the step was done; None for steps that
        are run again each time, which does no harm.
    """

    name: str
    purpose: str
    run_as: RunAs
    statements: tuple[str, ...]
    undo: tuple[str, ...] = ()
    done: tuple[str, dict[str, str]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be set up.

    Attributes
    ----------
    owner, app
        Schema that owns the tables, and the user that applications log on as.
    meta
        Choices of model and indexes.
    tablespace
        Where the tables go.
    models
        Names of models in the database that the application user may run.
    """

    owner: str
    app: str
    meta: Meta
    tablespace: str = "users"
    models: tuple[str, ...] = field(default=())


def steps(plan: Plan) -> list[Step]:
    """Return all steps in order."""
    return [
        _owner(plan),
        _app(plan),
        _documents(),
        _chunks(plan.meta),
        _receipts(),
        _meta(plan.meta),
        _text_preferences(plan.meta),
        _text_index(),
        *_vector_index(plan.meta),
        _context(plan.owner),
        _session_package(plan.owner),
        _upkeep_package(),
        *(_policy(plan.owner, table) for table in TENANT_TABLES),
        _grants(plan),
    ]


def _owner(plan: Plan) -> Step:
    user = plan.owner
    return Step(
        name="owner",
        purpose=f"the schema {user} for tables, indexes and packages; nobody needs to log on as it "
        "once the set-up is done",
        run_as="admin",
        statements=(
            f'CREATE USER {user} IDENTIFIED BY "&owner_password" '
            f"DEFAULT TABLESPACE {plan.tablespace} QUOTA UNLIMITED ON {plan.tablespace}",
            f"GRANT CREATE SESSION, CREATE TABLE, CREATE SEQUENCE, CREATE PROCEDURE, "
            f"CREATE MINING MODEL, CREATE ANY CONTEXT, DROP ANY CONTEXT TO {user}",
            f"GRANT CTXAPP TO {user}",
            f"GRANT EXECUTE ON CTXSYS.CTX_DDL TO {user}",
            f"GRANT EXECUTE ON SYS.DBMS_RLS TO {user}",
        ),
        undo=(f"DROP USER {user} CASCADE",),
        done=_user_exists(user),
    )


def _app(plan: Plan) -> Step:
    return Step(
        name="application user",
        purpose=f"the user {plan.app} that applications log on as; it owns nothing",
        run_as="admin",
        statements=(
            f'CREATE USER {plan.app} IDENTIFIED BY "&app_password"',
            f"GRANT CREATE SESSION TO {plan.app}",
        ),
        undo=(f"DROP USER {plan.app} CASCADE",),
        done=_user_exists(plan.app),
    )


def _user_exists(user: str) -> tuple[str, dict[str, str]]:
    return "SELECT COUNT(*) FROM all_users WHERE username = :name", {"name": user.upper()}


_SCOPE_COLUMNS = """  tenant_id VARCHAR2(512) NOT NULL,
  document_id VARCHAR2(64) NOT NULL,
  version NUMBER(9) NOT NULL,
  user_id VARCHAR2(512),
  collection VARCHAR2(512) NOT NULL,
  doc_key VARCHAR2(1024),
  title VARCHAR2(4000),
  source_uri VARCHAR2(4000),
  metadata JSON NOT NULL,
  created_at TIMESTAMP(6) NOT NULL,
  valid_from TIMESTAMP(6),
  valid_until TIMESTAMP(6),
  expires_at TIMESTAMP(6),
  deleted_at TIMESTAMP(6),
  visible_from TIMESTAMP(6) NOT NULL,
  visible_until TIMESTAMP(6) NOT NULL,
  as_of_from TIMESTAMP(6) NOT NULL,
  as_of_until TIMESTAMP(6) NOT NULL,"""


def _documents() -> Step:
    return Step(
        name="documents",
        purpose="one row for each version of a document; times are UTC",
        run_as="owner",
        statements=(
            f"""CREATE TABLE {DOCUMENTS} (
{_SCOPE_COLUMNS}
  is_head NUMBER(1) NOT NULL,
  live_identity VARCHAR2(40),
  identity VARCHAR2(1100) NOT NULL,
  fingerprint VARCHAR2(128) NOT NULL,
  chunks NUMBER(9) NOT NULL,
  first_created_at TIMESTAMP(6) NOT NULL,
  content CLOB NOT NULL,
  CONSTRAINT mem_documents_pk PRIMARY KEY (tenant_id, document_id, version)
)""",
            # One live document for each identity: rows without one are not in the index at all.
            f"CREATE UNIQUE INDEX mem_documents_live_u ON {DOCUMENTS} "
            "(live_identity, CASE WHEN live_identity IS NOT NULL THEN tenant_id END)",
            f"CREATE INDEX mem_documents_order_i ON {DOCUMENTS} "
            "(tenant_id, first_created_at, document_id)",
        ),
        undo=(f"DROP TABLE {DOCUMENTS} PURGE",),
        done=_object(DOCUMENTS, "TABLE"),
    )


def _chunks(meta: Meta) -> Step:
    return Step(
        name="chunks",
        purpose="what is searched; each chunk carries the scope and times of its document, so that "
        "one table answers a search",
        run_as="owner",
        statements=(
            f"""CREATE TABLE {CHUNKS} (
{_SCOPE_COLUMNS}
  id VARCHAR2(100) NOT NULL,
  chunk_row NUMBER GENERATED BY DEFAULT ON NULL AS IDENTITY,
  chunk_index NUMBER(9) NOT NULL,
  span_start NUMBER(9) NOT NULL,
  span_end NUMBER(9) NOT NULL,
  tokens NUMBER(9) NOT NULL,
  embedding VECTOR({meta.dimensions:d}, FLOAT32),
  codes BLOB,
  text CLOB NOT NULL,
  search_text CLOB NOT NULL,
  CONSTRAINT mem_chunks_pk PRIMARY KEY (tenant_id, id),
  CONSTRAINT mem_chunks_documents_fk FOREIGN KEY (tenant_id, document_id, version)
    REFERENCES {DOCUMENTS} (tenant_id, document_id, version) ON DELETE CASCADE
)""",
            f"CREATE INDEX mem_chunks_document_i ON {CHUNKS} (tenant_id, document_id, version)",
            f"CREATE INDEX mem_chunks_row_i ON {CHUNKS} (tenant_id, chunk_row)",
        ),
        undo=(f"DROP TABLE {CHUNKS} PURGE",),
        done=_object(CHUNKS, "TABLE"),
    )


def _receipts() -> Step:
    return Step(
        name="receipts",
        purpose="what was forgotten and when, as a chain for each tenant; holds no content",
        run_as="owner",
        statements=(
            f"""CREATE TABLE {RECEIPTS} (
  tenant_id VARCHAR2(512) NOT NULL,
  chain_number NUMBER(18) NOT NULL,
  at_time TIMESTAMP(6) NOT NULL,
  action VARCHAR2(32) NOT NULL,
  ids CLOB NOT NULL,
  details CLOB NOT NULL,
  previous_hash VARCHAR2(40) NOT NULL,
  hash VARCHAR2(40) NOT NULL,
  CONSTRAINT mem_receipts_pk PRIMARY KEY (tenant_id, chain_number)
)""",
        ),
        undo=(f"DROP TABLE {RECEIPTS} PURGE",),
        done=_object(RECEIPTS, "TABLE"),
    )


def _meta(meta: Meta) -> Step:
    rows = tuple(
        f"INSERT INTO {META} (name, value) VALUES ('{name}', '{_literal(value)}')"
        for name, value in meta.rows().items()
    )
    return Step(
        name="meta",
        purpose="which model and indexes the tables were made for; the same for all tenants",
        run_as="owner",
        statements=(
            f"CREATE TABLE {META} (name VARCHAR2(64) NOT NULL, value VARCHAR2(1000) NOT NULL, "
            "CONSTRAINT mem_meta_pk PRIMARY KEY (name))",
            *rows,
            "COMMIT",
        ),
        undo=(f"DROP TABLE {META} PURGE",),
        done=_object(META, "TABLE"),
    )


def _literal(value: str) -> str:
    return value.replace("'", "''")


def _text_preferences(meta: Meta) -> Step:
    return Step(
        name="text preferences",
        purpose=f"how Oracle Text cuts words: lexer {_LEXERS[meta.lexer]}, no stop words",
        run_as="owner",
        statements=(_plsql.text_preferences(_LEXERS[meta.lexer]),),
        undo=("BEGIN CTX_DDL.DROP_PREFERENCE('mem_lexer'); END;",),
        done=(
            "SELECT COUNT(*) FROM ctx_user_preferences WHERE pre_name = :name",
            {"name": "MEM_LEXER"},
        ),
    )


def _text_index() -> Step:
    return Step(
        name="text index",
        purpose="the lexical pool; a row is found as soon as its transaction has committed",
        run_as="owner",
        statements=(
            f"CREATE INDEX {TEXT_INDEX} ON {CHUNKS} (search_text) INDEXTYPE IS CTXSYS.CONTEXT "
            "PARAMETERS ('LEXER mem_lexer STOPLIST CTXSYS.EMPTY_STOPLIST SYNC (ON COMMIT)')",
        ),
        undo=(f"DROP INDEX {TEXT_INDEX} FORCE",),
        done=_object(TEXT_INDEX, "INDEX"),
    )


def _vector_index(meta: Meta) -> Sequence[Step]:
    kinds = {
        "ivf": "ORGANIZATION NEIGHBOR PARTITIONS DISTANCE COSINE WITH TARGET ACCURACY 95",
        "hnsw": "ORGANIZATION INMEMORY NEIGHBOR GRAPH DISTANCE COSINE WITH TARGET ACCURACY 95 "
        "PARAMETERS (TYPE HNSW, NEIGHBORS 32, EFCONSTRUCTION 200)",
    }
    if meta.vector_index == "none":
        return ()
    return (
        Step(
            name="vector index",
            purpose="approximate vector search; an IVF index is best built again once the table "
            "is filled, an HNSW index needs vector_memory_size",
            run_as="owner",
            statements=(
                f"CREATE VECTOR INDEX {VECTOR_INDEX} ON {CHUNKS} (embedding) "
                f"{kinds[meta.vector_index]}",
            ),
            undo=(f"DROP INDEX {VECTOR_INDEX}",),
            done=_object(VECTOR_INDEX, "INDEX"),
        ),
    )


def _context(owner: str) -> Step:
    name = context_name(owner)
    return Step(
        name="context",
        purpose="where a session keeps its tenant; only the package of the next step can set it",
        run_as="owner",
        statements=(f"CREATE OR REPLACE CONTEXT {name} USING {owner}.{SESSION_PACKAGE}",),
        undo=(f"DROP CONTEXT {name}",),
    )


def _session_package(owner: str) -> Step:
    return Step(
        name="session package",
        purpose="sets and clears the tenant of a session",
        run_as="owner",
        statements=_plsql.session_package(context_name(owner)),
        undo=(f"DROP PACKAGE {SESSION_PACKAGE}",),
    )


def _upkeep_package() -> Step:
    return Step(
        name="upkeep package",
        purpose="optimises the text index, and reports its backlog and errors",
        run_as="owner",
        statements=_plsql.upkeep_package(TEXT_INDEX),
        undo=(f"DROP PACKAGE {UPKEEP_PACKAGE}",),
    )


def _policy(owner: str, table: str) -> Step:
    return Step(
        name=f"policy on {table}",
        purpose="row-level security: every statement sees and writes rows of the session's tenant "
        "only, and none without a tenant",
        run_as="owner",
        statements=(
            _plsql.policy_function(context_name(owner)),
            _plsql.add_policy(owner, table),
        ),
        undo=(_plsql.drop_policy(owner, table),),
        done=(
            "SELECT COUNT(*) FROM user_policies WHERE object_name = :name",
            {"name": table.upper()},
        ),
    )


def _grants(plan: Plan) -> Step:
    owner, app = plan.owner, plan.app
    tables = [
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {owner}.{table} TO {app}"
        for table in (DOCUMENTS, CHUNKS)
    ]
    if app == owner:
        return Step(name="grants", purpose="the owner needs none", run_as="owner", statements=())
    return Step(
        name="grants",
        purpose=f"what {app} may do: rows of the tables, and the packages; receipts are only added",
        run_as="owner",
        statements=(
            *tables,
            f"GRANT SELECT, INSERT ON {owner}.{RECEIPTS} TO {app}",
            f"GRANT SELECT ON {owner}.{META} TO {app}",
            f"GRANT EXECUTE ON {owner}.{SESSION_PACKAGE} TO {app}",
            f"GRANT EXECUTE ON {owner}.{UPKEEP_PACKAGE} TO {app}",
            *(f"GRANT SELECT ON MINING MODEL {owner}.{name} TO {app}" for name in plan.models),
        ),
    )


def _object(name: str, kind: str) -> tuple[str, dict[str, str]]:
    return _EXISTS, {"name": name.upper(), "type": kind}
