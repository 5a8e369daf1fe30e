"""What becomes of what a person types."""

from __future__ import annotations

from typing import Any

import pytest

from coworld_client.seat.typed_seat import TypedSeat

HELLO = {"type": "hello", "protocol": "coworld.seat/1", "seat": 0, "names": ["Ann", "Bob"]}


def seated(legal: list[Any] | None, **more: Any) -> TypedSeat:
    seat = TypedSeat()
    seat.receive(HELLO)
    told = {} if legal is None else {"legal": legal}
    seat.receive({"type": "observe", "tick": 3, "your_turn": True, "observation": {"left": 5}, **told, **more})
    return seat


@pytest.mark.parametrize(
    ("legal", "typed", "action"),
    [
        ([{"take": 2}, {"take": 3}], "2", {"take": 2}),
        ([{"take": 2}, {"take": 3}], "take=3", {"take": 3}),
        (["left", "right"], "Right", "right"),
        (["left", "right"], "2", "right"),
        (["up", "down"], "\x1b[B", "down"),
        ([3, 1], "1", 1),
        (["pass", 3, 12], "12", 12),
        (["take 2", "take 3"], "3", "take 3"),
        ([{"card": 3, "suit": "red"}, {"card": 2, "suit": "red"}], "2", {"card": 2, "suit": "red"}),
        ([{"row": 1, "column": 2}, {"row": 2, "column": 1}], "2", {"row": 2, "column": 1}),
        ([{"from": "a1", "to": "a2"}, {"from": "a1", "to": "a3"}], "2", {"from": "a1", "to": "a3"}),
        ([{"from": "a1", "to": "a2"}], "to=a2 from=a1", {"from": "a1", "to": "a2"}),
        (None, "hello there", "hello there"),
        (None, '{"say": "x"}', {"say": "x"}),
        (None, "bid=3 suit=red", {"bid": 3, "suit": "red"}),
    ],
)
def test_words_numbers_and_fields_are_actions(legal: list[Any] | None, typed: str, action: Any) -> None:
    seat = seated(legal)
    assert seat.say(typed) == {"type": "act", "tick": 3, "action": action, "by": "human"}
    assert not seat.your_turn


def test_number_never_means_a_place_where_actions_have_numbers() -> None:
    for legal in (
        [3, 12],
        [{"take": 2}, {"take": 3}],
        ["pass", 7],
        [{"card": 3, "suit": "a"}, {"card": 3, "suit": "b"}],
    ):
        seat = seated(legal)
        assert (seat.places, seat.say("1"), seat.note) == (False, None, "'1' is none of the actions")
    # Nor when what is legal later has none
    seat.receive({"type": "observe", "tick": 4, "your_turn": True, "observation": {}, "legal": ["left", "right"]})
    assert (seat.places, seat.say("1")) == (False, None)
    assert seat.say("left") is not None


def test_what_is_no_action_is_said_and_may_be_tried_again() -> None:
    seat = seated([{"take": 1}])
    assert seat.say("jump") is None
    assert (seat.note, seat.your_turn, seat.legal_texts()) == ("'jump' is none of the actions", True, ["take=1"])
    assert seat.say("") is None
    assert seat.say("1") is not None
    seat.receive({"type": "refused", "tick": 3, "reason": "not legal now", "legal": [{"take": 1}]})
    assert (seat.note, seat.your_turn) == ("not legal now", True)
    assert seat.say("1") is not None
    assert seat.say("1") is None
    assert seat.note == "it is not your turn"
    seat.receive({"type": "over", "scores": [1, 0]})
    assert (seat.over, seat.your_turn) == ([1, 0], False)


def test_without_text_the_observation_is_shown() -> None:
    assert "left" in "".join(seated(None).board.lines)
    assert seated(None, text="|||||").board.lines == ("|||||",)


