"""How many episodes are played at a time."""

from __future__ import annotations

import anyio
import pytest

from coworld_core.episode.record import EpisodeRow
from coworld_core.errors import UsageError
from coworld_runner.episode import parallelism as _width
from coworld_runner.episode.parallelism import Parallelism, require_parallel


def row(*, starved: bool | None = False) -> EpisodeRow:
    return EpisodeRow.model_construct(starved=starved)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Two processors, which are idle for the share of the time that the list says, from one look to the next."""
    share, spent = [0.0], [0.0, 0.0]

    def times() -> tuple[float, float]:
        spent[0] += share[0]
        spent[1] += 1.0
        return spent[0], spent[1]

    monkeypatch.setattr(_width, "_processor_times", times)
    monkeypatch.setattr(_width, "usable_processors", lambda: 2)
    return share


async def end(width: Parallelism, *rows: EpisodeRow) -> int:
    for index, one in enumerate(rows):
        await width.take(index)
        width.give_back(index, one)
    return width.now


async def test_auto_goes_up_while_processors_are_left_over_and_down_when_episodes_are_short(idle: list[float]) -> None:
    width = Parallelism("auto", remote=False)
    assert width.now == 2
    idle[0] = 0.5
    assert await end(width, row()) == 2, "one tells nothing yet"
    assert await end(width, row()) == 3
    assert await end(width, *[row(starved=None)] * 3) == 4, "unknown is not short"
    idle[0] = 0.1
    assert await end(width, *[row()] * 20) == 4
    assert await end(width, row(starved=True), row(starved=True)) == 2
    assert await end(width, *[row(starved=True)] * 9) == 1
    idle[0] = 1.0
    assert await end(width, *[row()] * 100) == 8, "no more than four for each processor"


async def test_a_number_stays_as_it_is(idle: list[float]) -> None:
    idle[0] = 1.0
    assert await end(Parallelism(3, remote=False), *[row()] * 20, row(starved=True)) == 3
    assert await end(Parallelism("auto", remote=True), *[row()] * 20, row(starved=True)) == 8


async def test_episodes_over_the_width_wait() -> None:
    width = Parallelism(1, remote=False)
    await width.take(1)
    with anyio.move_on_after(0) as scope:
        await width.take(2)
    assert scope.cancelled_caught
    # That one did not begin
    width.give_back(1)
    await width.take(2)


def test_less_than_one_is_refused() -> None:
    require_parallel("auto")
    require_parallel(1)
    with pytest.raises(UsageError, match="at least 1"):
        require_parallel(0)
