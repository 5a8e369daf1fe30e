"""Messages between seats: who may say what to whom, who hears it and when, and that it can all be played again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from support.talking import Parley, TalkingSticks

from coworld_core.errors import CoworldError, UsageError
from coworld_core.rules import (
    ActionRefused,
    Play,
    ReplayHeader,
    ReplayWriter,
    Rules,
    RulesError,
    TalkLimits,
    audit_rules,
    game_section,
    play_again,
    read_replay,
    trajectory,
)
from coworld_core.rules.seat_talk import MAX_KEPT, SeatChat, SeatTalk, takes_talk


def changed(rules: type[Rules] = Parley, **attributes: Any) -> type[Rules]:
    return cast("type[Rules]", type(rules.__name__, (rules,), attributes))


def talk_of(play: Play) -> SeatChat:
    assert play.talk is not None
    return play.talk


def test_words_are_heard_in_the_next_tick_in_the_order_of_seats() -> None:
    play = Play(Parley, seats=4)
    talk = talk_of(play)
    talk.say(3, "first", tick=0)
    talk.say(0, "to two", 2, tick=0)
    talk.say(0, "to my team", "team", tick=0)
    assert talk.messages == ()
    assert talk.heard(2) == []
    play.step({})
    assert [(one.seat, one.text, one.hearers) for one in play.frame().messages] == [
        (0, "to two", (2,)),
        (0, "to my team", (2,)),
        (3, "first", (0, 1, 2)),
    ]
    assert [one.fields() for one in talk.heard(2)] == [
        {"tick": 0, "seat": 0, "text": "to two", "to": 2},
        {"tick": 0, "seat": 0, "text": "to my team", "to": "team"},
        {"tick": 0, "seat": 3, "text": "first", "to": "all"},
    ]
    assert [one.text for one in talk.heard(1)] == ["first"]
    assert talk.heard(3) == []
    talk.say(1, "second", tick=1)
    play.step({})
    play.step({})
    assert talk.messages == ()
    # Who is asked only now has heard everything since
    for _ in range(2):
        assert [one["text"] for one in talk.take(0)] == ["first", "second"]
    play.step({})
    assert talk.take(0) == []
    talk.say(0, "third", tick=4)
    assert [one.text for one in talk.log(0)] == ["first", "to two", "to my team", "second", "third"]
    assert [one.text for one in talk.log(3)] == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("text", "to", "says"),
    [
        (None, "all", "a message has a text"),
        ("  \n", "all", "a message has a text"),
        ({"take": 1}, "all", "a message has a text"),
        ("x" * 41, "all", "at most 40 characters, not 41"),
        ("\ud800", "all", "is not Unicode"),
        ("hello", 1, "there is no other seat 1; there are 3"),
        ("hello", 3, "there is no other seat 3"),
        ("hello", -1, "there is no other seat -1"),
        ("hello", True, 'the `to` of a message is "all" or the number of a seat or "team" in this game'),
        ("hello", "everybody", "the `to` of a message is"),
        ("hello", [0, 2], "the `to` of a message is"),
    ],
)
def test_what_may_not_be_said_is_refused(text: Any, to: Any, says: str) -> None:
    play = Play(Parley, seats=3)
    with pytest.raises(ActionRefused, match=says.replace("(", "\\(")) as caught:
        talk_of(play).say(1, text, to, tick=0)
    assert caught.value.code == "talk_refused"
    play.step({})
    assert talk_of(play).messages == ()


def test_a_seat_speaks_a_limited_number_of_times_and_not_when_it_is_out() -> None:
    play = Play(Parley)
    talk = talk_of(play)
    assert talk.say_all(0, [("a", "all"), ("b", 1), ("c", "all"), "xyz", (1, 2), None], tick=0) == 4
    with pytest.raises(ActionRefused, match="a seat may say 2 messages in a tick"):
        talk.say(0, "d", tick=0)
    talk.say(1, "e", tick=0)
    play.step({})
    assert [one.text for one in talk.messages] == ["a", "b", "e"]
    talk.say(0, "f", tick=1)
    out = Play(changed(loses=1))
    with pytest.raises(ActionRefused, match="you are out of the game"):
        talk_of(out).say(1, "hello", tick=0)
    one = Play(TalkingSticks)
    talk_of(one).say(1, "not my turn", tick=0)
    with pytest.raises(ActionRefused, match="a seat may say one message in a tick"):
        talk_of(one).say(1, "again", tick=0)
    with pytest.raises(ActionRefused, match='is "all" or the number of a seat in this game'):
        talk_of(one).say(0, "hello", "team", tick=0)


def test_what_waits_for_a_seat_that_is_never_asked_is_bounded() -> None:
    play = Play(changed(max_ticks=10**6), config=Parley.Config(rounds=MAX_KEPT + 5))
    for tick in range(MAX_KEPT + 2):
        talk_of(play).say(0, str(tick), tick=tick)
        play.step({})
    assert [one["text"] for one in talk_of(play).take(1)] == [str(tick) for tick in range(2, MAX_KEPT + 2)]


@pytest.mark.parametrize("wrong", [{"length": 0}, {"length": 10_001}, {"per_tick": True}, {"to": ()}, {"to": ("me",)}])
def test_limits_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TalkLimits(**wrong)


def test_settings_are_checked_at_class_creation() -> None:
    with pytest.raises(UsageError, match="talk is True, not TalkLimits"):
        changed(talk=True)
    with pytest.raises(UsageError, match="does not say which that is") as caught:
        changed(TalkingSticks, talk=TalkLimits(to=("team",)))
    assert "team(self, seat)" in str(caught.value.hint)


def recorded() -> bytes:
    writer = ReplayWriter(ReplayHeader(rules="Parley", version="3", config={}, seed=3, seats=2, names=["A", "B"]))
    play = Play(Parley, seed=3)
    writer.add(play.frame())
    while not play.over:
        if play.tick % 3 == 0:
            talk_of(play).say(1, f"tick {play.tick} ♟", 0, tick=play.tick)
            talk_of(play).say(0, "hello", tick=play.tick)
        done = play.step({})
        writer.add(play.frame(), done)
    return writer.finish(reason="over", results=play.results())


def test_a_replay_keeps_words_and_says_them_again() -> None:
    replay = read_replay(recorded())
    assert [[(one.seat, one.text, one.to) for one in tick.said] for tick in replay.ticks[:3]] == [
        [],
        [(0, "hello", "all"), (1, "tick 0 ♟", 0)],
        [],
    ]
    play = play_again(Parley, replay, until=4)
    assert [one.text for one in talk_of(play).heard(0)] == ["tick 0 ♟", "tick 3 ♟"]
    steps = [step for step in trajectory(Parley, replay).steps if step.seat == 0]
    assert steps[0].said == ({"tick": 0, "seat": 0, "text": "hello", "to": "all"},)
    assert steps[1].heard == ({"tick": 0, "seat": 1, "text": "tick 0 ♟", "to": 0},)
    assert steps[1].said == steps[2].heard == ()
    with pytest.raises(
        RulesError, match="what was said was allowed, and is now refused: a message has at most 3 characters"
    ):
        play_again(changed(talk=TalkLimits(length=3)), replay)
    with pytest.raises(RulesError, match="the game has no talk"):
        play_again(changed(talk=None), replay)


def wrong_team(self: Parley, seat: int) -> Any:
    return [seat, 7]


def forgetful_team(self: Parley, seat: int) -> list[int]:
    self.points[seat] += 1
    return [seat]


def test_the_audit_looks_at_teams() -> None:
    assert audit_rules(Parley).issues == ()
    (issue,) = audit_rules(changed(team=wrong_team)).issues
    assert (issue.code, "there is no seat 7; there are 2" in issue.message) == ("rules_failed", True)
    assert issue.hint == "Return a list of seats, from 0 to `self.seats` - 1."
    assert {issue.code for issue in audit_rules(changed(team=forgetful_team)).issues} == {"rules_change_when_asked"}
    with pytest.raises(CoworldError, match=r"team, tick 0: there is no seat 7"):
        talk_of(Play(changed(team=wrong_team))).say(1, "hello", "team", tick=0)


def test_only_games_with_talk_describe_it() -> None:
    text = game_section(Parley)["protocols"]["player"]["value"]
    assert '`"all"` (the default) or a seat or `"team"`. A seat may say 2 messages in a' in text
    assert "say" not in game_section(changed(talk=None, tell_rewards=False))["protocols"]["player"]["value"].split()


def test_a_player_takes_talk_by_its_fourth_argument() -> None:
    class Player:
        def act(self, observation: Any, legal: Any, rng: Any, talk: Any) -> Any: ...

    def act(observation: Any, legal: Any, rng: Any) -> Any: ...

    def other(observation: Any, legal: Any, rng: Any, depth: int = 3) -> Any: ...

    def named(observation: Any, legal: Any, rng: Any, *, talk: Any = None) -> Any: ...

    assert takes_talk(Player().act)
    assert not any(map(takes_talk, (act, other, named, print)))
    heard: list[Mapping[str, Any]] = [{"text": "hello"}]
    talk = SeatTalk(heard)
    talk.heard[0]["text"] = "changed"
    talk.say("yes", 1)
    assert (heard, talk.words) == ([{"text": "hello"}], [("yes", 1)])
