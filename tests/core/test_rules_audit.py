"""Each finding of an audit of rules, with a small game that has this one fault."""

from __future__ import annotations

import copy
import itertools
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pytest
from pydantic import BaseModel, Field

from coworld_core.rules import Delayed, Hidden, Rules, RulesConfig, TalkLimits, Ticks, audit_rules, view_difference
from coworld_core.rules import audit as audit_module
from coworld_core.rules.audit import AUDIT_CODES


class Race(Rules):
    """Two seats take turns to add one to three; whoever reaches the target wins."""

    class Config(RulesConfig):
        target: int = 12

    class Action(BaseModel):
        add: int = Field(ge=1, le=3)

    config: Config

    def start(self) -> None:
        self.total, self.turn = 0, 0

    def to_act(self) -> Sequence[int]:
        return [self.turn] if self.total < self.config.target else []

    def legal(self, seat: int) -> Sequence[Any] | None:
        return [self.Action(add=n) for n in (1, 2, 3)]

    def observe(self, seat: int) -> Any:
        return {"total": self.total}

    def step(self, actions: Mapping[int, Any]) -> None:
        action = actions[self.turn]
        self.total += action.add if action else 1
        self.turn = 1 - self.turn

    def scores(self) -> Sequence[float]:
        return [float(seat != self.turn) for seat in range(2)]

    def draw(self) -> str:
        return f'<svg xmlns="http://www.w3.org/2000/svg"><text>{self.total}</text></svg>'


def race(**attributes: Any) -> type[Rules]:
    """The game with something else in place of what it has."""
    return cast("type[Rules]", type("Race", (Race,), attributes))


def found(rules: type[Rules], **options: Any) -> set[str]:
    return {issue.code for issue in audit_rules(rules, **options).issues}


def test_a_game_without_a_fault_has_no_findings() -> None:
    assert audit_rules(Race).issues == ()


async def async_step(self: Race, actions: Mapping[int, Any]) -> None:
    Race.step(self, actions)


def generator_step(self: Race, actions: Mapping[int, Any]) -> Any:
    Race.step(self, actions)
    yield


async def async_start(self: Race) -> None:
    Race.start(self)


def needs_action(self: Race, actions: Mapping[int, Any]) -> None:
    self.total += actions[self.turn].add
    self.turn = 1 - self.turn


def changes_action(self: Race, actions: Mapping[int, Any]) -> None:
    Race.step(self, actions)
    for action in actions.values():
        if action:
            action.add = 1


def drops_action(self: Race, actions: dict[int, Any]) -> None:
    Race.step(self, actions)
    actions.clear()


def changes_action_later(self: Race, actions: Mapping[int, Any]) -> None:
    if self.total:
        vars(self)["last"].add = 1
    Race.step(self, actions)
    vars(self)["last"] = actions[1 - self.turn] or self.Action(add=1)


def adds_in_thread(self: Race, actions: Mapping[int, Any]) -> None:
    worker = threading.Thread(target=Race.step, args=(self, actions))
    worker.start()
    worker.join()


def runs_process(self: Race, actions: Mapping[int, Any]) -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)
    Race.step(self, actions)


