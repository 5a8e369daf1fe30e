"""Games as rules: what is let through, what is refused, and that the same game comes of the same actions."""

from __future__ import annotations

import gc
import json
import random
import runpy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import pytest
from pydantic import BaseModel

from coworld_core.errors import CoworldError, UsageError
from coworld_core.manifest.game_results import score_bounds
from coworld_core.rules import (
    ActionRefused,
    Delayed,
    Frame,
    Hidden,
    Open,
    Play,
    ReplayHeader,
    ReplayWriter,
    Rules,
    RulesConfig,
    RulesError,
    Ticks,
    Turns,
    audit_rules,
    config_schema,
    first_difference,
    game_section,
    load_rules,
    play_again,
    read_config,
    read_replay,
    results_schema,
    rules_config,
    trajectory,
)
from coworld_core.rules.plain_values import to_json, to_plain


class Guess(Rules):
    """Everybody names a number at once; whoever is nearest to a drawn one gets a point.

    Three rounds.
    """

    class Config(RulesConfig):
        rounds: int = 3

    class Action(BaseModel):
        number: int
        loud: bool = False

    class Results(BaseModel):
        drawn: list[int]

    config: Config
    seats = 2
    most_seats = 4
    version = "7"

    def start(self) -> None:
        self.drawn: list[int] = []
        self.points = [0] * self.seats
        self.heard: list[Any] = []

    def to_act(self) -> list[int]:
        return list(range(self.seats)) if len(self.drawn) < self.config.rounds else []

    def legal(self, seat: int) -> list[Action] | None:
        return [self.Action(number=n) for n in range(10)]

    def default(self, seat: int) -> Action | None:
        return self.Action(number=0) if seat == 1 else None

    def observe(self, seat: int) -> dict[str, Any]:
        return {"drawn": self.drawn, "heard": self.heard}

    def step(self, actions: Mapping[int, Any]) -> None:
        self.heard = [[seat, action and action.number] for seat, action in actions.items()]
        number = self.rng.randrange(10)
        self.drawn.append(number)
        near = {seat: abs(action.number - number) for seat, action in actions.items() if action}
        for seat, far in near.items():
            self.points[seat] += far == min(near.values())

    def scores(self) -> list[float]:
        return [float(points) for points in self.points]

    def draw(self) -> str:
        return f"drawn: {self.drawn}"

    def results(self) -> dict[str, Any]:
        return {"drawn": self.drawn}


def changed(**attributes: Any) -> type[Rules]:
    """The game with something else in place of what it has."""
    return cast("type[Rules]", type("Changed", (Guess,), attributes))


def test_actions_follow_seat_order_and_late_seats_use_the_default() -> None:
    play = Play(Guess, seats=4)
    play.step({seat: play.read(seat, {"number": 4}) for seat in (3, 0)})
    assert json.loads(play.observe(2))["heard"] == [[0, 4], [1, 0], [2, None], [3, 4]]


def test_a_board_is_drawn_once_for_all_who_see_it() -> None:
    drawn: list[int] = []

    def draw(self: Guess) -> str:
        drawn.append(len(self.drawn))
        return f"drawn: {self.drawn}" if self.drawn else "<svg/>"

    play = Play(changed(draw=draw))
    assert (play.text(0), play.frame().drawing, play.text(1)) == (None, "<svg/>", None)
    play.step({})
    assert play.text(0) == play.text(1) == play.frame().drawing
    assert drawn == [0, 1]


def test_names_of_seats_are_for_drawings_and_texts_alone() -> None:
    seen: list[tuple[str, object]] = []

    class Named(Guess):
        def step(self, actions: Mapping[int, Any]) -> None:
            seen.append(("step", self.names))
            super().step(actions)

        def observe(self, seat: int) -> Any:
            seen.append(("observe", self.names))
            return super().observe(seat)

        def text(self, seat: int) -> str:
            return f"{self.names[seat]} guesses"

        def draw(self) -> str:
            return " and ".join(self.names)

    play = Play(Named, names=["Ada", "Bob"])
    assert (play.frame().drawing, play.text(1)) == ("Ada and Bob", "Bob guesses")
    play.observe(0)
    play.step({})
    assert seen == [("observe", ("Seat 0", "Seat 1")), ("step", ("Seat 0", "Seat 1"))]
    assert "names" not in vars(play.rules)
    assert Play(Named).frame().drawing == "Seat 0 and Seat 1"
    names = ["Ada", "Bob"]
    writer = ReplayWriter(ReplayHeader(rules="Named", version="7", config={}, seed=0, seats=2, names=names))
    writer.add(first := Play(Named, names=names).frame())
    assert play_again(Named, read_replay(writer.finish(reason="over"))).frame() == first

    own = changed(
        start=lambda self: setattr(self, "names", "own") or setattr(self, "drawn", []), draw=lambda self: self.names
    )
    play = Play(own, names=["Ada", "Bob"])
    assert (play.frame().drawing, vars(play.rules)["names"]) == ("own", "own"), "a game may have had its own"


