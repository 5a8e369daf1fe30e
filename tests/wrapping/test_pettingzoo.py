"""Games of PettingZoo: boards, hidden cards, all at once; and why the rest is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coworld_core.errors import UsageError
from coworld_core.rules import Play, Rules, RulesError, audit_rules, play_again, read_replay
from coworld_runner.kit.rollout import rollout
from coworld_runner.kit.wrappers import PettingZoo, list_wrappable, wrap_game
from coworld_runner.kit.wrappers.game_catalogue import find_game
from coworld_runner.kit.wrappers.wrappable import rules_of


def rules(game: str) -> type[Rules]:
    return rules_of(PettingZoo, game, seats=find_game(f"pettingzoo:{game}").seats)


@pytest.mark.parametrize("game", ["tictactoe_v3", "leduc_holdem_v4", "rps_v2(max_cycles=5)"])
def test_rules_keep_their_promise(game: str) -> None:
    made = rules(game)
    assert audit_rules(made, ticks=30).issues == ()
    done = rollout(made, "random", seed=3, record=True)
    assert done.refused == (0, 0)
    assert sum(done.scores) == 0
    assert done.replay is not None
    assert play_again(made, read_replay(done.replay)).results() == done.results


def test_a_board_its_mask_and_its_end() -> None:
    play = Play(rules("tictactoe_v3"))
    for left, action in enumerate((0, 1, 3, 4)):
        assert len(play.legal(play.to_act[0]) or ()) == 9 - left
        play.step({play.to_act[0]: play.read(play.to_act[0], action)})
    assert play.legal(0) == ["2", "5", "6", "7", "8"]
    assert play.frame().drawing.splitlines()[:3] == ["x o .", "x o .", ". . ."]
    play.step({0: play.read(0, 6)})
    assert play.over
    assert play.results()["scores"] == [1, -1]
    assert json.loads(play.observe(1))["view"], "what was seen last stays"


def test_all_act_at_once_where_there_is_a_parallel_form() -> None:
    play = Play(rules("rps_v2(max_cycles=5)"))
    assert play.to_act == (0, 1)
    play.step({0: play.read(0, 0), 1: play.read(1, 1)})
    assert play.results()["scores"] == [-1, 1], "paper beats rock"


@pytest.mark.parametrize(
    ("game", "why"),
    [
        ("pistonball_v6", "164,520 numbers"),
        ("cooperative_pong_v6", "403,200 numbers"),
        ("pong_v3", "cartridge"),
        ("rps_v2(3)", "cannot be read"),
        ("rps_v2(colour=1)", "cannot make it"),
        ("tictactoe", "no such game"),
    ],
)
def test_unsupported_game_is_refused_with_the_reason(game: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        find_game(f"pettingzoo:{game}")
    if game == "tictactoe":
        assert "pettingzoo:tictactoe_v3" in str(refused.value.hint)


def test_seats_are_those_of_the_arguments() -> None:
    assert find_game("pettingzoo:texas_holdem_v4(num_players=4)").seats == 4
    texas = rules("texas_holdem_v4")
    with pytest.raises(RulesError, match="has 4 seats, not 2"):
        Play(texas, config=texas.Config(game="texas_holdem_v4(num_players=4)"))


def test_a_package_names_what_the_game_needs(tmp_path: Path) -> None:
    made = wrap_game("pettingzoo:leduc_holdem_v4", directory=tmp_path / "leduc", measure=False)
    lines = (made.directory / "Dockerfile").read_text()
    assert "pettingzoo==" in lines
    assert "rlcard==" in lines
    assert "open_spiel" not in lines
    assert "class Leduc(PettingZoo)" in (made.directory / "leduc.py").read_text()


def test_all_names_are_listed() -> None:
    listed = list_wrappable("pettingzoo")
    assert len(listed) > 30
    assert {one.source for one in listed if not one.refused} >= {"pettingzoo:connect_four_v3", "pettingzoo:go_v5"}
