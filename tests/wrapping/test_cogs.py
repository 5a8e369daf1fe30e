"""The example on mettagrid: teams, what is near, and who digs wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.games import kit_examples

from coworld_core.rules import Play, RulesError
from coworld_runner.kit.rollout import rollout

EXAMPLE = Path(__file__).parents[2] / "examples" / "cogs"
Cogs = next(rules for rules in kit_examples() if rules.__name__ == "Cogs")
WANDERER, GATHERER = (str(EXAMPLE / "players" / f"{name}.py") for name in ("wanderer", "gatherer"))


@pytest.mark.parametrize("seats", [8, 16])
def test_seats_are_of_two_teams_and_see_what_is_near(seats: int) -> None:
    play = Play(Cogs, seats=seats, seed=1)
    sights = [play.observation(seat) for seat in range(seats)]
    assert [sight["team"] for sight in sights] == ["red", "blue"] * (seats // 2)
    assert len({tuple(sight["at"]) for sight in sights}) == seats
    for red, blue in zip(sights[::2], sights[1::2], strict=True):
        assert red["home"] == [2, 7]
        assert blue["home"] == [23, 7]
        assert "R" in "".join(red["view"])
        assert "B" not in "".join(red["view"])
    with pytest.raises(RulesError, match="even number"):
        Play(Cogs, seats=9)


def test_spectators_see_the_field_late() -> None:
    play = Play(Cogs, config=Cogs.Config(ticks=25), seed=1)
    first = play.frame().drawing
    while play.tick < 20:
        play.step({seat: play.read(seat, "east") for seat in play.to_act})
    assert play.frame().drawing == first
    while not play.over:
        play.step({})
    assert play.frame().drawing.endswith("tick 25")


@pytest.mark.parametrize("side", [0, 1])
def test_the_gatherers_win(side: int) -> None:
    players = [WANDERER, GATHERER] if side else [GATHERER, WANDERER]
    scores = rollout(Cogs, players * 4, config={"ticks": 100}, seats=8, seed=3).scores
    assert scores[side] > scores[1 - side] + 5