class Sealed(Guess):
    """Each seat has a letter of its own."""

    picture = False

    def start(self) -> None:
        super().start()
        self.asked: list[int | None] = []

    def draw(self, seat: int | None = None) -> str:
        self.asked.append(seat)
        seen = "AB" if seat is None else "AB"[seat]
        return f"<svg>{seen}</svg>" if self.picture else seen


def rules_of(play: Play) -> Any:
    return play._rules  # pyright: ignore[reportPrivateUsage]


def test_each_seat_is_drawn_once_a_tick_when_it_is_looked_at() -> None:
    play = Play(Sealed)
    assert (play.drawing(0), play.drawing(1), play.frame().drawing, play.text(1)) == ("A", "B", "AB", "B")
    assert (rules_of(play).asked, play.drawings) == ([0, 1, None], {0: "A", 1: "B"})
    play.step({})
    assert (play.drawings, play.drawing(0), rules_of(play).asked) == ({}, "A", [0, 1, None, 0])


def test_pictures_of_seats_are_not_drawn_for_their_text() -> None:
    play = Play(type("Pictured", (Sealed,), {"picture": True}))
    play.frame()
    assert [play.text(seat) for seat in (0, 1)] == [None, None]
    assert rules_of(play).asked == [None]


def scaled(self: Guess, scale: int = 2) -> str:
    return "x" * scale


def required(self: Guess, seat: int | None) -> str:
    return f"for {seat}"


@pytest.mark.parametrize(("draw", "own"), [(scaled, "xx"), (required, "for 1"), (lambda self, of=None: f"{of}", "1")])
def test_a_seat_is_passed_only_to_games_that_draw_seats(draw: Callable[..., str], own: str) -> None:
    assert Play(changed(draw=draw)).drawing(1) == own


@pytest.mark.parametrize(("spectators", "seen"), [(Open(), "drawn: []"), (Delayed(ticks=1), ""), (Hidden(), "")])
def test_seats_get_the_spectators_drawing_only_if_it_is_open(spectators: object, seen: str) -> None:
    play = Play(changed(spectators=spectators))
    assert (play.drawing(0), play.text(0), rules_of(play).text(0)) == (seen, seen or None, seen or None)
    assert play.frame().drawing == "drawn: []"


@pytest.mark.parametrize("named", [Hidden, "hidden", None, 5])
def test_spectators_setting_is_checked_at_class_creation(named: object) -> None:
    with pytest.raises(UsageError, match=r"Changed.spectators is .*, not Open\(\), Delayed\(ticks=…\) or Hidden\(\)\."):
        changed(spectators=named)


@pytest.mark.parametrize("named", ["left", ["ArrowLeft"], {1: "left"}, {"": "left"}])
def test_keys_are_checked_at_class_creation(named: object) -> None:
    with pytest.raises(UsageError, match=r"Changed.keys is .*, not a mapping from the names of keys to actions\."):
        changed(keys=named)


@pytest.mark.parametrize("ticks", [0, -1, 1.5, True, "2"])
def test_a_delay_is_a_number_of_ticks(ticks: Any) -> None:
    with pytest.raises(ValueError, match="ticks must be a whole number of at least 1"):
        Delayed(ticks=ticks)