@pytest.mark.parametrize(
    ("rules", "code", "method", "says"),
    [
        (race(step=async_step), "rules_failed", "step", "step is `async def`, so nothing of it has run"),
        (race(step=generator_step), "rules_failed", "step", "step is a generator"),
        (race(start=async_start), "rules_failed", "start", "start is `async def`"),
        (race(step=lambda *_: None, max_ticks=200), "rules_endless", "to_act", "not over after 200 ticks"),
        (race(legal=lambda self, _: [self.Action.model_construct(add=9)]), "rules_legal_invalid", "legal", '"add":9'),
        (race(legal=lambda self, _: [self.Action.model_construct(add=2.5)]), "rules_legal_invalid", "legal", "add: "),
        (
            race(default=lambda self, _: self.Action.model_construct(add=9)),
            "rules_default_invalid",
            "default",
            "less than or equal to 3",
        ),
        (
            race(default=lambda self, _: self.Action(add=3), legal=lambda self, _: [self.Action(add=1)]),
            "rules_default_invalid",
            "default",
            '{"add":3} is not legal for seat ',
        ),
        (race(to_act=lambda self: Race.to_act(self) * 2), "rules_failed", "to_act", "seat 0 is named twice"),
        (race(scores=lambda _: ["1", "0"]), "rules_failed", "scores", "2 finite numbers, one per seat, not ['1', '0']"),
        (race(scores=lambda _: [float("nan"), 0]), "rules_failed", "scores", "finite numbers"),
        (race(scores=lambda _: [1.0]), "rules_failed", "scores", "2 finite numbers"),
        (race(scores=lambda _: [0, 9], score_range=(0, 1)), "rules_score_outside", "scores", "outside of score_range"),
        (race(step=changes_action), "rules_change_actions", "step", '{"1":{"add":3}} became {"1":{"add":1}}'),
        (race(step=drops_action), "rules_change_actions", "step", "became {}"),
        (race(step=changes_action_later), "rules_change_actions", "step", "changes its actions"),
        (race(step=adds_in_thread), "rules_use_threads", "step", "a thread or a process is started"),
        (race(step=runs_process), "rules_use_threads", "step", "a thread or a process is started"),
        (race(draw=lambda _: "<svg><g></svg>"), "rules_picture_invalid", "draw", "mismatched tag"),
        (race(draw=lambda _: "<svg>a & b</svg>"), "rules_picture_invalid", "draw", "near '<svg>a & b</svg>'"),
        (race(draw=lambda _: "<svg/><svg/>"), "rules_picture_invalid", "draw", "junk after"),
        (race(draw=lambda _: "<?xml version='1.0'?><svg/>"), "rules_picture_invalid", "draw", "shown as text"),
        (race(rewards=lambda _: {2: 1.0}), "rules_failed", "rewards", "2"),
        (race(talk=TalkLimits(to=("team",)), team=lambda *_: [9]), "rules_failed", "team", "9"),
        (race(step=needs_action), "rules_fail_on_missed_turns", "step", "no attribute 'add'"),
    ],
)
def test_each_fault_is_found_with_its_place_and_the_way_there(
    rules: type[Rules], code: str, method: str, says: str
) -> None:
    report = audit_rules(rules)
    assert {issue.code for issue in report.issues} <= {code, "rules_use_files"}, str(report)
    issue = next(issue for issue in report.issues if issue.code == code)
    assert issue.severity == "error"
    assert says in issue.message
    assert issue.hint
    function = vars(rules).get(method, Race.to_act)
    first = function.__code__.co_firstlineno
    assert issue.line is not None
    assert first <= issue.line <= first + 8
    if code != "rules_use_threads":
        assert "seed 1" in issue.message


