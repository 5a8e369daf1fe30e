"""Games that are played again from their replays: what differs, and what may not be held against a replay."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from coworld_core.rules import ReplayFormatError, Rules, RulesReplay, check_replay, read_replay
from coworld_core.rules.replay import source_digest
from coworld_runner.kit.rollout import rollout

Changes = dict[str, Any]


class Race(Rules):
    """Two seats count to ten in turn, by one to three, with a little luck."""

    Action = int
    seats = 2
    version = "1"

    def start(self) -> None:
        """Begin."""
        self.total = self.turn = 0
        self.luck = 0

    def to_act(self) -> list[int]:
        """Whose turn it is."""
        return [self.turn] if self.total < 10 else []

    def legal(self, seat: int) -> list[int]:
        """One to three."""
        return [1, 2, 3]

    def observe(self, seat: int) -> Any:
        """The total."""
        return {"total": self.total}

    def step(self, actions: Any) -> None:
        """Count."""
        self.luck = self.rng.randint(0, 9)
        self.total += actions[self.turn] or 1
        self.turn = 1 - self.turn

    def scores(self) -> list[float]:
        """Who has ended it wins."""
        return [float(seat != self.turn) for seat in range(2)]

    def draw(self, seat: int | None = None) -> str:
        """The total, and the luck."""
        return f"{self.total} {self.luck}"


def like(**methods: Any) -> type[Rules]:
    """The same game, with something else in it."""
    return cast("type[Rules]", type("Race", (Race,), {"__module__": __name__, **methods}))


def played(rules: type[Rules] = Race) -> RulesReplay:
    """A game."""
    done = rollout(rules, [lambda seen, legal, rng: 2, lambda seen, legal, rng: 1], seed=3, record=True)
    assert done.replay is not None
    return read_replay(done.replay)


def test_the_same_game_is_the_same() -> None:
    replay = played()
    assert replay.header.source_sha256 == source_digest(Race) != ""
    for watch in (False, True):
        found = check_replay(Race, replay, watch=watch)
        assert (found.tick, found.unsteady, found.results) == (None, "", replay.results)
        assert found.source == (source_digest(Race),) * 2
        assert found.ticks == len(replay.ticks) - 1


def change_tick(number: int, **changes: Any) -> Callable[[RulesReplay], RulesReplay]:
    """Change a tick."""

    def change(replay: RulesReplay) -> RulesReplay:
        ticks = list(replay.ticks)
        ticks[number] = ticks[number].model_copy(update=changes)
        return replay.model_copy(update={"ticks": ticks})

    return change


def change_header(**changes: Any) -> Callable[[RulesReplay], RulesReplay]:
    """Change the header."""
    return lambda replay: replay.model_copy(update={"header": replay.header.model_copy(update=changes)})


@pytest.mark.parametrize(
    ("change", "tick", "what"),
    [
        (change_tick(2, drawing="7 7"), 2, "drawing"),
        (change_tick(1, actions={0: 3}), 1, "drawing"),
        (change_tick(1, actions={0: 7}), 1, "an action"),
        (change_tick(1, actions={}), 1, "what was done"),
        (change_tick(1, actions={0: 2, 1: 1}), 1, "an action"),
        (change_tick(3, to_act=[]), 3, "to_act"),
        (change_tick(3, scores=[9.0, 9.0]), 3, "scores"),
        (change_tick(3, rewards=[9.0, None]), 3, "rewards"),
        (change_tick(3, eliminated=[1]), 3, "eliminated"),
        (change_tick(3, tick=4), 3, "tick"),
        (change_header(seed=4), 1, "drawing"),
        (change_header(config={"nothing": 1}), 0, "the config"),
        (lambda replay: replay.model_copy(update={"ticks": replay.ticks[:-1]}), None, "the game"),
        (lambda replay: replay.model_copy(update={"ticks": []}), 0, "the game"),
        (lambda replay: replay.model_copy(update={"reason": "stopped"}), None, "the game"),
        (lambda replay: replay.model_copy(update={"results": {"scores": [1.0, 0.0]}}), None, "the results"),
    ],
)
def test_the_first_tick_that_differs(change: Callable[[RulesReplay], RulesReplay], tick: int | None, what: str) -> None:
    replay = played()
    found = check_replay(Race, change(replay))
    assert found.what == what
    assert found.unsteady == ""
    assert found.recorded != found.now
    assert found.tick is not None
    assert tick is None or found.tick in (tick, tick + 1)


def clock(self: Race, seat: int | None = None) -> str:
    return f"{self.total} {time.time_ns()}"


def environment(self: Race, seat: int | None = None) -> str:
    return f"{self.total} {os.environ.get('PLAYED')}"


def other_each_time(self: Race, seat: int | None = None) -> str:
    LOOKS.append(1)
    return f"{self.total} {len(LOOKS)}"


def callers(self: Race, seat: int | None = None) -> str:
    frame: Any = sys._getframe()
    while frame is not None and frame.f_code.co_name != "check_replay":
        frame = frame.f_back
    return f"{self.total} {frame is None}"


LOOKS: list[int] = []


@pytest.mark.parametrize(
    ("draw", "why"),
    [
        (clock, "a clock is read"),
        (environment, "an environment variable is read"),
        (callers, "the calls that lead to the rules are looked at"),
        (other_each_time, "gave another game each time"),
    ],
)
def test_rules_that_do_not_play_the_same_game_are_not_held_against_a_replay(
    draw: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = like(draw=draw)
    monkeypatch.setenv("PLAYED", "then")
    replay = played(rules)
    monkeypatch.setenv("PLAYED", "now")
    assert why in check_replay(rules, replay).unsteady


def test_rules_that_look_up_are_found_although_the_game_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = like(draw=environment)
    found = check_replay(rules, played(rules), watch=True)
    assert "an environment variable is read" in found.unsteady


def test_a_game_that_failed_fails_again() -> None:
    def step(self: Race, actions: Any) -> None:
        Race.step(self, actions)
        if self.total > 4:
            raise ValueError("too much")

    replay = played().model_copy(update={"reason": "failed", "results": None})
    cut = replay.model_copy(update={"ticks": replay.ticks[:3]})
    assert check_replay(like(step=step), cut).tick is None
    found = check_replay(like(step=step), played())
    assert (found.what, found.tick) == ("the tick", 2)
    assert "too much" in found.now


def test_replays_of_others_and_of_earlier_versions() -> None:
    replay = played()
    with pytest.raises(ReplayFormatError, match="is of Race 1, not of Race 2"):
        check_replay(like(version="2"), replay)
    early = replay.model_copy(update={"header": replay.header.model_copy(update={"source_sha256": ""})})
    live = like(live_scores=True)
    assert check_replay(live, replay).what == "scores"
    assert check_replay(live, early).tick is None


@pytest.mark.parametrize("word", ['"actions"', '"reason"'])
def test_a_deep_replay_is_refused(word: str) -> None:
    header = b'{"rules": "Race", "version": "1", "config": {}, "seed": 1, "seats": 2, "names": ["a", "b"]}\n'
    deep = f'{{{word}: {{"0": {"[" * 100_000}{"]" * 100_000}}}}}'.encode()
    with pytest.raises(ReplayFormatError) as refused:
        read_replay(header + deep)
    assert refused.value.code == "replay_invalid"
