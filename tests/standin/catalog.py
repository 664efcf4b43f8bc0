"""What the set-up scripts made: tables, indexes, packages and policies, from their text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import duckdb

from tests.standin.errors import error

_COLUMN = re.compile(
    r"^(\w+) (VARCHAR2|NUMBER|TIMESTAMP|VECTOR|CLOB|BLOB|JSON)\b ?(?:\(([^)]*)\))?"
)
_TYPES = {
    "VARCHAR2": "VARCHAR", "NUMBER": "BIGINT", "TIMESTAMP": "TIMESTAMP", "CLOB": "VARCHAR",
    "BLOB": "BLOB", "JSON": "VARCHAR",
}  # fmt: skip
_VIEWS = """
CREATE TABLE user_objects (object_name VARCHAR, object_type VARCHAR);
CREATE TABLE all_users (username VARCHAR);
CREATE TABLE user_policies (
    object_name VARCHAR, policy_name VARCHAR, sel VARCHAR, ins VARCHAR, upd VARCHAR, del VARCHAR,
    chk_option VARCHAR, enable VARCHAR);
CREATE TABLE ctx_user_preferences (pre_name VARCHAR);
CREATE TABLE session_privs (privilege VARCHAR);
CREATE TABLE user_mining_models (model_name VARCHAR);
"""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: str
    size: int | None
    nullable: bool


@dataclass(slots=True)
class Table:
    columns: dict[str, Column]


@dataclass(frozen=True, slots=True)
class Policy:
    function: str
    kinds: frozenset[str]
    update_check: bool


@dataclass(slots=True)
class Catalog:
    """Everything that was created."""

    database: duckdb.DuckDBPyConnection
    tables: dict[str, Table] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    contexts: dict[str, str] = field(default_factory=dict)
    unique: list[tuple[str, str]] = field(default_factory=list)
    text_index: tuple[str, str, bool] | None = None
    """Table, column and whether it is filled at commit."""
    vector_index: bool = False
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database.execute(_VIEWS)

    def run(self, sql: str) -> bool:
        """Run a statement of DDL or a block; return False when it is neither."""
        text = " ".join(sql.split())
        for pattern, handler in _HANDLERS:
            match = re.match(pattern, text, re.IGNORECASE)
            if match:
                self.history.append(text)
                handler(self, match, sql)
                return True
        return False

    def predicate(self, table: str, kind: str) -> str | None:
        """Return the condition of the policy on a table for a kind of statement."""
        policy = self.policies.get(table)
        if policy is None or kind not in policy.kinds:
            return None
        source = self.functions.get(policy.function)
        if source is None:
            raise error("ORA-28110", "policy function or package has error")
        found = re.search(r"RETURN '((?:[^']|'')*)'", source.split(" IS", 1)[1])
        return found[1].replace("''", "'") if found else None

    # ------------------------------------------------------------------ handlers

    def create_table(self, match: re.Match[str], sql: str) -> None:
        name = match[1].lower()
        if name in self.tables:
            raise error("ORA-00955", "name is already used by an existing object")
        columns, keys = {}, []
        sequence = ""
        for part in _split(match[2]):
            found = _COLUMN.match(part)
            if found:
                columns[found[1]] = _column(found, part)
            elif key := re.search(r"PRIMARY KEY \(([^)]*)\)", part):
                keys.append(f"PRIMARY KEY ({key[1]})")
            elif "FOREIGN KEY" not in part:
                raise AssertionError(f"the stand-in does not know this part of a table: {part}")
            if "AS IDENTITY" in part:
                sequence = f"{name}_{found[1]}_seq" if found else ""
                self.database.execute(f"CREATE SEQUENCE {sequence}")
        lines = [_duck_column(c, sequence) for c in columns.values()]
        self.database.execute(f"CREATE TABLE {name} ({', '.join([*lines, *keys])})")
        self.tables[name] = Table(columns)
        self._add_object(name, "TABLE")

    def create_index(self, match: re.Match[str], sql: str) -> None:
        if match[1]:
            self.unique.append((match[3].lower(), match[4]))
        self._add_object(match[2], "INDEX")

    def create_text_index(self, match: re.Match[str], sql: str) -> None:
        self.text_index = (match[2].lower(), match[3].lower(), "SYNC (ON COMMIT)" in match[4])
        self._add_object(match[1], "INDEX")

    def create_vector_index(self, match: re.Match[str], sql: str) -> None:
        self.vector_index = True
        self._add_object(match[1], "INDEX")

    def drop(self, match: re.Match[str], sql: str) -> None:
        kind, name = match[1].upper(), match[2].lower().split(".")[-1]
        self.database.execute(
            "DELETE FROM user_objects WHERE object_name = ? AND object_type = ?",
            (name.upper(), kind),
        )
        if kind == "TABLE":
            if self.tables.pop(name, None) is None:
                raise error("ORA-00942", "table or view does not exist")
            self.policies.pop(name, None)
            self.database.execute(
                "DELETE FROM user_policies WHERE object_name = ?", (name.upper(),)
            )
            self.database.execute(f"DROP TABLE {name}")
        elif kind == "PACKAGE":
            self.packages.pop(name, None)
        elif kind == "CONTEXT":
            self.contexts.pop(name, None)
        elif kind == "USER":
            self.database.execute("DELETE FROM all_users WHERE username = ?", (name.upper(),))
        elif self.text_index and kind == "INDEX" and "text" in name:
            self.text_index = None

    def create_package(self, match: re.Match[str], sql: str) -> None:
        self.packages[match[1].lower()] = sql

    def create_function(self, match: re.Match[str], sql: str) -> None:
        self.functions[match[1].lower()] = " ".join(sql.split())

    def create_context(self, match: re.Match[str], sql: str) -> None:
        self.contexts[match[1].lower()] = match[2].lower()

    def create_user(self, match: re.Match[str], sql: str) -> None:
        self.database.execute("INSERT INTO all_users VALUES (?)", (match[1].upper(),))

    def block(self, match: re.Match[str], sql: str) -> None:
        arguments: dict[str, Any] = dict(
            (name.lower(), value)
            for name, value in re.findall(r"(\w+) => (?:'([^']*)'|\w+)", " ".join(sql.split()))
        )
        checked = "update_check => TRUE" in sql
        if "DBMS_RLS.ADD_POLICY" in sql:
            self._add_policy(arguments, checked)
        elif "DBMS_RLS.DROP_POLICY" in sql:
            self.policies.pop(arguments["object_name"].lower(), None)
            self.database.execute(
                "DELETE FROM user_policies WHERE object_name = ?", (arguments["object_name"],)
            )
        elif "CTX_DDL.CREATE_PREFERENCE" in sql:
            name = re.search(r"CREATE_PREFERENCE\('(\w+)'", sql)
            assert name
            self.database.execute("INSERT INTO ctx_user_preferences VALUES (?)", (name[1].upper(),))
        elif "CTX_DDL.DROP_PREFERENCE" in sql:
            self.database.execute("DELETE FROM ctx_user_preferences")

    def nothing(self, match: re.Match[str], sql: str) -> None:
        """Only remember that it was run."""

    def _add_policy(self, arguments: dict[str, Any], checked: bool) -> None:
        table = arguments["object_name"].lower()
        if table in self.policies:
            raise error("ORA-28101", "policy already exists")
        kinds = frozenset(arguments["statement_types"].split(","))
        self.policies[table] = Policy(arguments["policy_function"].lower(), kinds, checked)
        yes = [
            "YES" if kind in kinds else "NO" for kind in ("SELECT", "INSERT", "UPDATE", "DELETE")
        ]
        self.database.execute(
            "INSERT INTO user_policies VALUES (?, ?, ?, ?, ?, ?, ?, 'YES')",
            (table.upper(), arguments["policy_name"], *yes, "YES" if checked else "NO"),
        )

    def _add_object(self, name: str, kind: str) -> None:
        found = self.database.execute(
            "SELECT COUNT(*) FROM user_objects WHERE object_name = ? AND object_type = ?",
            (name.upper(), kind),
        ).fetchone()
        if found and found[0]:
            raise error("ORA-00955", "name is already used by an existing object")
        self.database.execute("INSERT INTO user_objects VALUES (?, ?)", (name.upper(), kind))


def _split(body: str) -> list[str]:
    """Split the parts of a table at commas outside of parentheses."""
    parts, depth, part = [], 0, ""
    for character in body:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += character
    return [*parts, part.strip()]


def _column(found: re.Match[str], part: str) -> Column:
    first = (found[3] or "").split(",")[0].split(" ")[0]
    return Column(
        found[1], found[2], int(first) if first.isdigit() else None, "NOT NULL" not in part
    )


def _duck_column(column: Column, sequence: str) -> str:
    kind = f"FLOAT[{column.size}]" if column.kind == "VECTOR" else _TYPES[column.kind]
    default = f" DEFAULT nextval('{sequence}')" if sequence.endswith(f"_{column.name}_seq") else ""
    return f"{column.name} {kind}{default}{'' if column.nullable else ' NOT NULL'}"


_HANDLERS = [
    (r"CREATE TABLE (\w+) \((.*)\)$", Catalog.create_table),
    (
        r"CREATE INDEX (\w+) ON (\w+) \((\w+)\) INDEXTYPE IS CTXSYS\.CONTEXT PARAMETERS (.*)$",
        Catalog.create_text_index,
    ),
    (r"CREATE VECTOR INDEX (\w+) ON (\w+)", Catalog.create_vector_index),
    (r"CREATE (UNIQUE )?INDEX (\w+) ON (\w+) \((.*)\)$", Catalog.create_index),
    (r"DROP (TABLE|INDEX|PACKAGE|CONTEXT|USER|FUNCTION) ([\w.]+)", Catalog.drop),
    (r"CREATE OR REPLACE PACKAGE BODY (\w+)", Catalog.create_package),
    (r"CREATE OR REPLACE PACKAGE (\w+)", Catalog.nothing),
    (r"CREATE OR REPLACE FUNCTION (\w+)", Catalog.create_function),
    (r"CREATE OR REPLACE CONTEXT (\w+) USING ([\w.]+)", Catalog.create_context),
    (r"CREATE USER (\w+)", Catalog.create_user),
    (r"(GRANT|ALTER SESSION|COMMIT$)", Catalog.nothing),
    (r"BEGIN ", Catalog.block),
]