def test_the_way_to_a_finding_can_be_played(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bad(Race):
        def step(self, actions: Mapping[int, Any]) -> None:
            super().step(actions)
            if self.total > 5:
                raise KeyError("gone")

    (issue,) = audit_rules(Bad).issues
    way = re.search(r"seed (\d+), actions (\[.*?\])\)", issue.message)
    assert way is not None, issue.message
    assert issue.message.startswith("step, tick ")
    monkeypatch.setattr(audit_module, "_LONGEST_WAY", 20)
    (short,) = audit_rules(Bad).issues
    assert "actions … " in short.message


def test_a_game_whose_end_is_not_known_is_a_warning() -> None:
    (issue,) = audit_rules(race(step=lambda *_: None, max_ticks=10**9), ticks=5, seconds=0.2).issues
    assert (issue.code, issue.severity) == ("rules_endless", "warning")
    talk = race(legal=lambda *_: None, step=lambda *_: None, max_ticks=50, Action=str)
    assert [(issue.code, issue.severity) for issue in audit_rules(talk).issues] == [("rules_endless", "warning")]
    acting = audit_rules(talk, sample=lambda rng: rng.choice("ab"))
    assert [(issue.code, issue.severity) for issue in acting.issues] == [("rules_endless", "error")]


def test_a_slow_method_is_named_with_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(audit_module.time, "thread_time", lambda: next(clock) * 1.5)
    report = audit_rules(Race)
    slow = {issue.message.split(" ")[1].rstrip(",") for issue in report.issues if issue.code == "rules_slow"}
    assert {"draw", "step"} <= slow
    assert all("one call took 1.5 s" in issue.message for issue in report.issues)
    assert report.ok


def test_a_game_that_is_slower_than_its_pace_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(audit_module.time, "thread_time", lambda: next(clock) * 0.01)
    quick = race(pace=Ticks(hz=1000), legal=lambda self, _: [self.Action(add=1)], draw=lambda _: "")
    report = audit_rules(quick, ticks=10)
    assert [issue.code for issue in report.issues] == ["rules_slow"]
    assert "1000 ticks a second leave 0.001 s" in report.issues[0].message


def test_an_observation_may_be_an_array() -> None:
    def observe(self: Race, seat: int) -> Any:
        return {"board": np.zeros((2, 2), dtype=np.int8), "total": np.int64(self.total), "mask": np.array([True])}

    def legal(self: Race, seat: int) -> Any:
        return np.arange(1, 4)

    def step(self: Race, actions: Mapping[int, Any]) -> None:
        self.total += int(actions[self.turn] or 1)
        self.turn = 1 - self.turn

    arrays = race(
        observe=observe, legal=legal, Action=int, step=step, scores=lambda _: np.array([1.0, 0.0]), live_scores=True
    )
    assert audit_rules(arrays).issues == ()


# --- secrets --------------------------------------------------------------------------------------------------------


class Cards(Race):
    """Each seat has two cards that the other one must not see."""

    spectators = Hidden()

    def start(self) -> None:
        super().start()
        cards = list(range(20))
        self.rng.shuffle(cards)
        self.hands = [cards[:2], cards[2:4]]
        self.deck = cards[4:]

    def secret_attributes(self) -> Sequence[str]:
        return ["hands", "deck"]

    def observe(self, seat: int) -> Any:
        return {"total": self.total, "hand": self.hands[seat], "sizes": [len(hand) for hand in self.hands]}

    def draw(self, seat: int | None = None) -> str:
        return f"{self.total}" if seat is None else f"{self.total} {self.hands[seat]}"


def cards(**attributes: Any) -> type[Rules]:
    return cast("type[Rules]", type("Cards", (Cards,), attributes))


def test_a_game_that_keeps_its_secrets_has_no_findings() -> None:
    assert audit_rules(Cards).issues == ()
    assert audit_rules(cards(start=by_seat, observe=lambda self, seat: self.hands.get(seat))).issues == ()
    assert audit_rules(cards(spectators=Delayed(ticks=3), draw=lambda self, seat=None: f"{self.hands}"[:0])).ok


def by_seat(self: Any) -> None:
    Cards.start(self)
    self.hands = dict(enumerate(self.hands))
    self.deck = tuple(self.deck)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"observe": lambda self, seat: self.hands}, "seat 1 sees hands of seat 0"),
        ({"observe": lambda self, seat: sum(self.hands[1 - seat])}, "observe gave "),
        ({"observe": lambda self, seat: self.deck[-1]}, "seat 0 sees deck"),
        ({"text": lambda self, seat: f"{self.hands}"}, "text gave "),
        ({"draw": lambda self, seat=None: f"{self.hands}" if seat is not None else ""}, "gave "),
        (
            {"legal": lambda self, seat: [self.Action(add=n) for n in range(1, 2 + self.hands[1 - seat][0] % 3)]},
            "legal gave ",
        ),
        (
            {"spectators": audit_module.Rules.spectators, "draw": lambda self: f"{self.deck}"},
            "spectators, and so every",
        ),
        ({"start": by_seat, "observe": lambda self, seat: self.hands[1 - seat]}, "seat 1 sees hands of seat 0"),
    ],
)
def test_a_secret_that_another_seat_sees_is_found(change: dict[str, Callable[..., Any]], says: str) -> None:
    report = audit_rules(cards(**change))
    assert {issue.code for issue in report.issues} == {"rules_leak_secret"}, str(report)
    assert len(report.issues) <= 2
    assert says in str(report)


class Card:
    """A value that does not say what it is."""

    def __init__(self, rank: int) -> None:
        self.rank = rank


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: rng.sample(["villager", "wolf"], 2),
        lambda rng: rng.sample([None, 3], 2),
        lambda rng: rng.sample([True, "no"], 2),
        lambda rng: {rng.randrange(2)},
        lambda rng: {rng.choice("abcdef"): 1, rng.choice("ghijk"): 2},
        lambda rng: [list(range(rng.randint(1, 9))) for _ in range(2)],
        lambda rng: [Card(rng.randint(1, 9)) for _ in range(2)],
    ],
)
def test_a_secret_of_any_shape_that_all_see_is_found(make: Callable[[Any], Any]) -> None:
    def start(self: Any) -> None:
        Race.start(self)
        self.secret = make(self.rng)

    def observe(self: Any, seat: int) -> Any:
        return [vars(one) if isinstance(one, Card) else repr(one) for one in self.secret]

    game = race(start=start, observe=observe, spectators=Hidden(), secret_attributes=lambda _: ["secret"])
    assert [issue.code for issue in audit_rules(game).issues] == ["rules_leak_secret"]


