"""Evaluates `where` filters over many rows, and remembers the answers.

A version's metadata and columns never change once written, but for its expiry, so an answer stays
right for ever: a filter that was seen before costs only a look at the versions written since. A
filter on the expiry is answered anew each time.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict

import apsw
import numpy as np
from numpy.typing import NDArray

from agentmem._filters import Filter, canonical_json, columns_of, to_json
from agentmem.backends.embedded._filters import compile_filter
from agentmem.backends.embedded._resident import Mask, Snapshot

_FEW = 2_000
_KEPT = 64


class WhereCache:
    """Answers of recent filters, one bit for each version."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, Mask] = OrderedDict()

    def narrow(
        self, connection: apsw.Connection, snapshot: Snapshot, where: Filter, mask: Mask
    ) -> Mask:
        """Return `mask` without the rows for which `where` is false."""
        versions = snapshot.column("version_row")
        places = np.flatnonzero(mask)
        if len(places) <= _FEW:
            true = _true_among(connection, where, np.unique(versions[places]))
            kept = places[np.isin(versions[places], true)]
        else:
            answer = self._answer(connection, where)
            known = versions[places] < len(answer)
            kept = places[known][answer[versions[places][known]]]
        narrowed = np.zeros_like(mask)
        narrowed[kept] = True
        return narrowed

    def clear(self) -> None:
        """Forget all answers."""
        with self._lock:
            self._answers.clear()

    def _answer(self, connection: apsw.Connection, where: Filter) -> Mask:
        if "expires_at" in columns_of(where):
            return _extended(connection, where, np.zeros(0, dtype=np.bool_))
        name = canonical_json(to_json(where))
        with self._lock:
            answer = self._answers.pop(name, np.zeros(0, dtype=np.bool_))
            answer = _extended(connection, where, answer)
            self._answers[name] = answer
            while len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
            return answer


def _true_among(
    connection: apsw.Connection, where: Filter, versions: NDArray[np.int64]
) -> NDArray[np.int64]:
    compiled = compile_filter(where, table="d")
    rows = connection.execute(
        "SELECT version_row FROM documents d WHERE version_row IN "
        f"(SELECT value FROM json_each(?)) AND {compiled.sql}",
        (json.dumps(versions.tolist()), *compiled.params),
    )
    return np.fromiter((row[0] for row in rows), dtype=np.int64)


def _extended(connection: apsw.Connection, where: Filter, answer: Mask) -> Mask:
    last = connection.execute("SELECT COALESCE(MAX(version_row), 0) FROM documents").get
    if last < len(answer):
        return answer
    longer = np.zeros(last + 1, dtype=np.bool_)
    longer[: len(answer)] = answer
    compiled = compile_filter(where, table="d")
    rows = connection.execute(
        f"SELECT version_row FROM documents d WHERE version_row >= ? AND {compiled.sql}",
        (len(answer), *compiled.params),
    )
    longer[np.fromiter((row[0] for row in rows), dtype=np.int64)] = True
    return longer
