"""`StandIn`: the server. It holds the data, the text index, the sessions and the faults to come."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import duckdb
import oracledb
from duckdb.func import SPECIAL

from tests.standin import json_path
from tests.standin.catalog import Catalog
from tests.standin.errors import error
from tests.standin.text_index import TextIndex
from tests.standin.translate import Translated, translate

_QUERIES_KEPT = 64
_POOL_ARGUMENTS = frozenset(inspect.signature(oracledb.create_pool_async).parameters)
_CONNECT_ARGUMENTS = frozenset(inspect.signature(oracledb.connect_async).parameters)


@dataclass(slots=True)
class Fault:
    """An error that is still to be raised.

    `after` raises it when the work is done: the answer is what is lost.
    """

    code: str
    times: int
    when: Callable[[str], bool]
    after: bool


class StandIn:
    """A server that tests connect to instead of Oracle.

    Attributes
    ----------
    sessions
        The open sessions, by number.
    round_trips
        How often a client has waited for an answer.
    log
        Number of the session and text of everything that was run.
    down, delay
        Whether no connection can be made, and seconds that each answer takes.
    break_fails
        Whether a session dies when its call is cancelled.
    clock_ahead
        How far the server's clock is ahead.
    loaded
        Bytes and metadata of the models that were loaded, by name.
    models
        Functions that stand for models in the database, by name.
    """

    def __init__(self) -> None:
        self.database = duckdb.connect(":memory:")
        self.catalog = Catalog(self.database)
        self.round_trips = 0
        self.log: list[tuple[int, str]] = []
        self.sessions: dict[int, Any] = {}
        self.killed: set[int] = set()
        self.checked_out = 0
        self.down = False
        self.delay = 0.0
        self.break_fails = False
        self.clock_ahead = timedelta(0)
        self.models: dict[str, Callable[..., Any]] = {}
        self.loaded: dict[str, tuple[bytes, Any]] = {}
        self._faults: list[Fault] = []
        self._index = TextIndex()
        self._lost: set[str] = set()
        self._numbers = itertools.count()
        self._queries: dict[str, dict[str, int]] = {}
        self._writer: asyncio.Lock | None = None
        self.translated = lru_cache(maxsize=512)(self._translated)
        self._register()

    def close(self) -> None:
        self.database.close()

    # ------------------------------------------------------------------ what the driver offers

    def create_pool_async(self, *positional: Any, **arguments: Any) -> Any:
        from tests.standin.driver import Pool

        asyncio.get_running_loop()
        unknown = arguments.keys() - _POOL_ARGUMENTS
        if positional or unknown:
            raise TypeError(f"create_pool_async() got an unexpected argument {sorted(unknown)}")
        return Pool(self, arguments)

    def connect_async(self, *positional: Any, **arguments: Any) -> Any:
        from tests.standin.driver import Connecting

        unknown = arguments.keys() - _CONNECT_ARGUMENTS
        if positional or unknown:
            raise TypeError(f"connect_async() got an unexpected argument {sorted(unknown)}")
        return Connecting(self, arguments["user"])

    def set_up(self, statements: Iterable[str]) -> None:
        """Run scripts as an administrator would, without a connection."""
        for sql in statements:
            if not self.catalog.run(sql):
                self.database.execute(self.translated(sql).sql)

    # ------------------------------------------------------------------ faults

    def fail_next(
        self,
        code: str,
        *,
        times: int = 1,
        when: Callable[[str], bool] = lambda sql: True,
        after: bool = False,
    ) -> None:
        """Let the next calls whose text fits `when` fail with `code`."""
        self._faults.append(Fault(code, times, when, after))

    def fault(self, text: str, *, after: bool) -> None:
        """Raise a fault that is due."""
        for fault in self._faults:
            if fault.times and fault.after == after and fault.when(text):
                fault.times -= 1
                raise error(fault.code)

    def kill_sessions(self) -> None:
        """Kill every session; its client notices at the next call."""
        self.killed |= self.sessions.keys()

    @property
    def writer(self) -> asyncio.Lock:
        """Held by the session that changes rows; stands for the locks of rows."""
        if self._writer is None:
            self._writer = asyncio.Lock()
        return self._writer

    # ------------------------------------------------------------------ procedures

    def call(self, session: Any, name: str, arguments: list[Any]) -> None:
        """Run a procedure of a package that the scripts created."""
        owner, package, procedure = name.lower().split(".")
        source = self.catalog.packages.get(package)
        if source is None or f"PROCEDURE {procedure}" not in source:
            raise error("ORA-06550", f"PLS-00201: identifier '{name.upper()}' must be declared")
        body = source[source.index(f"PROCEDURE {procedure}") :]
        body = body[: body.index(f"END {procedure};")]
        if "IS NULL THEN" in body and arguments and arguments[0] is None:
            raise error("ORA-20001", "a tenant is required")
        if found := re.search(r"SET_CONTEXT\('(\w+)', '(\w+)', p_tenant\)", body):
            self._check_context(found[1], owner, package)
            session.context[found[1], found[2]] = str(arguments[0])
        elif found := re.search(r"CLEAR_CONTEXT\('(\w+)', NULL, '(\w+)'\)", body):
            self._check_context(found[1], owner, package)
            session.context.pop((found[1], found[2]), None)
        elif "SYNC_INDEX" in body:
            self.sync_text()

    def _check_context(self, name: str, owner: str, package: str) -> None:
        if self.catalog.contexts.get(name.lower()) != f"{owner}.{package}":
            raise error("ORA-01031", "insufficient privileges")

    def model(self, sql: str, values: Mapping[str, Any], types: Mapping[str, Any]) -> None:
        """Load or drop a model."""
        name = values["name"]
        if "LOAD_ONNX_MODEL" in sql:
            if name in self.loaded:
                raise error("ORA-40200", "the model exists already")
            if types.get("data") is not oracledb.DB_TYPE_BLOB:
                raise error("ORA-06550", "PLS-00306: wrong types of arguments")
            self.loaded[name] = values["data"], json.loads(values["meta"])
            self.database.execute("INSERT INTO user_mining_models VALUES (?)", (name,))
        else:
            del self.loaded[name]
            self.database.execute("DELETE FROM user_mining_models WHERE model_name = ?", (name,))

    # ------------------------------------------------------------------ text index

    def score(self, words: str | None) -> str:
        """Return the name under which `SI_SCORE` finds the scores of a query."""
        scores = self._index.search(words)
        name = f"query {next(self._numbers)}"
        self._queries[name] = scores
        while len(self._queries) > _QUERIES_KEPT:
            self._queries.pop(next(iter(self._queries)))
        return name

    def sync_text(self) -> None:
        """Index the rows that were committed and are not in the index yet."""
        if self.catalog.text_index is None:
            return
        table, column, _ = self.catalog.text_index
        if table not in self.catalog.tables:
            return
        rows = self.database.cursor().execute(
            f"SELECT CONCAT(tenant_id, '/', id), {column} FROM {table}"
        )
        found = dict(rows.fetchall())
        for key in self._index.keys() - found.keys():
            self._index.remove(key)
        for key in found.keys() - self._index.keys() - self._lost:
            self._index.put(key, found[key])

    def stale_text(self) -> None:
        """Empty the index: rows whose text was set anew are not found until they are read again."""
        self._index = TextIndex()
        self._lost.clear()

    def lose_text(self, key: str) -> None:
        """Take a row out of the index, as a failed synchronisation leaves it."""
        self._lost.add(key)
        self._index.remove(key)

    def committed(self) -> None:
        if self.catalog.text_index and self.catalog.text_index[2]:
            self.sync_text()

    # ------------------------------------------------------------------ statements

    def _translated(self, sql: str) -> Translated:
        return translate(sql, self.catalog)

    def _register(self) -> None:
        text, whole = "VARCHAR", "INTEGER"
        row = duckdb.struct_type(
            {"v": text, "kind": text, "j": text, "content": text, "place": whole}
        )
        functions: list[tuple[str, Callable[..., Any], list[Any], Any]] = [
            ("si_score", lambda key, query: self._queries[query].get(key, 0), [text] * 2, whole),
            ("si_json_exists", _json_exists, [text] * 3, "BOOLEAN"),
            ("si_json_value", json_path.json_value, [text] * 3, text),
            ("si_json_query", json_path.json_query, [text] * 2, text),
            ("si_json_equal", json_path.json_equal, [text] * 2, "BOOLEAN"),
            ("si_rows", json_path.json_rows, [text] * 3, duckdb.list_type(row)),
            (
                "si_substr",
                lambda value, size, at: value and value[:size],
                [text, whole, whole],
                text,
            ),
            ("si_upkeep", self._upkeep, [text], whole),
            ("si_now", self._now, [], "TIMESTAMP"),
            ("si_prediction", self._predict, [text] * 3, "DOUBLE"),
            ("si_vector_embedding", self._embed, [text] * 2, duckdb.list_type("DOUBLE")),
        ]
        for name, function, parameters, returned in functions:
            self.database.create_function(
                name,
                function,
                parameters,
                returned,
                null_handling=SPECIAL,
                side_effects=True,
            )

    def _upkeep(self, function: str) -> int:
        return len(self._lost) if function == "text_errors" else 0

    def _now(self) -> datetime:
        return datetime.now(UTC).replace(tzinfo=None) + self.clock_ahead

    def _predict(self, model: str, query: str, text: str) -> float:
        return float(self._model(model)(query, text))

    def _embed(self, model: str, text: str) -> list[float]:
        return [float(value) for value in self._model(model)(text)]

    def _model(self, name: str) -> Callable[..., Any]:
        return self.models[name.lower()]


def _json_exists(text: str | None, path: str, value: str | None) -> bool:
    return json_path.json_exists(text, path, None if value is None else json.loads(value))
