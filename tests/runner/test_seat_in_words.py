"""A seat in words: what a model is asked, what its answers do, and what it is told of those that are refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.served_game import Sticks
from support.talking import TalkingSticks

from coworld_core.errors import UsageError
from coworld_core.rules import check_replay, read_replay
from coworld_core.rules.model_words import UNCLEAR
from coworld_runner.kit import rollout as kit
from coworld_runner.kit.rollout import SeatInWords, rollout


def first(observation: Any, legal: Any, rng: Any) -> Any:
    return legal[0]


def test_a_model_plays_a_game_that_a_rollout_repeats() -> None:
    with SeatInWords(Sticks, opponents=first) as seat:
        assert seat.over
        assert seat.instructions.startswith("Players take one to three sticks")
        seat.begin(seed=5)
        assert '||||||\n\nLegal actions:\n{"take": 1}' in seat.question
        gained = seat.answer('I take two: {"take": 2}')
        while not seat.over:
            gained += seat.answer('{"take": 3}')
        assert (seat.scores, seat.seed, seat.refused, gained) == ([1.0, 0.0], 5, 0, 1.0)
        answers = iter([{"take": 2}, {"take": 3}])
        again = rollout(Sticks, [lambda *_: next(answers), first], seed=5)
        assert seat.results == again.results
        graded = seat.episode
        assert (graded.scores, graded.names) == ((1.0, 0.0), ("Seat 0", "Seat 1"))
        kept = check_replay(Sticks, read_replay(graded.replay))
        assert kept.results == again.results
        with pytest.raises(UsageError, match="begin one"):
            seat.answer("1")
        seat.begin(seed=6)
        seat.leave()
        assert seat.over, "one that leaves misses its turns"


def test_a_refused_answer_is_told_back_and_the_last_one_costs_the_turn() -> None:
    with SeatInWords(Sticks, seat=1, opponents=first, config={"sticks": 9}) as seat:
        seat.begin(seed=1)
        before = seat.asked
        seat.answer("Whatever.")
        assert seat.question.endswith(f"Your last answer was refused: {UNCLEAR}")
        assert {**before, "refused": UNCLEAR} == seat.asked
        seat.act({"take": 4})
        assert 'legal is for example {"take":1}' in seat.question
        assert seat.asked["tick"] == before["tick"]
        seat.answer("")
        assert "so you have missed that turn" in seat.question
        assert seat.asked["tick"] == before["tick"] + 2
        seat.answer('{"take": 1}')
        assert "refused" not in seat.question
        assert seat.refused == 3


def test_words_are_said_and_heard() -> None:
    def talker(observation: Any, legal: Any, rng: Any, talk: Any) -> Any:
        heard.extend(message["text"] for message in talk.heard)
        talk.say("Take one.")
        return legal[0]

    heard: list[str] = []
    with SeatInWords(TalkingSticks, opponents=talker) as seat:
        seat.begin(seed=1)
        seat.answer('SAY: After you.\n{"take": 1}')
        assert heard == ["After you."]
        assert "Seat 1: Take one." in seat.question
        assert "Seat 1: Take one." in seat.question, "looking twice takes nothing away"
        with pytest.raises(UsageError, match="not over"):
            assert seat.episode
        seat.leave()
        said = [one.text for tick in read_replay(seat.episode.replay).ticks for one in tick.said]
        assert said[:2] == ["After you.", "Take one."]


def test_what_cannot_be_seated_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="no seat 2"):
        SeatInWords(Sticks, seat=2)
    with pytest.raises(UsageError, match="1 other seats, and 2 opponents"):
        SeatInWords(Sticks, opponents=["random", "random"], seats=2)
    with pytest.raises(UsageError, match="no reward kept"):
        kit.as_verifiers(Sticks, weights={"score": 1, "kept": 2})


@pytest.mark.parametrize(
    ("module", "make", "needs"),
    [
        ("verifiers", kit.as_verifiers, "pip install 'verifiers>=0.4,<0.5'"),
        ("openenv", kit.as_openenv, "pip install 'openenv-core>=0.3,<0.4'"),
        ("inspect_ai", kit.coworld_task, "pip install 'inspect-ai>=0.3.285,<0.4'"),
    ],
)
def test_a_missing_library_is_named(
    module: str, make: Callable[..., Any], needs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError) as refused:
        make(Sticks)
    assert needs in str(refused.value.hint)