def test_how_many_things_a_seat_has_is_no_secret() -> None:
    def start(self: Any) -> None:
        Cards.start(self)
        self.hands = [list(range(self.rng.randint(1, 4))), [9]]

    assert audit_rules(cards(start=start)).issues == ()


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        (lambda _: 7, "there was no other value to put in its place"),
        (lambda rng: rng.random(), "IndexError is raised: list index out of range"),
    ],
)
def test_a_secret_that_could_not_be_tried_is_a_warning(secret: Callable[[Any], Any], why: str) -> None:
    def start(self: Any) -> None:
        Race.start(self)
        self.secret = self.same = secret(self.rng)

    def observe(self: Any, seat: int) -> Any:
        return [0][self.secret != self.same]

    report = audit_rules(
        race(start=start, observe=observe, spectators=Hidden(), secret_attributes=lambda _: ["secret"])
    )
    assert ("rules_secret_untried", "warning") in [(issue.code, issue.severity) for issue in report.issues]
    assert "whether other seats see secret is not known: " in str(report)
    assert why in str(report)


@pytest.mark.parametrize(
    ("ticks", "shown", "leaks"),
    [
        (1, lambda self: f"{self.hands}", True),
        (3, lambda self: f"{self.hands[0][-1:]}", True),
        (3, lambda self: f"{self.played}", False),
        (3, lambda self: f"{self.hands[0][:1]}", False),
        (40, lambda self: f"{self.hands}", False),
    ],
)
def test_what_is_shown_late_must_not_be_a_secret_by_then(ticks: int, shown: Callable[[Any], str], leaks: bool) -> None:
    """Each tick the seat whose turn it is plays the first card of its hand."""

    def start(self: Any) -> None:
        Race.start(self)
        self.hands, self.played = [[self.rng.random() for _ in range(6)] for _ in range(2)], []

    def step(self: Any, actions: Mapping[int, Any]) -> None:
        self.played.append(self.hands[self.turn].pop(0))
        Race.step(self, actions)

    def draw(self: Any, seat: int | None = None) -> str:
        return shown(self) if seat is None else ""

    spectators = Delayed(ticks=ticks)
    game = race(start=start, step=step, draw=draw, spectators=spectators, secret_attributes=lambda _: ["hands"])
    report = audit_rules(game)
    assert [issue.code for issue in report.issues] == ["rules_leak_secret"] * leaks, str(report)
    if leaks:
        assert f"spectators, and so every seat, see {ticks} ticks later hands of seat 0" in str(report)


def test_a_revealed_secret_is_no_longer_one() -> None:
    def secret_attributes(self: Any) -> Sequence[str]:
        return [] if self.total > 3 else ["hands"]

    def observe(self: Any, seat: int) -> Any:
        return self.hands if self.total > 3 else self.hands[seat]

    assert audit_rules(cards(observe=observe, secret_attributes=secret_attributes)).issues == ()
    assert found(cards(observe=observe)) == {"rules_leak_secret"}


def test_secrets_that_do_not_exist_are_a_finding() -> None:
    report = audit_rules(cards(secret_attributes=lambda _: ["hand"]))
    assert [issue.code for issue in report.issues] == ["rules_failed"]
    assert "no attribute 'hand'" in report.issues[0].message


def test_two_states_are_compared_as_a_seat_sees_them() -> None:
    import random

    game = Cards(Cards.Config(), seats=2, rng=random.Random(1))
    game.start()
    other = copy.deepcopy(game)
    other.hands[1] = [90, 91]
    assert view_difference(game, other, seat=0) is None
    assert view_difference(game, other, seat=None) is None
    assert "91" in (view_difference(game, other, seat=1) or "")


def test_every_code_has_its_meaning() -> None:
    assert all(meaning and not meaning.endswith(".") for meaning in AUDIT_CODES.values())