def test_a_replay_keeps_what_seats_saw_and_is_compared_with_it() -> None:
    def played(**attributes: Any) -> tuple[type[Rules], bytes]:
        rules = cast("type[Rules]", type("Sealed", (Sealed,), attributes))
        play = Play(rules, seed=1)
        writer = ReplayWriter(
            ReplayHeader(rules="Sealed", version="7", config={}, seed=1, seats=2, names=["a", "b"], draws_seats=True)
        )
        play.drawing(1)
        writer.add(play.frame(), drawings=play.drawings)
        return rules, writer.finish(reason="stopped")

    rules, data = played()
    replay = read_replay(data)
    assert (replay.header.draws_seats, replay.ticks[0].drawings) == (True, {1: "B"})
    play_again(rules, replay)
    other, _ = played(draw=lambda self, seat=None: "AB" if seat is None else "?")
    with pytest.raises(RulesError, match='tick 0, seat 1: the drawing was "B", and is now "\\?"'):
        play_again(other, replay)


def test_an_action_is_known_however_it_is_written() -> None:
    play = Play(Guess)
    written = [{"number": 3}, {"number": 3, "loud": False}, {"loud": False, "number": 3}]
    assert {id(play.read(0, value)) for value in written} == {id(play.read(0, {"number": 3}))}


@pytest.mark.parametrize(
    ("seat", "value", "code", "says"),
    [
        (0, {"number": "3"}, "action_malformed", "number: Input should be a valid integer"),
        (0, {"number": 3.0}, "action_malformed", "number"),
        (0, {}, "action_malformed", "number: Field required"),
        (0, None, "action_malformed", "no action"),
        (0, [1], "action_malformed", "no action"),
        (0, {"number": float("nan")}, "action_malformed", "not a JSON value"),
        (0, {"number": 10**30}, "action_illegal", "not legal now"),
        (0, {"number": 3, "loud": True}, "action_illegal", "not legal now"),
        (3, {"number": 3}, "not_your_turn", "not your turn"),
    ],
)
def test_illegal_action_is_refused(seat: int, value: object, code: str, says: str) -> None:
    with pytest.raises(ActionRefused, match=says) as refused:
        Play(Guess).read(seat, value)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"number": "3"}, 'a valid integer (sent was {"number":"3"}; legal is for example {"loud":false,"number":0})'),
        ({"number": 11}, 'not legal now (sent was {"number":11}; legal is for example {"loud":false,"number":0})'),
        ("x" * 10_000, f'(sent was "{"x" * 98}…; legal'),
    ],
)
def test_a_refusal_shows_what_was_sent_and_what_is_legal(value: object, says: str) -> None:
    with pytest.raises(ActionRefused) as refused:
        Play(Guess).read(0, value)
    assert says in refused.value.message


def test_silent_seat_repeats_its_last_legal_action() -> None:
    some = {"legal": lambda self, seat: [self.Action(number=n) for n in range(10 - len(self.drawn) * 5)]}
    said = {0: {"number": 4}, 1: {"number": 7}}
    for pace, second in ((Ticks(hz=4), [[0, 4], [1, 0]]), (Ticks(hz=4, hold=False), [[0, None], [1, 0]])):
        play = Play(changed(pace=pace, **some))
        play.step({seat: play.read(seat, action) for seat, action in said.items()})
        play.step({})
        assert json.loads(play.observe(0))["heard"] == second


@pytest.mark.parametrize(
    "value",
    [
        {"b": (1, [True, None], "x"), "a": [[1, 2], [3]]},
        [Guess.Action(number=3)],
        {"x": {"b": 1, "a": ()}, "c": 2.5},
        {2: "numbers as keys"},
        3,
        "text",
    ],
)
def test_values_are_what_their_texts_are_read_as(value: Any) -> None:
    plain = to_plain(value)
    assert plain == json.loads(to_json(value))
    assert json.dumps(plain) == json.dumps(json.loads(to_json(value))), "in the same order, too"
    assert not isinstance(value, list | dict) or plain is not value


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 2


@dataclass
class Point:
    x: int
    y: Any


class Array:
    """An array of a library that numpy knows, and that is no list."""

    def __array__(self) -> Any:
        return np.array([1, 2])