@pytest.mark.parametrize(
    ("typed", "sent"),
    [("up", {"move": "up"}), ("\x1b[A", {"move": "up"}), ("turn=3", {"turn": 3}), ('{"a": [1]}', {"a": [1]})],
)
def test_games_with_a_protocol_of_their_own_get_fields(typed: str, sent: dict[str, Any]) -> None:
    seat = TypedSeat()
    seat.receive({"type": "observation", "slot": 0, "tick": 1, "done": False, "scores": [0, 0]})
    assert seat.say(typed) == sent
    seat.receive({"type": "error", "message": "not understood"})
    assert seat.note == "not understood"
    seat.receive({"type": "final", "tick": 2, "done": True, "scores": [3, 1]})
    assert (seat.over, seat.your_turn) == ([3, 1], False)


def test_words_are_typed_behind_a_slash_in_games_with_talk() -> None:
    seat = TypedSeat()
    seat.receive({**HELLO, "talk": {"length": 9, "per_tick": 1, "to": ["all", "seat"]}})
    heard = [{"tick": 2, "seat": 1, "text": "hi", "to": "all"}]
    for _ in range(2):
        seat.receive({"type": "observe", "tick": 3, "your_turn": False, "observation": {}, "heard": heard})
    # It is not their turn, and they may speak
    assert seat.is_talk("/say hello")
    assert seat.say("/say  hello ") == {"type": "say", "text": " hello", "to": "all"}
    assert seat.say("/1 psst") == {"type": "say", "text": "psst", "to": 1}
    assert seat.say("/team go") == {"type": "say", "text": "go", "to": "team"}
    assert seat.board.messages == ((1, "hi", "all"), (0, " hello", "all"), (0, "psst", 1), (0, "go", "team"))
    for wrong in ("/say", "/shout hello", "/"):
        assert seat.say(wrong) is None
        assert seat.note.startswith("write /say WORDS")
    seat.receive({"type": "say_refused", "tick": 3, "reason": "a seat may say one message in a tick"})
    assert seat.note == "not said: a seat may say one message in a tick"
    seat.receive({"type": "observe", "tick": 4, "your_turn": True, "observation": {}, "legal": ["/stay"]})
    assert len(seat.board.messages) == 4


def test_a_seat_that_is_taken_again_shows_what_was_said() -> None:
    seat = TypedSeat()
    before = [{"tick": 1, "seat": 0, "text": "hi", "to": "all"}, {"tick": 1, "seat": 1, "text": "oh", "to": 0}]
    heard = [{"tick": 2, "seat": 1, "text": "yes", "to": "all"}]
    for _ in range(2):
        seat.receive({**HELLO, "talk": {"length": 9, "per_tick": 1, "to": ["all", "seat"]}, "talked": before})
        seat.receive({"type": "observe", "tick": 3, "your_turn": False, "observation": {}, "heard": heard})
        assert seat.board.messages == ((0, "hi", "all"), (1, "oh", 0), (1, "yes", "all"))


def test_what_is_heard_at_once_is_shown_once() -> None:
    seat = TypedSeat()
    seat.receive({**HELLO, "talk": {"length": 9, "per_tick": 2, "to": ["all"]}})
    seat.receive({"type": "observe", "tick": 3, "your_turn": True, "observation": {}, "legal": ["yes"]})
    one = {"tick": 3, "seat": 1, "text": "hi", "to": "all"}
    for _ in range(2):
        seat.receive({"type": "heard", "heard": [one]})
    assert (seat.board.messages, seat.your_turn) == (((1, "hi", "all"),) * 2, True)
    late = {**one, "text": "late"}
    for _ in range(2):
        seat.receive({"type": "observe", "tick": 4, "your_turn": False, "observation": {}, "heard": [one, one, late]})
    assert seat.board.messages == ((1, "hi", "all"), (1, "hi", "all"), (1, "late", "all"))


def test_a_slash_is_nothing_special_where_nobody_talks() -> None:
    seat = seated(["/say x"])
    assert not seat.is_talk("/say x")
    assert seat.say("/say x") == {"type": "act", "tick": 3, "action": "/say x", "by": "human"}
