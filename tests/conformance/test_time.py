"""Versions, validity, expiry and as_of."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from agentmem import F, InvalidInputError, Memory
from tests.support import START, SetClock, texts

JAN, FEB, MAR, APR = (datetime(2025, month, 1, tzinfo=UTC) for month in (1, 2, 3, 4))
SECOND = timedelta(microseconds=1)


async def answers(memory: Memory, *moments: datetime | date | None) -> list[list[str]]:
    return [texts(await memory.search("code", as_of=moment)) for moment in moments]


async def test_versions_rule_from_their_time_on(memory: Memory, clock: SetClock) -> None:
    clock.now = JAN
    await memory.write("code one", key="k")
    clock.now = FEB
    await memory.write("code two", key="k")
    clock.now = APR
    assert await answers(memory, None, JAN - SECOND, JAN, FEB - SECOND, FEB) == [
        ["code two"], [], ["code one"], ["code one"], ["code two"],
    ]  # fmt: skip


async def test_a_backdated_correction_replaces_from_its_date(
    memory: Memory, clock: SetClock
) -> None:
    clock.now = JAN
    await memory.write("code one", key="k")
    clock.now = APR
    await memory.write("code two", key="k", valid_from=FEB)
    assert await answers(memory, None, JAN, FEB) == [["code two"], ["code one"], ["code two"]]


async def test_a_correction_from_before_the_first_version_hides_it(
    memory: Memory, clock: SetClock
) -> None:
    clock.now = MAR
    await memory.write("code one", key="k", valid_from=FEB)
    await memory.write("code two", key="k", valid_from=JAN)
    assert await answers(memory, None, JAN, FEB) == [["code two"]] * 3


async def test_an_announced_change_rules_later(memory: Memory, clock: SetClock) -> None:
    clock.now = JAN
    await memory.write("code one", key="k")
    await memory.write("code two", key="k", valid_from=MAR)
    assert await answers(memory, None, MAR) == [["code one"], ["code two"]]
    clock.now = MAR
    assert await answers(memory, None) == [["code two"]]


async def test_three_versions_written_out_of_order(memory: Memory, clock: SetClock) -> None:
    clock.now = APR
    for text, start in (("code feb", FEB), ("code mar", MAR), ("code jan", JAN)):
        await memory.write(text, key="k", valid_from=start)
    assert await answers(memory, None, JAN, FEB, MAR) == [["code jan"]] * 4


async def test_case_29_validity_is_half_open(memory: Memory, clock: SetClock) -> None:
    clock.now = MAR
    await memory.write("code", valid_from=JAN, valid_until=FEB)
    assert await answers(memory, None, JAN - SECOND, JAN, FEB - SECOND, FEB) == [
        [], [], ["code"], ["code"], [],
    ]  # fmt: skip


async def test_case_29_a_date_means_the_end_of_that_day_in_utc(
    memory: Memory, clock: SetClock
) -> None:
    clock.now = MAR
    await memory.write("code", valid_from=datetime(2025, 1, 5, 23, 59, 59, 999999, tzinfo=UTC))
    assert await answers(memory, date(2025, 1, 4), date(2025, 1, 5)) == [[], ["code"]]


async def test_case_28_naive_datetimes_are_refused(memory: Memory) -> None:
    naive = datetime(2025, 1, 1)
    with pytest.raises(InvalidInputError, match="without a time zone"):
        await memory.search("x", as_of=naive)
    with pytest.raises(InvalidInputError, match="without a time zone"):
        await memory.write("x", expires_at=naive)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles", "UTC"])
async def test_case_28_the_machines_time_zone_changes_nothing(
    memory: Memory, clock: SetClock, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        tokyo = timezone(timedelta(hours=9))
        clock.now = MAR
        await memory.write("code", valid_from=datetime(2025, 1, 1, 9, tzinfo=tokyo))
        assert await answers(memory, JAN - SECOND, JAN, date(2024, 12, 31), date(2025, 1, 1)) == [
            [], ["code"], [], ["code"],
        ]  # fmt: skip
        hit = (await memory.search("code")).hits[0]
        assert (hit.valid_from, hit.created_at) == (JAN, MAR)
        assert "(2025-01-01)" in (await memory.search("code")).context
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_case_30_the_expired_is_invisible_before_any_sweep(
    memory: Memory, clock: SetClock
) -> None:
    name = (await memory.write("code", key="k", expires_at=START + timedelta(hours=1))).ids[0]
    await memory.write("other")
    clock.forward(minutes=59)
    assert await memory.get(name) is not None
    clock.forward(minutes=1)
    assert await memory.get(name) is None
    assert texts(await memory.search("code")) == ["other"]
    assert texts(await memory.search("code", as_of=START)) == ["other"]
    assert [d.content for d in (await memory.list()).documents] == ["other"]
    assert await memory.count() == 1
    assert await memory.history("k") == ()
    again = await memory.write("code", key="k")
    assert texts(await memory.search("code", k=1)) == ["code"]
    assert again.documents[0].status in ("created", "updated")


async def test_list_and_count_as_of(memory: Memory, clock: SetClock) -> None:
    clock.now = JAN
    await memory.write("one", key="k")
    clock.now = MAR
    await memory.write("two", key="k")
    await memory.write("three")
    page = await memory.list(as_of=FEB)
    assert [(d.content, d.version) for d in page.documents] == [("one", 1)]
    assert await memory.count(as_of=FEB) == 1
    assert await memory.count() == 2


async def test_expiry_moves_without_a_new_version(memory: Memory, clock: SetClock) -> None:
    written = await memory.write("code one", key="k", expires_at=clock.now + timedelta(hours=1))
    name = written.ids[0]
    later = clock.now + timedelta(hours=3)
    assert await memory.set_expiry([name, "nothing", name], later) == (name,)
    clock.forward(hours=2)
    for found in (await memory.get(name), (await memory.list()).documents[0]):
        assert found is not None
        assert (found.version, found.expires_at) == (1, later)
    assert await answers(memory, None) == [["code one"]]
    assert await memory.count(where=F("expires_at") == later) == 1
    again = await memory.write("code one", key="k", expires_at=later)
    assert again.documents[0].status == "unchanged"
    clock.forward(hours=1)
    assert await answers(memory, None) == [[]]
    assert await memory.set_expiry(name, None) == ()
    assert (await memory.verify()).ok


async def test_expiry_can_be_taken_away(memory: Memory, clock: SetClock) -> None:
    written = await memory.write("code one", key="k", expires_at=clock.now + timedelta(hours=1))
    assert await memory.set_expiry(written.ids, None) == written.ids
    clock.forward(days=9)
    assert await answers(memory, None) == [["code one"]]


async def test_expiry_of_another_user_or_a_forgotten_document_stays(
    memory: Memory, clock: SetClock
) -> None:
    hers = (await memory.write("code one", user_id="ada")).ids[0]
    gone = (await memory.write("code two")).ids[0]
    await memory.forget(gone)
    later = clock.now + timedelta(hours=1)
    assert await memory.set_expiry([hers, gone], later, user_id="bob") == ()
    assert await memory.set_expiry(hers, later, user_id="ada") == (hers,)


async def test_expiry_in_the_past_is_refused(memory: Memory, clock: SetClock) -> None:
    name = (await memory.write("code one")).ids[0]
    with pytest.raises(InvalidInputError, match=r"not in the future; use forget"):
        await memory.set_expiry(name, clock.now)
    with pytest.raises(InvalidInputError, match="without a time zone"):
        await memory.set_expiry(name, datetime(2030, 1, 1))