class Number:
    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("left"), "left"),
        (np.array(3), 3),
        (np.array([[1, 2], [3, 4]], np.int8), [[1, 2], [3, 4]]),
        (np.array(["a", None, np.int64(1)], object), ["a", None, 1]),
        ({"take": np.argmax([1.0, 0.5]) + 1, "also": (np.uint8(1),)}, {"also": [1], "take": 1}),
        ({np.int64(10): "ten", np.int64(2): "two"}, {"2": "two", "10": "ten"}),
        (Point(x=1, y=[np.int64(2), Point(x=3, y=np.array([4]))]), {"x": 1, "y": [2, {"x": 3, "y": [4]}]}),
        (Guess.Action.model_construct(number=np.int64(3)), {"loud": False, "number": 3}),
        ([Guess.Action(number=3), Colour.RED, Level.HIGH], [{"loud": False, "number": 3}, "red", 2]),
        (MappingProxyType({"a": Number()}), {"a": 7}),
        (Array(), [1, 2]),
    ],
)
def test_values_of_libraries_are_what_json_can_say(value: Any, expected: Any) -> None:
    plain = to_plain(value)
    assert json.dumps(plain) == json.dumps(json.loads(to_json(value))) == json.dumps(expected)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({1, 2}, "a set has no order"),
        ([{"b": frozenset({1})}], "a set has no order"),
        ([float("nan")], "nan is not a JSON number"),
        (np.array([1.0, np.inf]), "inf is not a JSON number"),
        ({"a": object()}, "a value of type object has no JSON form"),
        (Point(x=1, y=[object()]), "a value of type object has no JSON form"),
        (iter([]), "a value of type list_iterator has no JSON form"),
        ({(1, 2): 3}, "the key of an object is text, not a value of type tuple"),
    ],
)
def test_value_without_json_form_is_refused(value: object, says: str) -> None:
    for written in (to_json, to_plain):
        with pytest.raises((ValueError, TypeError), match=says):
            written(value)
    with pytest.raises(ActionRefused, match=f"the action is not a JSON value: {says}"):
        Play(Guess).read(0, value)


def test_rules_may_use_numpy() -> None:
    def legal(rules: Any, seat: int) -> Any:
        return [rules.Action.model_construct(number=number) for number in np.arange(3)]

    def results(rules: Any) -> Any:
        return {"drawn": np.array(rules.drawn)}

    for to_act in (lambda rules: np.arange(2 * (not_over(rules))), lambda rules: [np.int64(0)] * not_over(rules)):
        rules = changed(
            legal=legal,
            to_act=to_act,
            observe=lambda rules, seat: {"seen": np.array(rules.drawn), "seat": np.int64(seat)},
            results=results,
            scores=lambda rules: np.array([1, 0]),
        )
        play = Play(rules, config=rules_config(rules, {"rounds": np.int64(2)}), seed=cast("int", np.int64(1)))
        through(play)
        assert play.results()["scores"] == [1.0, 0.0]
        assert play.observation(1) == {"seat": 1, "seen": play.results()["drawn"]}
        assert audit_rules(rules, seed=1).ok


def not_over(rules: Any) -> bool:
    return len(rules.drawn) < rules.config.rounds


def test_options_and_observations_are_those_of_the_wire() -> None:
    play = Play(Guess)
    play.step({0: play.options(0)[3]})  # type: ignore[index]
    assert json.loads(play.observe(1)) == play.observation(1)
    assert [to_json(action) for action in play.options(0) or []] == play.legal(0)
    assert Play(changed(to_act=lambda _: [1])).options(0) == []


def boom(*_: object) -> Any:
    raise ZeroDivisionError("boom")


