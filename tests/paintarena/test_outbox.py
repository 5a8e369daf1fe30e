"""What waits for one connection."""

import anyio
import pytest

from paintarena.match import Lateness
from paintarena.outbox import MAX_NOTICES, Outbox


async def test_only_the_newest_state_waits() -> None:
    outbox = Outbox()
    for state in ("one", "two", "three"):
        outbox.put(state)
    assert await outbox.take() == ["three"]


async def test_answers_come_before_the_state_and_are_bounded() -> None:
    outbox = Outbox()
    outbox.put("state")
    for number in range(MAX_NOTICES + 5):
        outbox.notify(str(number))
    assert await outbox.take() == [*map(str, range(MAX_NOTICES)), "state"]


async def test_taking_waits_for_something() -> None:
    outbox = Outbox()
    got: list[str] = []

    async def take() -> None:
        got.extend(await outbox.take())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        assert got == []
        outbox.put("state")
    assert got == ["state"]


async def test_the_end_replaces_the_state_and_closes_the_box() -> None:
    outbox = Outbox()
    outbox.put("state")
    outbox.finish("final", reason="over")
    outbox.put("late")
    outbox.notify("late")
    outbox.finish("later", reason="other")
    assert outbox.close_reason == "over"
    assert await outbox.take() == ["final"]
    assert await outbox.take() == []


async def test_the_end_without_words_still_sends_what_waits() -> None:
    outbox = Outbox()
    outbox.put("state")
    outbox.finish(None, reason="replaced")
    assert await outbox.take() == ["state"]


@pytest.mark.parametrize(("delay", "late"), [(-1.0, False), (0.0, False), (0.1, False), (0.11, True)])
def test_a_tick_is_late_after_a_whole_period(delay: float, late: bool) -> None:
    lateness = Lateness()
    assert lateness.note(delay, period=0.1) is late
    assert lateness.ticks == int(late)
    assert lateness.worst == (delay if late else 0)
