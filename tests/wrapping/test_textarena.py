"""Games of TextArena: free text, chance of the rules' own, and what needs a network is refused."""

from __future__ import annotations

import pytest

from coworld_core.errors import UsageError
from coworld_core.rules import Play, audit_rules
from coworld_runner.kit.wrappers import TextArena, list_wrappable
from coworld_runner.kit.wrappers.game_catalogue import find_game
from coworld_runner.kit.wrappers.wrappable import rules_of


def test_a_game_of_words_is_played_and_over() -> None:
    rules = rules_of(TextArena, "TicTacToe-v0", seats=find_game("textarena:TicTacToe-v0").seats)
    assert audit_rules(rules, ticks=10, sample=lambda rng: f"[{rng.randrange(9)}]").issues == ()
    play = Play(rules)
    for move in ("[0]", "[3]", "[1]", "[4]", "[2]"):
        (seat,) = play.to_act
        assert play.legal(seat) is None
        play.step({seat: play.read(seat, move)})
    assert play.over
    assert play.results()["scores"] == [1, -1]
    assert play.results()["reason"]


@pytest.mark.parametrize(("game", "seats"), [("KuhnPoker-v0", 2), ("ThreeCardMonte-v0", 1)])
def test_chance_is_that_of_the_rules(game: str, seats: int) -> None:
    """Also of games that make a generator of their own."""
    rules = rules_of(TextArena, game, seats=seats)
    plays = [Play(rules, seed=seed) for seed in (1, 1, *range(2, 8))]
    texts = [play.observe(play.to_act[0]) for play in plays]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1


def test_a_reason_in_place_of_a_reward_is_no_score() -> None:
    play = Play(rules_of(TextArena, "ThreeCardMonte-v0", seats=1), seed=1)
    while not play.over:
        play.step({0: play.read(0, "nonsense")})
    assert play.results()["scores"] == [0.0]


@pytest.mark.parametrize(("game", "why"), [("Wordle-v0", "word lists"), ("Debate-v0", "language model")])
def test_game_that_needs_a_network_is_refused(game: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        find_game(f"textarena:{game}")
    assert any(why in str(one.refused) for one in list_wrappable("textarena") if one.source == f"textarena:{game}")