def never(*_: object) -> Any:
    return [0]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"start": boom}, "start, tick 0: ZeroDivisionError: boom"),
        ({"step": boom}, "step, tick 0: ZeroDivisionError: boom"),
        ({"legal": boom}, "legal, tick 0, seat 0: ZeroDivisionError"),
        ({"legal": lambda *_: []}, "seat 0: a seat that is to act has no legal action"),
        ({"legal": lambda *_: 3}, "must return the legal actions or None, not 3"),
        ({"legal": lambda *_: [object()]}, "legal, tick 0, seat 0: not a JSON value"),
        ({"observe": lambda *_: {"a", "b"}}, "not a JSON value: a set has no order"),
        ({"observe": lambda *_: [object()]}, "observe, tick 0, seat 0: not a JSON value"),
        ({"observe": lambda *_: float("inf")}, "observe, tick 0, seat 0: not a JSON value"),
        ({"to_act": lambda _: [2]}, "to_act, tick 0: there is no seat 2; there are 2"),
        ({"to_act": lambda _: None}, "not None"),
        ({"to_act": lambda _: np.array(["a"])}, "to_act, tick 0: there is no seat 'a'"),
        ({"to_act": lambda _: "0"}, "it must return seats, not '0'"),
        ({"to_act": never, "max_ticks": 5}, "to_act, tick 5: the game is not over after 5 ticks"),
        ({"draw": lambda _: 3, "text": lambda *_: None}, "a drawing is text, not int"),
        ({"text": lambda *_: 3}, "a text is a str or None, not int"),
        ({"eliminated": lambda _: [2]}, "eliminated, tick 0: there is no seat 2; there are 2"),
        ({"eliminated": lambda _: "1"}, "eliminated, tick 0: it must return seats, not '1'"),
        ({"scores": lambda _: [1]}, "scores must be 2 finite numbers, one per seat"),
        ({"scores": lambda _: [1, float("nan")]}, "scores must be 2 finite numbers"),
        ({"scores": lambda _: None}, "scores must be numbers"),
        ({"scores": lambda _: [0, 2], "score_range": (0, 1)}, r"\[0.0, 2.0\] are outside of score_range, .* \(0, 1\)"),
        ({"scores": lambda _: [-1, 2], "score_range": (0, None)}, "are outside of score_range"),
        ({"results": lambda _: {"scores": 1}}, "results must be an object without scores"),
    ],
)
def test_rules_that_are_wrong_are_named_with_their_place(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(RulesError, match=says) as failed:
        through(Play(changed(**wrong)))
    if "boom" in says:
        assert "raise ZeroDivisionError" in failed.value.lines[-1]
        assert all("coworld_core" not in line for line in failed.value.lines)


def through(play: Play) -> Play:
    while not play.over:
        for seat in range(2):
            play.observe(seat)
            play.text(seat)
        play.frame()
        play.step({0: play.read(0, json.loads((play.legal(0) or [""])[0]))})
    play.results()
    return play


def test_seats() -> None:
    with pytest.raises(ValueError, match="2 to 4 seats, not 5"):
        Play(Guess, seats=5)


# --- what a manifest says -------------------------------------------------------------------------------------------


def test_schemas_say_what_is_read() -> None:
    from jsonschema import Draft202012Validator as Validator

    config = {"tokens": ["a", "b"], "rounds": 2, "seed": 5, "seconds_per_move": 3, "players": [{"name": "Ada"}] * 2}
    Validator(config_schema(Guess)).validate(config)
    read = read_config(Guess, config)
    assert (read.pace, read.seed, read.names, read.public()) == (Turns(per_move=3), 5, ("Ada", "Ada"), {"rounds": 2})
    assert "'a'" not in repr(read)
    Validator(results_schema(Guess)).validate(through(Play(Guess)).results())
    for ends in ((None, None), (0, 1), (None, 9.5)):
        assert score_bounds(results_schema(changed(score_range=ends)), 2) == ends
    assert game_section(Guess)["description"].startswith("Everybody names a number at once")
    protocol = game_section(Guess)["protocols"]["player"]["value"]
    assert "coworld.seat/1" in protocol
    shown = protocol.partition("## An observation, for example\n\n```json\n")[2].partition("```")[0]
    assert json.loads(shown) == {"drawn": [], "heard": []}
    for unshown in (boom, lambda *_: "x" * 1000):
        assert "for example\n" not in game_section(changed(observe=unshown))["protocols"]["player"]["value"]


def test_rules_without_a_docstring_are_described_by_their_name() -> None:
    silent = cast("type[Rules]", type("Silent", (Rules,), {}))
    assert game_section(silent)["docs"]["readme"]["value"] == "# Silent\n\nSilent\n"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokens": ["a"]}, "tokens: there are 1; the game has 2 to 4 seats"),
        ({"tokens": "secret"}, "tokens: Input should be"),
        ({"rounds": "2"}, "rounds: Input should be a valid integer"),
        ({"round": 2}, "round: Extra inputs"),
        ({"players": [{"name": "Ada"}]}, "1 names for 2 seats"),
        ({"ticks_per_second": 2}, "waits for moves"),
        ({"seconds_per_move": 0}, "seconds_per_move"),
    ],
)
def test_a_config_that_cannot_be_played_is_refused_without_its_tokens(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        read_config(Guess, {"tokens": ["secret", "secret2"], **change})
    assert "secret" not in str(refused.value)


def test_a_pace_is_a_value() -> None:
    assert read_config(changed(pace=Ticks(hz=4)), {"tokens": ["a", "b"], "ticks_per_second": 9}).pace == Ticks(hz=9)
    for wrong in (lambda: Ticks(hz=0), lambda: Turns(per_move=float("nan")), lambda: Turns(bank=-1)):
        with pytest.raises(ValueError, match="must be"):
            wrong()


@pytest.mark.parametrize(
    ("pace", "says"),
    [
        (lambda _: 1 / 0, "pace, tick 0: ZeroDivisionError"),
        (lambda _: "fast", "pace, tick 0: it must return Turns(…) or Ticks(…), not 'fast'"),
        (lambda _: None, "pace, tick 0: it must return Turns(…) or Ticks(…), not None"),
    ],
)
def test_a_pace_that_is_none_fails_the_rules_with_its_place(pace: Any, says: str) -> None:
    with pytest.raises(RulesError) as failed:
        Play(changed(pace=pace))
    assert failed.value.message.startswith(says)
    assert f'File "{__file__}", line {pace.__code__.co_firstlineno}, in' in failed.value.lines[-1]
    with pytest.raises(UsageError, match=r"Changed.pace is 'fast', not Turns\(…\), Ticks\(…\) or a method"):
        changed(pace="fast")


def test_a_pace_may_change_with_each_tick() -> None:
    paces = [Ticks(hz=4), Turns(per_move=2), Ticks(hz=9, hold=False)]
    rules = changed(pace=lambda self: paces[len(self.drawn)], legal=lambda *_: None, default=lambda *_: None)
    play = Play(rules)
    seen, done = [play.pace], []
    while not play.over:
        done.append(play.step({0: Guess.Action(number=3)} if play.tick == 0 else {}))
        seen.append(play.pace)
    assert seen == [*paces, paces[-1]], "the last one stays when the game is over"
    assert [actions[0] and actions[0].number for actions in done] == [3, None, None], "nothing is held across a phase"
    assert play.frame().pace == paces[-1]
    assert not {"seconds_per_move", "ticks_per_second"} & config_schema(rules)["properties"].keys()
    assert "each with a pace of its own" in game_section(rules)["protocols"]["player"]["value"]
    with pytest.raises(UsageError, match="seconds_per_move: this game has phases"):
        read_config(rules, {"tokens": ["a", "b"], "seconds_per_move": 3})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (":Nim", "does not name a Rules class"),
        ("json", "json has not exactly one class of rules; it has none"),
        ("nowhere/nim.py", "There is no file nowhere/nim.py"),
        ("no_such_module:Nim", "no module 'no_such_module'"),
        ("json:JSONDecoder", "json has no rules 'JSONDecoder'; it has none"),
    ],
)
def test_names_of_rules(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load_rules(name)


def test_rules_that_lack_something_are_refused_by_what_they_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = """
from coworld_core.rules import Rules

class Half(Rules):
    def start(self): ...
    def to_act(self): ...
"""
    (tmp_path / "half_a_game.py").write_text(written)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="Half lacks observe, scores, step"):
        load_rules("half_a_game")
    (tmp_path / "beside.py").write_text("SEATS = 3")
    whole = (
        "\nfrom beside import SEATS\nclass Whole(Half):\n    seats = SEATS\n    observe = scores = step = Half.start\n"
    )
    (tmp_path / "whole_games.py").write_text(written + whole)
    assert load_rules(f"{tmp_path}/whole_games.py:Whole").seats == 3
    with pytest.raises(UsageError, match="not exactly one class of rules; it has Half, Whole"):
        load_rules(f"{tmp_path}/whole_games.py")


