"""Rules whose actions are numbers inside and names outside: the same game as with names, wherever it is looked at."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coworld_core.rules import (
    ActionRefused,
    Play,
    ReplayHeader,
    ReplayWriter,
    Rules,
    RulesError,
    Ticks,
    audit_rules,
    play_again,
    read_replay,
    trajectory,
    view_difference,
)

WORDS = ("none", "one", "two", "three")


class Words(Rules):
    """Two seats count down from six; what a move is called depends on how far they are."""

    Action = str

    def start(self) -> None:
        self.left, self.turn = 6, 0

    def to_act(self) -> list[int]:
        return [self.turn] if self.left else []

    def legal(self, seat: int) -> Any:
        return range(1, min(3, self.left) + 1)

    def name_action(self, seat: int, action: int) -> str:
        return f"{WORDS[action]} of {self.left}"

    def default(self, seat: int) -> int:
        return 1

    def observe(self, seat: int) -> int:
        return self.left

    def step(self, actions: Any) -> None:
        assert all(type(action) is int for action in actions.values())
        self.left -= actions[self.turn]
        self.turn = 1 - self.turn

    def scores(self) -> list[float]:
        return [float(seat != self.turn) for seat in range(2)]


def test_players_and_replays_know_names() -> None:
    play = Play(Words)
    writer = ReplayWriter(ReplayHeader(rules="Words", version="0", config={}, seed=0, seats=2, names=["a", "b"]))
    writer.add(play.frame())
    assert play.legal(0) == ['"one of 6"', '"two of 6"', '"three of 6"']
    assert play.choices(0) == ["one of 6", "two of 6", "three of 6"]
    with pytest.raises(ActionRefused, match='legal is for example "one of 6"'):
        play.read(0, "two of 5")
    for seat, said in ((0, "two of 6"), (1, None), (0, "three of 3")):
        done = play.step({seat: None if said is None else play.read(seat, said)})
        assert done == {seat: said or "one of 4"}, "as it was called before the tick"
        writer.add(play.frame(), done)
    replay = read_replay(writer.finish(reason="over", results=play.results()))
    assert play_again(Words, replay).results() == play.results() == {"scores": [1.0, 0.0], "ticks": 3}
    steps = [step for step in trajectory(Words, replay).steps if step.acts]
    assert [(step.action, json.dumps(step.legal)) for step in steps][-1] == (
        "three of 3",
        json.dumps(["one of 3", "two of 3", "three of 3"]),
    )
    assert audit_rules(Words, ticks=20).issues == ()


def zero(*_: object) -> Any:
    return 0


def fails(*_: object) -> Any:
    return 1 // 0


def same(*_: object) -> Any:
    return "same"


def unordered(*_: object) -> Any:
    return {1}


def nothing(*_: object) -> Any:
    return None


def test_rules_get_the_form_that_they_know() -> None:
    play = Play(Words)
    assert play.step({0: (play.options(0) or [])[1]}, named=False) == {0: 2}
    blind: Any = type("Blind", (Words,), {"observe": zero})
    ours, theirs = (Play(blind).rules for _ in range(2))
    theirs.left = 5  # type: ignore[attr-defined]
    assert "one of 6" in str(view_difference(ours, theirs, seat=0))

    class Holding(Words):
        pace = Ticks(hz=10)

        def name_action(self, seat: int, action: int) -> str:
            return WORDS[action]

        def to_act(self) -> list[int]:
            return [0] if self.left else []

        def step(self, actions: Any) -> None:
            self.left -= actions[0]

    play = Play(Holding)
    play.step({0: play.read(0, "two")})
    assert play.step({}, named=False) == {0: 2}, "it goes on with its last action"


WRONG: list[tuple[str, Any, str]] = [
    (
        "name_action",
        same,
        "name_action, tick 0, seat 0: two legal actions have the same name",
    ),
    ("name_action", unordered, "legal, tick 0, seat 0: not a JSON value: a set has no order"),
    ("name_action", fails, "name_action, tick 0, seat 0: ZeroDivisionError"),
    (
        "legal",
        nothing,
        "legal, tick 0, seat 0: rules with `name_action` must return the legal actions",
    ),
]


@pytest.mark.parametrize(("method", "answer", "says"), WRONG)
def test_wrong_names_are_faults_of_the_game(method: str, answer: Any, says: str) -> None:
    rules: Any = type("Wrong", (Words,), {method: answer})
    with pytest.raises(RulesError, match=says):
        Play(rules).read(0, "one of 6")
    assert [issue.severity for issue in audit_rules(rules, ticks=5).issues][:1] == ["error"]
