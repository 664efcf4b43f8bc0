"""One session of the server: its context, its transaction, and the running of statements."""

from __future__ import annotations

import array
import itertools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import duckdb
import oracledb

from tests.standin import binds, json_path
from tests.standin.errors import error
from tests.standin.translate import TENANT, Translated

if TYPE_CHECKING:
    from tests.standin.server import StandIn

_NUMBERS = itertools.count(1)


class Result:
    """Rows of a query, or how many rows a change touched."""

    def __init__(self, rows: list[tuple[Any, ...]] | None, count: int) -> None:
        self.rows = rows
        self.count = count


class Session:
    """State on the server behind one connection."""

    def __init__(self, server: StandIn, user: str) -> None:
        self.number = next(_NUMBERS)
        self.user = user
        self.context: dict[tuple[str, str], str] = {}
        self.dead = False
        self.writing = False
        self._server = server
        self._database = server.database.cursor()
        self._gone: set[str] = set()

    @property
    def tenant(self) -> str | None:
        return next((v for (_, name), v in self.context.items() if name == "TENANT_ID"), None)

    # ------------------------------------------------------------------ statements, in a thread

    def run(
        self, sql: str, values: Mapping[str, Any], types: Mapping[str, Any], plain: bool
    ) -> Result:
        """Run one statement with bound values."""
        statement = self._server.translated(sql)
        return self._run(statement, values, types, plain)

    def run_many(
        self, sql: str, rows: list[Mapping[str, Any]], types: Mapping[str, Any]
    ) -> list[int]:
        """Run one statement for each row of values."""
        statement = self._server.translated(sql)
        counts = []
        for place, values in enumerate(rows):
            try:
                counts.append(self._run(statement, values, types, True).count)
            except oracledb.Error as failure:
                failure.args[0].offset = place
                raise
        return counts

    def _run(
        self,
        statement: Translated,
        values: Mapping[str, Any],
        types: Mapping[str, Any],
        plain: bool,
    ) -> Result:
        unknown = types.keys() - statement.binds
        if unknown:
            raise error("DPY-4008", f'no bind placeholder named ":{min(unknown)}" was found')
        binds.check_names(statement.binds, values)
        sent = {
            name: binds.converted(name, value, types.get(name)) for name, value in values.items()
        }
        self._check(statement, sent)
        missing = statement.models - self._server.models.keys()
        if missing:
            raise error("ORA-40284", f"model does not exist: {min(missing)}")
        parameters = self._parameters(statement, sent)
        try:
            self._database.execute(statement.sql, parameters)
            if statement.kind == "SELECT":
                return Result(self._fetched(statement, plain), -1)
            count = (self._database.fetchone() or (0,))[0]
        except duckdb.Error as failure:
            raise _server_error(failure) from failure
        self._changed(statement)
        return Result(None, count)

    def _parameters(self, statement: Translated, sent: Mapping[str, Any]) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        wanted = statement.parameters
        for name, value in sent.items():
            if f"{name}__json" in wanted:
                parameters[f"{name}__json"] = json.dumps(value)
            if f"{name}__number" in wanted:
                parameters[f"{name}__number"] = json_path.number_text(value)
            if name in wanted:
                parameters[name] = value
        if TENANT in wanted:
            parameters[TENANT] = self.tenant
        for number, (words, bound) in enumerate(statement.words, start=1):
            parameters[f"si_words{number}"] = self._server.score(sent[words] if bound else words)
        return parameters

    def _check(self, statement: Translated, sent: Mapping[str, Any]) -> None:
        """Check sizes, and what the policy says about rows that are written."""
        if statement.table is None:
            return
        columns = self._server.catalog.tables[statement.table].columns
        for name, column in statement.stored.items():
            kind, value = columns[column], sent[name]
            if kind.kind == "VARCHAR2" and isinstance(value, str):
                if kind.size and len(value.encode()) > kind.size:
                    raise error("ORA-12899", f"value too large for column {column}")
            if kind.kind == "VECTOR" and value is not None and len(value) != kind.size:
                raise error("ORA-51803", "vector dimension count must match the column")
            if value is None and not kind.nullable:
                raise error("ORA-01400", f"cannot insert NULL into {column}")
        policy = self._server.catalog.policies.get(statement.table)
        if policy and policy.update_check and statement.kind in policy.kinds:
            for name, column in statement.stored.items():
                if column == "tenant_id" and sent[name] != self.tenant:
                    raise error("ORA-28115", "policy with check option violation")

    def _fetched(self, statement: Translated, plain: bool) -> list[tuple[Any, ...]]:
        kinds = [*statement.outputs]
        return [
            tuple(_fetched(value, kind, plain) for value, kind in zip(row, kinds, strict=True))
            for row in self._database.fetchall()
        ]

    def _changed(self, statement: Translated) -> None:
        for table, expressions in self._server.catalog.unique:
            if table == statement.table:
                self._check_unique(table, expressions)
        index = self._server.catalog.text_index
        if (
            index
            and index[0] == statement.table
            and statement.kind == "UPDATE"
            and statement.sets_text
        ):
            self._server.stale_text()

    def _check_unique(self, table: str, expressions: str) -> None:
        names = [part.strip() for part in expressions.split(",")]
        some = " OR ".join(f"({name}) IS NOT NULL" for name in names)
        row = self._database.execute(
            f"SELECT 1 FROM {table} WHERE {some} GROUP BY {expressions} HAVING COUNT(*) > 1 LIMIT 1"
        ).fetchone()
        if row:
            raise error("ORA-00001", f"unique constraint violated on {table}")

    def begin(self) -> None:
        self._database.begin()
        self.writing = True

    def commit(self) -> None:
        if self.writing:
            self._database.commit()
        self.writing = False

    def rollback(self) -> None:
        if self.writing:
            try:
                self._database.rollback()
            except duckdb.TransactionException:
                pass  # an error has ended the transaction already
        self.writing = False

    def close(self) -> None:
        self.rollback()
        self._database.close()


def _fetched(value: Any, kind: str | None, plain: bool) -> Any:
    if kind == "JSON":
        return binds.from_json_text(value)
    if kind == "VECTOR" and value is not None:
        return array.array("f", value)
    if kind in ("CLOB", "BLOB") and not plain and value is not None:
        return binds.Lob(value)
    return value


def _server_error(failure: duckdb.Error) -> oracledb.Error:
    text = str(failure)
    if "Duplicate key" in text or "duplicate key" in text:
        return error("ORA-00001", "unique constraint violated")
    if "NOT NULL constraint" in text:
        return error("ORA-01400", "cannot insert NULL")
    raise AssertionError(f"the stand-in failed: {text}") from failure