@pytest.mark.parametrize("wrong", [(1, 0), (0, 0), (0,), [0, 1], ("0", 1), (0, float("inf")), (True, 2)])
def test_score_ranges_have_two_ends(wrong: Any) -> None:
    with pytest.raises(UsageError, match="score_range is"):
        changed(score_range=wrong)


# --- replays --------------------------------------------------------------------------------------------------------


def recorded(rules: type[Rules] = Guess, *, seed: int = 3, last: int = 5) -> bytes:
    play = Play(rules, seed=seed)
    header = ReplayHeader(
        rules=rules.__name__, version=rules.version, config={"rounds": 3}, seed=seed, seats=2, names=["A", "B"]
    )
    writer = ReplayWriter(header)
    writer.add(play.frame())
    while not play.over:
        done = play.step({0: play.read(0, {"number": 5 if play.tick < 2 else last})})
        writer.add(play.frame(), done)
    return writer.finish(reason="over", results=play.results())


def test_a_replay_is_read_as_it_was_written_and_plays_again() -> None:
    import gzip
    import zlib

    data = recorded()
    assert data == recorded(), "the same game has the same bytes"
    replay = read_replay(data)
    assert (replay.reason, len(replay.ticks), replay.ticks[0].actions) == ("over", 4, {})
    assert [tick.tick for tick in replay.ticks] == list(range((replay.results or {})["ticks"] + 1))
    assert replay.ticks[1].actions == {0: {"number": 5, "loud": False}, 1: {"number": 0, "loud": False}}
    assert play_again(Guess, replay).results() == replay.results
    plain = gzip.decompress(data)
    assert read_replay(plain) == read_replay(zlib.compress(data), source="replay.z") == replay


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"nonsense\n", recorded()[:-9], recorded()[:40], b'{"format":"other/1"}\n', b"[" * 10**5 + b"\n"],
)
def test_malformed_replay_is_refused(data: bytes) -> None:
    with pytest.raises(CoworldError) as refused:
        read_replay(data)
    assert refused.value.code.startswith("replay_")


