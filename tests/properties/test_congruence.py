"""Random histories give the same on both engines and on a plain model.

Two tenants, two users, writes, rewrites, forgets, purges, restores, new expiries, searches, time
and restarts.
Ids, versions, ranks, similarities, errors and receipts must agree; lexical scores are each engine's
own, so there it is the set of chunks found that must agree.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import oracledb
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentmem import F, Memory
from agentmem.errors import AgentMemError, ConflictError
from tests.databases import StandInStore
from tests.model import Doc, Model, Version
from tests.support import SetClock, WordEmbedder

TENANTS = ("acme", "umbra")
users = st.sampled_from([None, "ada", "bob"])
collections = st.sampled_from(["default", "notes"])
keys = st.sampled_from([None, "k1", "k2"])
tenants = st.sampled_from(TENANTS)
words = st.sampled_from(
    ["tea", "milk", "the red kite", "ERR-4711", "日本語のメモ", "café", "🦉 owl"]
)
contents = st.lists(words, min_size=1, max_size=3).map(" ".join)
metadata = st.sampled_from([{}, {"lang": "en"}, {"lang": "de", "n": 1.5}, {"tags": ["a", "b"]}])
offsets = st.sampled_from([None, -2, 2, 5])
filters = st.sampled_from(
    [None, F("lang") == "en", ~F("lang").exists(), F("tags").contains("a"), F("n") > 1]
)
places = st.integers(0, 20)


class Histories(RuleBasedStateMachine):
    """One history, told to both engines and to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.patches = pytest.MonkeyPatch()
        self.store = StandInStore()
        self.patches.setattr(oracledb, "create_pool_async", self.store.server.create_pool_async)
        self.folder = tempfile.TemporaryDirectory()
        self.clock = SetClock()
        self.embedder = WordEmbedder()
        self.models = {tenant: Model() for tenant in TENANTS}
        self.scanned = False
        self.open()

    def open(self) -> None:
        self.memories: dict[str, tuple[Memory, Memory]] = {}
        path = Path(self.folder.name) / "memory"
        for tenant in TENANTS:
            named: dict[str, Any] = {"tenant": tenant, "clock": self.clock, "reranker": "none"}
            pair = (
                Memory(path, embedder=self.embedder, **named),
                self.store.memory(self.embedder, named),
            )
            for memory in pair:
                self.runner.run(memory.open())
            self.memories[tenant] = pair

    def close(self) -> None:
        for pair in self.memories.values():
            for memory in pair:
                self.runner.run(memory.close())

    def teardown(self) -> None:
        self.close()
        assert self.store.server.checked_out == 0
        self.store.server.close()
        self.patches.undo()
        self.runner.close()
        self.folder.cleanup()

    def both(self, tenant: str, call: Callable[[Memory], Awaitable[Any]]) -> Any:
        """Return what the call gives on both engines, which must be the same."""
        results: list[Any] = []
        for memory in self.memories[tenant]:
            try:
                results.append(self.runner.run(call(memory)))  # type: ignore[arg-type]  # coroutines
            except AgentMemError as error:
                results.append((type(error), str(error)))
        assert results[0] == results[1]
        return results[0]

    def at(self, days: int | None) -> datetime | None:
        return None if days is None else self.clock.now + timedelta(days=days)

    def doc(self, tenant: str, place: int) -> Doc | None:
        docs = self.models[tenant].docs
        return docs[place % len(docs)] if docs else None

    # -------------------------------------------------------------------- rules

    @rule(
        tenant=tenants, user=users, collection=collections, key=keys, content=contents,
        data=metadata, begins=offsets, ends=st.sampled_from([None, 6, 9]),
        expires=st.sampled_from([None, None, 3]),
    )  # fmt: skip
    def write(
        self, tenant: str, user: str | None, collection: str, key: str | None, content: str,
        data: dict[str, Any], begins: int | None, ends: int | None, expires: int | None,
    ) -> None:  # fmt: skip
        version = Version(
            1, content, data, self.clock.now, self.at(begins), self.at(ends), self.at(expires)
        )
        result = self.both(
            tenant,
            lambda m: m.write(
                content, user_id=user, collection=collection, key=key, metadata=data,
                valid_from=version.valid_from, valid_until=version.valid_until,
                expires_at=version.expires_at,
            ),
        )  # fmt: skip
        written = result.documents[0]
        doc = Doc("", self.clock.now, user, collection, key)
        expected = self.models[tenant].write(doc, version, written.id)
        assert (written.id, written.version, written.status) == expected

    @rule(tenant=tenants, user=users, collection=st.none() | collections, purge=st.booleans())
    def forget_of_a_user(
        self, tenant: str, user: str | None, collection: str | None, purge: bool
    ) -> None:
        if user is None and collection is None:
            return
        self._forget(
            tenant,
            lambda d: d.user == user and (collection is None or d.collection == collection),
            purge,
            user_id=user,
            collection=collection,
        )

    @precondition(lambda self: any(m.docs for m in self.models.values()))
    @rule(tenant=tenants, place=places, user=users, purge=st.booleans())
    def forget_by_id(self, tenant: str, place: int, user: str | None, purge: bool) -> None:
        doc = self.doc(tenant, place)
        if doc is not None:
            self._forget(
                tenant,
                lambda d: d.id == doc.id and d.user in (None, user),
                purge,
                ids=doc.id,
                user_id=user,
            )

    def _forget(self, tenant: str, fits: Callable[[Doc], bool], purge: bool, **named: Any) -> None:
        model = self.models[tenant]
        found = model.select(
            lambda d: fits(d) and (purge or not d.deleted), self.clock.now, expired=True
        )

        async def call(memory: Memory) -> Any:
            result = await memory.forget(purge=purge, **named)
            receipt = None if self.scanned else result.receipt
            return [(d.id, d.versions, d.chunks) for d in result.documents], receipt

        documents, _ = self.both(tenant, call)
        assert documents == [(d.id, len(d.versions), len(d.versions)) for d in found]
        # A purge is followed by a receipt of the search, whose details are each engine's own.
        self.scanned |= purge and bool(found)
        model.forget(found, purge=purge)

    @rule(tenant=tenants, place=places, user=users)
    def restore(self, tenant: str, place: int, user: str | None) -> None:
        doc = self.doc(tenant, place)
        if doc is None:
            return
        model = self.models[tenant]
        found = model.select(
            lambda d: d.id == doc.id and d.deleted and d.user in (None, user), self.clock.now
        )
        result = self.both(tenant, lambda m: m.restore(doc.id, user_id=user))
        if model.restore(found) is not None:
            assert result[0] is ConflictError
        else:
            assert list(result.restored) == [d.id for d in found]

    @rule(tenant=tenants, place=places, user=users, expires=st.sampled_from([None, 2, 5]))
    def set_expiry(self, tenant: str, place: int, user: str | None, expires: int | None) -> None:
        doc = self.doc(tenant, place)
        if doc is None:
            return
        found = self.models[tenant].select(
            lambda d: d.id == doc.id and not d.deleted and d.user in (None, user), self.clock.now
        )
        until = self.at(expires)
        result = self.both(tenant, lambda m: m.set_expiry(doc.id, until, user_id=user))
        assert list(result) == [d.id for d in found]
        for one in found:
            one.head.expires_at = until

    @rule(tenant=tenants, user=users, chosen=st.none() | collections.map(lambda c: [c]),
          days=st.sampled_from([None, -3, 0, 3, 7]), query=contents, where=filters)  # fmt: skip
    def search(
        self, tenant: str, user: str | None, chosen: list[str] | None, days: int | None,
        query: str, where: Any,
    ) -> None:  # fmt: skip
        as_of = self.at(days)

        async def call(memory: Memory) -> Any:
            result = await memory.search(
                query, user_id=user, collections=chosen, as_of=as_of, where=where, k=50,
                explain=True,
            )  # fmt: skip
            return {
                e.id: (
                    e.scores.vector_rank,
                    round(e.scores.similarity or 0.0, 5),
                    e.scores.lexical_rank is None,
                    e.text,
                )
                for e in result.trace.explanations or ()
            }

        found = self.both(tenant, call)
        if where is None:
            expected = self.models[tenant].searchable(user, chosen, self.clock.now, as_of)
            assert {name: text for name, (_, _, _, text) in found.items()} == {
                name: version.content for name, version in expected.items()
            }
        assert sorted(rank for rank, _, _, _ in found.values()) == list(range(1, len(found) + 1))

    @rule(days=st.integers(0, 3))
    def time_passes(self, days: int) -> None:
        self.clock.forward(days=days, microseconds=1)

    @rule()
    def restart(self) -> None:
        self.close()
        self.open()

    # -------------------------------------------------------------------- always

    @invariant()
    def listings_agree(self) -> None:
        for tenant in TENANTS:
            for user in (None, "ada"):
                self._listing_agrees(tenant, user)

    def _listing_agrees(self, tenant: str, user: str | None) -> None:
        page = self.both(tenant, lambda m: m.list(user_id=user))
        expected = self.models[tenant].select(
            lambda d: not d.deleted and d.user in (None, user), self.clock.now
        )
        assert [(d.id, d.version, d.content, d.metadata) for d in page.documents] == [
            (d.id, d.head.number, d.head.content, d.head.metadata) for d in expected
        ]
        assert self.both(tenant, lambda m: m.count(user_id=user)) == len(expected)

    @invariant()
    def the_rest_agrees(self) -> None:
        for tenant in TENANTS:
            self.both(tenant, lambda m: m.history("k1", user_id="ada"))
            self.both(tenant, lambda m: m.list(user_id="ada", as_of=self.at(-1)))

            async def receipts(memory: Memory) -> Any:
                return [
                    (r.number, r.at, r.action, r.ids, r.action == "scan" or r.details)
                    for r in await memory.receipts()
                ]

            self.both(tenant, receipts)

            async def stats(memory: Memory) -> Any:
                s = await memory.stats()
                return s.documents, s.versions, s.chunks, s.forgotten, s.users, s.collections

            self.both(tenant, stats)


class LongHistories(Histories):
    """The same, for longer."""


Histories.TestCase.settings = settings(
    max_examples=8,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
LongHistories.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestHistories = Histories.TestCase
TestLongHistories = pytest.mark.slow(pytest.mark.timeout(1800)(LongHistories.TestCase))
