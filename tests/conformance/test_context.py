"""A chunk is ranked together with what stands before it and behind it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agentmem import Document, F, Memory
from tests.support import START, SetClock, texts

# The words of the question stand in one turn, the answer in the next one.
FERRY = ["Bo: When does the ferry to Torsby leave?", "Ann: At ten past eight, from the old pier."]
TRAIN = ["Bo: Which train goes to Malden?", "Ann: At half past nine, from the new hall."]
QUESTION = "the ferry to Torsby"


async def score(memory: Memory, text: str, **arguments: Any) -> float:
    """Return the rerank score of a text."""
    result = await memory.search(QUESTION, explain=True, k=50, **arguments)
    found = {e.text: e.scores.rerank for e in result.trace.explanations or ()}
    value = found[text]
    assert value is not None
    return value


@pytest.mark.parametrize("how", ["one call", "turn by turn"])
async def test_an_answer_is_found_by_what_was_asked(
    memory: Memory, clock: SetClock, how: str
) -> None:
    turns = [*TRAIN, "Bo: Thank you.", "Ann: No trouble.", *FERRY]
    if how == "one call":
        await memory.write(turns)
    else:
        for turn in turns:
            await memory.write(turn)
            clock.forward(minutes=3)
    result = await memory.search(QUESTION)
    assert texts(result)[:2] == FERRY


async def test_words_of_what_was_asked_count_for_the_answer(memory: Memory) -> None:
    async def beside_the_tokens() -> float:
        result = await memory.search(QUESTION, k=50)
        found = next(hit for hit in result.hits if hit.text == FERRY[1])
        assert found.scores.rerank is not None
        return found.score - found.scores.rerank

    await memory.write([*TRAIN, FERRY[1]])
    without = await beside_the_tokens()
    await memory.forget(everything=True, confirm=True, purge=True)
    await memory.write([*TRAIN, *FERRY])
    assert (
        await beside_the_tokens() > without + 0.009
    )  # of 0.0102 for two words that two of four hold


async def test_a_whole_text_gives_its_parts_their_context(memory: Memory) -> None:
    filler = " ".join(f"Line {n} of the ledger is empty." for n in range(40))
    await memory.write(f"{filler} Everything about the ferry to Torsby.\n\n{filler}")
    result = await memory.search(QUESTION, explain=True, k=50)
    rows = {int(e.id.rpartition(":")[2]): e for e in result.trace.explanations or ()}
    named = next(n for n, e in rows.items() if "Torsby" in e.text)
    before, after = (rows[named + step].scores.rerank or 0.0 for step in (-1, 1))
    assert after > before + 0.1


async def test_what_is_forgotten_stands_before_nothing(memory: Memory) -> None:
    await memory.write(FERRY[1])
    without = await score(memory, FERRY[1])
    await memory.forget(everything=True, confirm=True, purge=True)
    await memory.write([Document(FERRY[0], key="asked"), FERRY[1]])
    assert await score(memory, FERRY[1]) > without + 0.1
    await memory.forget(key="asked")
    assert await score(memory, FERRY[1]) == pytest.approx(without, abs=1e-6)


async def test_only_the_own_conversation_stands_before(memory: Memory) -> None:
    await memory.write(FERRY[1], user_id="ann")
    without = await score(memory, FERRY[1], user_id="ann")
    await memory.forget(user_id="ann", purge=True)
    await memory.write(FERRY[0], user_id="bo")
    await memory.write(FERRY[0])
    await memory.write(FERRY[0], user_id="ann", collection="elsewhere")
    await memory.write(FERRY[1], user_id="ann")
    assert await score(memory, FERRY[1], user_id="ann") == pytest.approx(without, abs=1e-6)
    # Others may write in between.
    await memory.write(FERRY[0], user_id="cy")
    await memory.write([f"note {n}" for n in range(5)], user_id="bo")
    await memory.write(FERRY[1], user_id="cy")
    assert await score(memory, FERRY[1], user_id="cy") > without + 0.1


@pytest.mark.parametrize(
    ("asked", "answered", "together"),
    [
        (None, None, True),
        (-120, -60, True),
        (-121, -60, False),
        (-60, -121, False),
        (-30, None, True),
        (-90, None, False),
    ],
)
async def test_a_long_pause_parts(
    memory: Memory, asked: int | None, answered: int | None, together: bool
) -> None:
    def turn(text: str, minutes: int | None) -> Document:
        at = None if minutes is None else START + timedelta(minutes=minutes)
        return Document(text, valid_from=at)

    await memory.write(FERRY[1])
    without = await score(memory, FERRY[1])
    await memory.forget(everything=True, confirm=True, purge=True)
    await memory.write([turn(FERRY[0], asked), turn(FERRY[1], answered)])
    found = await score(memory, FERRY[1])
    assert (found > without + 0.1) if together else (found == pytest.approx(without, abs=1e-6))


async def test_a_filter_hides_a_neighbour_from_the_hits_alone(memory: Memory) -> None:
    rows = [Document(t, metadata={"speaker": t[:3]}) for t in FERRY]
    await memory.write(rows)
    everything = await score(memory, FERRY[1])
    filtered = await memory.search(QUESTION, where=F("speaker") == "Ann", explain=True)
    assert texts(filtered) == [FERRY[1]]
    assert await score(memory, FERRY[1], where=F("speaker") == "Ann") == pytest.approx(
        everything, abs=1e-6
    )


async def test_what_stands_behind_counts_and_less_than_what_stands_before(memory: Memory) -> None:
    neutral = "Cy: Hm, who knows."
    await memory.write([neutral, Document(FERRY[0], key="asked")])
    asked_behind = await score(memory, neutral)
    await memory.forget(everything=True, confirm=True, purge=True)
    await memory.write([FERRY[0], neutral])
    asked_before = await score(memory, neutral)
    await memory.forget(everything=True, confirm=True, purge=True)
    await memory.write(neutral)
    alone = await score(memory, neutral)
    assert alone + 0.1 < asked_behind < asked_before
    # Both sides at once, and then again none.
    await memory.forget(everything=True, confirm=True, purge=True)
    await memory.write([neutral, "Ann: Well.", Document(FERRY[0], key="asked")])
    assert await score(memory, neutral) > alone + 0.1
    await memory.forget(key="asked")
    assert await score(memory, neutral) < alone + 0.1


async def test_no_more_than_two_stand_behind(memory: Memory) -> None:
    await memory.write(["Cy: Hm, who knows.", "Ann: Well.", "Cy: So.", FERRY[0]])
    far = await score(memory, "Cy: Hm, who knows.")
    assert await score(memory, "Ann: Well.") > far + 0.1


async def test_no_more_than_two_stand_before(memory: Memory) -> None:
    await memory.write([FERRY[0], "Cy: Hm.", "Cy: Well."])
    near = await score(memory, "Cy: Well.")
    assert near == pytest.approx(await score(memory, "Cy: Hm."), abs=0.2)
    await memory.write("Cy: Who knows.")
    assert await score(memory, "Cy: Who knows.") < near - 0.1