def test_diverging_replay_reports_both_values() -> None:
    replay = read_replay(recorded())
    other = replay.model_copy(update={"header": replay.header.model_copy(update={"seed": 4})})
    with pytest.raises(RulesError, match=r"tick \d: drawing was \"drawn: .*and is now \"drawn: "):
        play_again(Guess, other)
    with pytest.raises(CoworldError, match="is of Guess 7, not of Changed 7"):
        play_again(changed(), replay)


def test_games_part_where_something_else_is_done_first() -> None:
    one, other = read_replay(recorded()), read_replay(recorded(last=7))
    part = first_difference(one, other)
    assert part is not None
    assert (part.tick, part.drawing) == (2, one.ticks[2].drawing)
    assert part.actions == {0: ({"number": 5, "loud": False}, {"number": 7, "loud": False})}
    assert play_again(Guess, one, until=part.tick).tick == 2
    assert first_difference(one, one) is None
    assert first_difference(one, one.model_copy(update={"ticks": one.ticks[:2]})) is None
    with pytest.raises(CoworldError, match="The seed of the two games is not the same: 3 and 4"):
        first_difference(one, read_replay(recorded(seed=4)))
    elsewhere = [*one.ticks[:1], one.ticks[1].model_copy(update={"drawing": "other"}), *one.ticks[2:]]
    with pytest.raises(CoworldError, match="At tick 1 the two games differ although the same was done"):
        first_difference(one, one.model_copy(update={"ticks": elsewhere}))


def test_a_replay_keeps_live_scores_and_who_is_out_and_is_compared_with_them() -> None:
    live = changed(live_scores=True, eliminated=lambda self: [1] if self.drawn else [])
    writer = ReplayWriter(ReplayHeader(rules="Changed", version="7", config={}, seed=3, seats=2, names=["A", "B"]))
    play = Play(live, seed=3)
    writer.add(play.frame())
    done = play.step({0: play.read(0, {"number": 5})})
    writer.add(play.frame(), done)
    replay = read_replay(writer.finish(reason="stopped"))
    assert [tick.eliminated for tick in replay.ticks] == [[], [1]]
    assert [tick.scores for tick in replay.ticks] == [[0.0, 0.0], list(play.scores_now() or [])]
    play_again(live, replay)
    for other in ({"scores": [7.0, 7.0]}, {"eliminated": [0]}):
        ticks = [replay.ticks[0], replay.ticks[1].model_copy(update=other)]
        with pytest.raises(RulesError, match=r"tick 1: \w+ was \[.*and is now \["):
            play_again(live, replay.model_copy(update={"ticks": ticks}))
    earlier = [tick.model_copy(update={"scores": None, "eliminated": []}) for tick in replay.ticks]
    play_again(live, replay.model_copy(update={"ticks": earlier}))


