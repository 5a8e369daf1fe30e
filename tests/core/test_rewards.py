"""Rewards that rules give tick by tick: in plays, replays, trajectories, turns, and the audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pytest
from support.games import Prizes

from coworld_core.records.turn_rows import turn_rows
from coworld_core.rules import (
    Play,
    ReplayFormatError,
    ReplayHeader,
    ReplayWriter,
    Rules,
    RulesError,
    audit_rules,
    first_difference,
    play_again,
    read_replay,
    trajectory,
)

WORTH = [None, 1.0, None, 1 / 3, 1 / 4]
"""What seat 0 gains in each tick of `recorded`."""


def prizes(**attributes: Any) -> type[Rules]:
    return cast("type[Rules]", type("Prizes", (Prizes,), attributes))


def recorded(rules: type[Rules] = Prizes) -> bytes:
    """Seat 0 goes to the berry in all ticks but the second; seat 1 stays away."""
    writer = ReplayWriter(
        ReplayHeader(rules="Prizes", version="3", config={"rounds": 4}, seed=2, seats=2, names=["A", "B"])
    )
    play = Play(rules, config=rules.Config.model_validate({"rounds": 4}), seed=2)
    writer.add(play.frame())
    while not play.over:
        game = cast("Prizes", play.rules)
        # The seats are put where they shall be, so that each of them stays there.
        game.at = [game.berries[-1] + (play.tick == 1), game.berries[-1] + 2]
        done = play.step({0: "stay", 1: "stay"})
        writer.add(play.frame(), done)
    return writer.finish(reason="over", results=play.results())


def walked(rules: type[Rules] = Prizes, seed: int = 2) -> bytes:
    """Everybody walks to the left."""
    writer = ReplayWriter(ReplayHeader(rules="Prizes", version="3", config={}, seed=seed, seats=2, names=["A", "B"]))
    play = Play(rules, seed=seed)
    writer.add(play.frame())
    while not play.over:
        done = play.step({0: "left", 1: "left"})
        writer.add(play.frame(), done)
    return writer.finish(reason="over", results=play.results())


def test_a_seat_without_a_reward_has_none_and_not_zero() -> None:
    play = Play(Prizes, seed=2)
    assert play.rewards() is None
    assert play.frame().rewards is None
    game = cast("Prizes", play.rules)
    game.at = [game.berries[-1], (game.berries[-1] + 2) % 5]
    play.step({0: "stay", 1: "stay"})
    assert play.rewards() == play.frame().rewards == (1.0, None)
    bare = Play(prizes(rewards=Rules.rewards), seed=2)
    bare.step({0: "stay", 1: "stay"})
    assert bare.rewards() is None


def test_rewards_are_asked_once_a_tick_and_only_if_somebody_looks() -> None:
    asked: list[int] = []

    def rewards(self: Prizes) -> Mapping[int, float]:
        asked.append(len(self.berries))
        return {}

    play = Play(prizes(rewards=rewards))
    play.step({})
    play.step({})
    assert asked == []
    assert play.rewards() == play.rewards() == play.frame().rewards == (None, None)
    assert asked == [3]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([1.0, 2.0], "rewards are a number by seat"),
        ({2: 1.0}, "there is no seat 2 to reward; there are 2"),
        ({-1: 1.0}, "there is no seat -1"),
        ({True: 1.0}, "there is no seat True"),
        ({"0": 1.0}, "there is no seat '0'"),
        ({0: float("nan")}, "the reward of seat 0 is nan, not a finite number"),
        ({1: float("-inf")}, "the reward of seat 1 is -inf"),
        ({0: "1"}, "the reward of seat 0 is '1'"),
        ({0: [1]}, r"the reward of seat 0 is \[1\]"),
    ],
)
def test_wrong_rewards_are_the_fault_of_the_rules_and_found_by_the_audit(given: Any, says: str) -> None:
    def rewards(self: Prizes) -> Any:
        return given

    rules = prizes(rewards=rewards)
    play = Play(rules)
    play.step({})
    with pytest.raises(RulesError, match=f"^rewards, tick 1: {says}"):
        play.rewards()
    (issue,) = audit_rules(rules).issues
    assert issue.code == "rules_failed"
    assert (issue.hint or "").startswith("Return a dictionary with a finite number for each seat")


def of_numpy(self: Prizes) -> Any:
    return {np.int64(1): np.float32(0.5), 0: None}


class Drained(Prizes):
    """Rewards are added up until somebody asks."""

    def start(self) -> None:
        super().start()
        self.owed = 0.0

    def step(self, actions: Mapping[int, Any]) -> None:
        super().step(actions)
        self.owed += 1.0

    def rewards(self) -> Mapping[int, float]:
        owed, self.owed = self.owed, 0.0
        return {0: owed}


def counts(self: Prizes) -> Mapping[int, float]:
    vars(self)["asked"] = asked = vars(self).get("asked", 0) + 1
    return {0: asked}


def remembers() -> Callable[[Prizes], Mapping[int, float]]:
    asked: list[int] = []

    def rewards(self: Prizes) -> Mapping[int, float]:
        asked.append(1)
        return {0: len(asked)}

    return rewards


def test_the_audit_compares_rewards() -> None:
    assert audit_rules(Prizes).issues == ()
    assert audit_rules(prizes(rewards=of_numpy)).issues == ()
    for changing in (prizes(rewards=counts), Drained):
        (issue,) = audit_rules(changing).issues
        assert issue.code == "rules_change_when_asked"
        assert ", the rewards was" in issue.message
    (issue,) = audit_rules(prizes(rewards=remembers())).issues
    assert issue.code == "rules_not_deterministic"
    assert ", the rewards was" in issue.message


def test_a_replay_keeps_rewards_and_is_compared_with_them() -> None:
    replay = read_replay(walked())
    assert replay.ticks[0].rewards is None
    rewards = [tick.rewards for tick in replay.ticks[1:]]
    assert [None, None] in rewards
    assert any(reward is not None for given in rewards for reward in given or ())
    play_again(Prizes, replay)
    ticks = list(replay.ticks)
    ticks[3] = ticks[3].model_copy(update={"rewards": [7.0, None]})
    other = replay.model_copy(update={"ticks": ticks})
    with pytest.raises(RulesError, match=r"tick 3: rewards was \[7.0,null\], and is now \["):
        play_again(Prizes, other)
    with pytest.raises(ReplayFormatError, match="At tick 3 the two games differ"):
        first_difference(replay, other)
    # A replay of an earlier version of this package, whose rules had rewards already
    earlier = [tick.model_copy(update={"rewards": None}) for tick in replay.ticks]
    play_again(Prizes, replay.model_copy(update={"ticks": earlier}))


def test_a_trajectory_has_the_rewards_of_the_rules() -> None:
    replay = read_replay(walked())
    steps = trajectory(Prizes, replay).steps
    assert [(step.tick, step.seat, step.reward) for step in steps] == [
        (number, seat, reward)
        for number, tick in enumerate(replay.ticks[1:])
        for seat, reward in enumerate(tick.rewards or ())
    ]
    # Without rewards, the whole score comes at the end, unless scores are known before
    plain = prizes(rewards=Rules.rewards)
    replay = read_replay(walked(plain))
    late = trajectory(plain, replay).steps
    assert replay.results is not None
    assert [step.reward for step in late] == [*[None] * (len(steps) - 2), *replay.results["scores"]]
    live = trajectory(prizes(rewards=Rules.rewards, live_scores=True), replay)
    assert sum(step.reward or 0 for step in live.steps if step.seat == 0) == replay.results["scores"][0]
    assert live.to_records()[0]["reward"] in (0.0, 1.0)


def test_a_turn_has_the_sum_of_its_rewards() -> None:
    rows = sorted(turn_rows(recorded()), key=lambda row: row.tick)
    assert [row.reward for row in rows if row.seat == 0] == WORTH[1:]
    assert [row.reward for row in turn_rows(recorded()) if row.seat == 1] == [None] * 4
    assert {row.score for row in turn_rows(recorded()) if row.done and row.seat == 0} == {3.0}
