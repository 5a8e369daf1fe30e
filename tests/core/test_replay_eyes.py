"""What each eye sees of a game with hidden roles, live and in its replay, also in one that a stranger has written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from support.hidden_roles import Village, played

from coworld_core.errors import UsageError
from coworld_core.rules import (
    Hidden,
    Play,
    ReplayFormatError,
    Rules,
    RulesReplay,
    audit_rules,
    eye_view,
    eye_views,
    read_replay,
)
from coworld_core.rules import replay as replay_module
from coworld_core.rules.replay_eyes import Eye, eyes_of, read_eye

EYES: list[Eye] = ["all", "public", 0, 1, 2, 3]


def changed(**attributes: Any) -> type[Rules]:
    return cast("type[Rules]", type("Village", (Village,), {"__module__": Village.__module__, **attributes}))


def frames(replay: RulesReplay, eye: Eye, rules: type[Rules] = Village) -> list[str]:
    views = list(eye_views(rules, replay, eye))
    assert [view.tick for view in views] == [tick.tick for tick in replay.ticks]
    return [json.dumps(vars(view) | {"standing": dict(view.standing)}) for view in views]


@pytest.mark.parametrize("seed", range(3))
def test_no_eye_sees_what_is_secret_from_it(seed: int) -> None:
    replay = played(seed=seed)
    roles: list[str] = Play(Village, seats=4, seed=seed).rules.roles  # pyright: ignore[reportAttributeAccessIssue]
    wolves = [seat for seat, role in enumerate(roles) if role.startswith("wolf")]
    for eye in EYES:
        seen = frames(replay, eye)
        own = roles if eye == "all" else roles[eye : eye + 1] if isinstance(eye, int) else []
        for role in roles:
            assert {role in frame for frame in seen} == {role in own}, (eye, role)
        whole = "".join(seen)
        assert ("to team" in whole) == (eye == "all" or eye in wolves), eye
        assert ("1 to 2" in whole) == (eye in ("all", 1, 2)), eye
        assert "all, 1" in whole


def test_an_eye_is_told_what_it_knew_then() -> None:
    replay = played()
    view = eye_view(Village, replay, 1, tick=2)
    assert view == list(eye_views(Village, replay, 1))[2]
    assert (view.observation, view.text) == (
        {"day": 2, "role": view.observation["role"]},
        f"Day 2. You are {view.observation['role']}.",
    )
    assert "A" not in view.drawing.replace("Day", "")
    assert view.standing == {"to_act": view.standing["to_act"], "eliminated": [3, 2], "known": {"day": 2}}
    sealed = played(changed(spectators=Hidden(), public=("day",)))
    assert eye_view(changed(spectators=Hidden(), public=("day",)), sealed, 0, tick=2).standing == {"known": {"day": 2}}
    with pytest.raises(UsageError, match="The replay has no tick 9: it has 4, from 0 on"):
        eye_view(Village, replay, 1, tick=9)


def test_games_offer_the_eyes_that_differ() -> None:
    header = played(seats=2).header.model_copy(update={"draws_seats": False})
    assert eyes_of(Village, header) == ["all", "public", 0, 1]
    assert eyes_of(changed(talk=None), header) == ["all", "public", 0, 1]
    assert eyes_of(changed(talk=None, draw=lambda self, seat=None: ""), header) == ["all", 0, 1]
    assert eyes_of(changed(talk=None, draw=lambda self: ""), header) == ["all", 0, 1], "their texts differ"
    plain = changed(talk=None, draw=lambda self: "", text=Rules.text)
    assert eyes_of(plain, header) == ["all"]
    assert eyes_of(changed(talk=None, draw=Rules.draw, text=Rules.text), header) == ["all", 0, 1]
    assert eyes_of(plain, header.model_copy(update={"draws_seats": True, "seats": 10**12})) == ["all", *range(6)]


@pytest.mark.parametrize(("value", "eye"), [("all", "all"), ("public", "public"), (0, 0), ("3", 3)])
def test_an_eye_is_read(value: object, eye: Eye) -> None:
    assert read_eye(value, 4) == eye


@pytest.mark.parametrize("value", ["", None, 4, "4", -1, "-1", 1.0, True, "³", "9" * 9, [0], "revealed"])
def test_what_is_no_eye_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="is no eye: there are all, public, and the seats 0 to 3"):
        read_eye(value, 4)


# --- replays by strangers -------------------------------------------------------------------------------------------


def with_header(**fields: Any) -> Callable[[RulesReplay], RulesReplay]:
    return lambda replay: replay.model_copy(update={"header": replay.header.model_copy(update=fields)})


def with_tick(number: int, **fields: Any) -> Callable[[RulesReplay], RulesReplay]:
    def alter(replay: RulesReplay) -> RulesReplay:
        ticks = list(replay.ticks)
        ticks[number] = ticks[number].model_copy(update=fields)
        return replay.model_copy(update={"ticks": ticks})

    return alter


@pytest.mark.parametrize(
    ("alter", "views", "says"),
    [
        (with_header(source_sha256="0" * 64), 0, "The rules have changed since the game was played."),
        (with_header(source_sha256=""), 0, "The rules have changed since the game was played."),
        (with_header(version="7"), 0, "The replay is of Village 7, not of Village 0."),
        (with_header(rules="Nim"), 0, "The replay is of Nim 0, not of Village 0."),
        (with_header(seats=10**9), 0, "Village has 2 to 6 seats, not 1000000000"),
        (with_header(config={"sticks": "many"}), 0, "The rules refuse the replay's config: sticks: "),
        (
            lambda replay: replay.model_copy(update={"results": {"scores": [9, 9, 9, 9]}}),
            3,
            "the outcome differs at tick 3.",
        ),
        (
            with_tick(2, drawings={1: "<svg>a wolf that never was</svg>"}),
            2,
            "played again, the drawing differs at tick 2.",
        ),
        (with_tick(2, drawings={99: ""}), 2, "played again, the drawing differs at tick 2."),
        (with_tick(1, drawing="another day"), 1, "played again, drawing differs at tick 1."),
        (with_tick(3, eliminated=[0]), 3, "played again, eliminated differs at tick 3."),
        (with_tick(3, actions={0: 0}), 3, "played again, an action differs at tick 3."),
        (with_tick(1, tick=9), 1, "differs at tick 9."),
    ],
)
def test_a_view_that_never_was_is_nobodys_view(
    alter: Callable[[RulesReplay], RulesReplay], views: int, says: str
) -> None:
    replay = played()
    for eye in EYES:
        seen = eye_views(Village, alter(replay), eye)
        before = [next(seen) for _ in range(views)]
        assert before == list(eye_views(Village, replay, eye))[:views]
        with pytest.raises(ReplayFormatError, match=says):
            list(seen)


def test_a_replay_without_ticks_shows_nothing() -> None:
    assert list(eye_views(Village, played().model_copy(update={"ticks": []}), "all")) == []


def test_a_replay_of_endless_ticks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [played().header.model_dump_json(), *['{"tick":0,"actions":{},"to_act":[]}'] * 20]
    data = "\n".join(lines).encode()
    assert len(read_replay(data).ticks) == 20
    monkeypatch.setattr(replay_module, "MAX_TICKS", 20)
    with pytest.raises(ReplayFormatError, match="it has more than 20 lines"):
        read_replay(data)


# --- what is public -------------------------------------------------------------------------------------------------


def test_what_is_public_is_told_whatever_spectators_see() -> None:
    play = Play(changed(spectators=Hidden(), live_scores=True, public=("scores", "to_act", "day")), seats=3)
    assert play.standing(1) == {"scores": [1.0, 1.0, 1.0], "to_act": [0, 1, 2], "known": {"day": 0}}
    assert play.revealed().count("wolf-") == 4, "in the title, and on the cards"
    assert Play(changed(draw=lambda self, seat=None: f"for {seat}"), seats=3).revealed() == "for None"


@pytest.mark.parametrize("wrong", ["scores", ("scores", 1), None, ("scores",)])
def test_what_is_public_is_named(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"Village.public (is .*, not the names|has scores, which mean nothing)"):
        changed(public=wrong)


@pytest.mark.parametrize(("name", "says"), [("nights", "AttributeError"), ("rng", "TypeError")])
def test_what_is_public_has_a_value(name: str, says: str) -> None:
    assert f"public, tick 0: {says}" in str(audit_rules(changed(public=(name,))))


def test_the_audit_tries_every_eye() -> None:
    assert audit_rules(Village, seats=4).issues == ()
    assert audit_rules(changed(spectators=Hidden()), seats=4).issues == ()
    for rules, says in [
        (changed(draw=lambda self, eye=None: f"{self.roles}"), "spectators, and so every seat, see roles of seat"),
        (changed(public=("roles",), spectators=Hidden()), "everybody sees (public) roles of seat 0"),
        (changed(public=("roles",)), "spectators, and so every seat, see roles of seat 0"),
        (changed(draw=lambda self, eye=None: 1 / 0 if eye == "all" else ""), "draw, tick 0: ZeroDivisionError"),
        (changed(draw=lambda self, eye=None: "<svg" if eye == "all" else ""), "the picture is not well-formed"),
    ]:
        assert says in str(audit_rules(rules, seats=4)), says