def test_trajectory_has_a_row_per_tick_and_seat() -> None:
    replay = read_replay(recorded())
    rows = trajectory(Guess, replay).to_records()
    assert [(row["tick"], row["seat"], row["name"]) for row in rows][:3] == [(0, 0, "A"), (0, 1, "B"), (1, 0, "A")]
    assert rows[0]["observation"] == '{"drawn":[],"heard":[]}'
    assert str(rows[0]["legal"]).startswith('[{"loud":false,"number":0}')
    assert (rows[0]["action"], rows[1]["action"]) == ('{"loud":false,"number":5}', '{"loud":false,"number":0}')
    assert replay.results is not None
    assert [row["score"] for row in rows] == [*[None] * 4, *replay.results["scores"]]
    live = cast("type[Rules]", type("Guess", (Guess,), {"live_scores": True}))
    assert all(step.score is not None for step in trajectory(live, replay).steps)


# --- the audit ------------------------------------------------------------------------------------------------------


def test_rules_that_keep_their_promise_pass() -> None:
    assert audit_rules(Guess).issues == ()


def outside(read: Callable[[], object]) -> type[Rules]:
    def observe(self: Guess, seat: int) -> object:
        read()
        return None

    return changed(observe=observe)


LINE = outside.__code__.co_firstlineno + 2
COUNT = iter(range(10**9))


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        (outside(time.time), "rules_read_clock"),
        (outside(lambda: time.monotonic()), "rules_read_clock"),
        (outside(lambda: Path(__file__).read_bytes()), "rules_use_files"),
        (outside(lambda: __import__("socket").socket().close()), "rules_use_sockets"),
        (outside(lambda: random.choice([1])), "rules_use_global_random"),
        (outside(lambda: random.Random()), "rules_use_global_random"),
        (changed(observe=lambda *_: next(COUNT)), "rules_not_deterministic"),
        (changed(step=lambda self, _: self.drawn.append(self.rng.random() * 0)), "rules_ignore_seed"),
        (changed(observe=lambda self, _: self.rng.random()), "rules_change_when_asked"),
        (
            changed(draw=lambda self, seat=None: "" if seat is None else f"{self.rng.random()}"),
            "rules_change_when_asked",
        ),
        (changed(step=boom), "rules_failed"),
    ],
)
def test_the_audit_names_what_breaks_it(rules: type[Rules], code: str) -> None:
    report = audit_rules(rules)
    assert {issue.code for issue in report.issues} == {code}, str(report)
    if code.startswith(("rules_read", "rules_use")):
        assert all(f"{__file__}:{issue.line} calls " in issue.message for issue in report.issues)


def test_a_library_may_have_files_and_seeds_but_no_chance_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "site-packages" / "library_of_a_game.py"
    place.parent.mkdir()
    place.write_text(
        "import os, pathlib\nwords = lambda: pathlib.Path(__file__).read_text()\nchance = lambda: os.urandom(8).hex()\n"
    )
    library = runpy.run_path(str(place))
    words, chance = library["words"], library["chance"]
    assert audit_rules(changed(observe=lambda *_: words())).issues == ()
    assert audit_rules(changed(observe=lambda *_: bool(chance()))).issues == ()
    report = audit_rules(changed(observe=lambda *_: chance()))
    assert {issue.code for issue in report.issues} == {"rules_not_deterministic"}


def test_audit_ignores_garbage_collection() -> None:
    def look(*_: object) -> None:
        time.time()

    before = gc.get_threshold()
    gc.callbacks.append(look)
    gc.set_threshold(1)
    try:
        assert audit_rules(Guess).issues == ()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(look)


def test_the_audit_names_the_line() -> None:
    assert [issue.line for issue in audit_rules(outside(time.time)).issues] == [LINE]


def test_a_frame_is_a_value() -> None:
    assert Play(Guess).frame() == Frame(tick=0, to_act=(0, 1), drawing="drawn: []")
