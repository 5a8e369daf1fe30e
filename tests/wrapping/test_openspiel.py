"""Packages made of OpenSpiel's games: with chance, hidden cards, simultaneous moves, several seats; nothing by hand."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.cli_kit import coworld
from support.games import kit_examples

from coworld_core.errors import UsageError
from coworld_core.rules import (
    Play,
    Rules,
    RulesError,
    audit_rules,
    load_player,
    play_again,
    read_replay,
)
from coworld_runner.kit.rollout import rollout
from coworld_runner.kit.wrappers import OpenSpiel, list_wrappable, wrap_game
from coworld_runner.kit.wrappers.game_catalogue import find_game
from coworld_runner.kit.wrappers.openspiel import OpenSpielConfig, play_on

BOARD = Path(__file__).parents[2] / "examples" / "board"


def rules_of(game: str) -> type[Rules]:
    found = find_game(f"openspiel:{game}")

    class Config(OpenSpielConfig):
        game: str = found.game

    named = {"Config": Config, "seats": found.seats, "most_seats": found.most_seats, "live_scores": found.live_scores}
    return type("Wrapped", (OpenSpiel,), named)


GAMES = {
    "connect_four": "a board",
    "backgammon": "dice",
    "hanabi": "hidden cards, and rewards on the way",
    "goofspiel": "simultaneous moves",
    "negotiation": "random numbers of its own",
    "catch": "one seat",
    "2048": "a name that begins with a digit",
    "kuhn_poker(players=3)": "parameters",
}


@pytest.mark.parametrize("game", GAMES)
def test_rules_keep_their_promise(game: str) -> None:
    rules = rules_of(game)
    assert audit_rules(rules, ticks=60).issues == ()
    done = rollout(rules, "random", seed=3, record=True)
    assert done.refused == (0,) * len(done.scores)
    assert done.replay is not None
    assert play_again(rules, read_replay(done.replay)).results() == done.results


def test_every_game_that_is_listed_can_be_played() -> None:
    listed = list_wrappable("openspiel")
    assert len(listed) > 100
    assert {one.source for one in listed if one.refused} >= {"openspiel:mfg_garnet", "openspiel:misere"}
    failed: dict[str, str] = {}
    for one in listed:
        game = one.source.partition(":")[2]
        if one.refused or game == "bridge_uncontested_bidding":  # Which deals for seconds
            continue
        play = Play(rules_of(game), seats=find_game(one.source).default_seats, seed=1)
        rng = random.Random(1)
        for _ in range(20):
            if not play.over:
                for seat in play.to_act:
                    play.observe(seat)
                actions = {
                    seat: play.read(seat, json.loads(rng.choice(play.legal(seat) or []))) for seat in play.to_act
                }
                play.step(actions)
        if not play.frame().drawing:
            failed[game] = "draws nothing"
    assert failed == {}


def test_hidden_information_is_not_shown() -> None:
    rules = rules_of("leduc_poker")
    play = Play(rules, seed=4)
    sights = [play.observation(seat) for seat in (0, 1)]
    assert sights[0]["view"] != sights[1]["view"]
    assert [sight["history"] for sight in sights] == [None, None]
    shown = play.frame().drawing
    assert shown == Play(rules, seed=5).frame().drawing, "the drawing says nothing of the cards"
    while not play.over:
        (seat,) = play.to_act
        play.step({seat: play.read(seat, "Call")})
    assert "Cards (public player_0 player_1)" in play.frame().drawing


def test_seats_and_parameters() -> None:
    assert (find_game("openspiel:hanabi").seats, find_game("openspiel:hanabi").most_seats) == (2, 5)
    assert find_game("openspiel:oh_hell").seats == 3
    assert len(rollout(rules_of("hanabi"), "random", seats=4).scores) == 4
    with pytest.raises(RulesError, match="cannot load chess"):
        Play(rules_of("hanabi"), config=rules_of("hanabi").Config(game="chess(no=1)"))
    for source in (
        "openspiel:no_such_game",
        "openspiel:",
        "openspiel:misere",
        "openspiel:mfg_garnet",
        "openspiel:crossword",
    ):
        with pytest.raises(UsageError, match="cannot be wrapped"):
            find_game(source)


def test_a_move_is_played_out_from_a_history() -> None:
    play = Play(rules_of("tic_tac_toe"))
    for move in ("x(0,0)", "o(1,0)", "x(0,1)", "o(1,1)"):
        play.step({play.to_act[0]: play.read(play.to_act[0], move)})
    history: list[int] = play.observation(0)["history"]
    assert play_on("tic_tac_toe", history, "x(0,2)", random.Random(1)) == 1.0


def board() -> type[Rules]:
    return next(rules for rules in kit_examples() if rules.__name__ == "Board")


def test_chess_is_drawn_as_a_diagram() -> None:
    play = Play(board(), config=board().Config(game="chess"))
    assert play.frame().drawing.splitlines()[0] == "8 r n b q k b n r"
    assert play.frame().drawing.endswith("White to move")
    with pytest.raises(ValueError, match="pattern"):
        board().Config(game="tic_tac_toe")


def test_searching_player_wins() -> None:
    thinker, mover = (load_player(str(BOARD / "players" / f"{name}.py")) for name in ("thinker", "random_mover"))
    assert sum(rollout(board(), [mover, thinker], seed=seed).scores[1] for seed in range(8)) >= 6


@pytest.mark.slow
def test_a_package_is_whole(tmp_path: Path) -> None:
    made = wrap_game("openspiel:tic_tac_toe", directory=tmp_path / "noughts")
    assert made.card is not None
    assert made.card.findings == ()
    assert made.card.margin is not None
    assert made.card.margin.low is not None
    assert made.card.margin.low > 0, "the searcher wins more than a random player"
    readme = (made.directory / "README.md").read_text()
    assert "| Deterministic | yes |" in readme
    assert "open_spiel==" in (made.directory / "Dockerfile").read_text()
    manifest: dict[str, Any] = json.loads((made.directory / "coworld_manifest_template.json").read_text())
    assert manifest["game"]["name"] == "noughts"
    assert [player["id"] for player in manifest["player"]] == ["random-player", "searcher"]
    with pytest.raises(UsageError, match="already exists"):
        wrap_game("openspiel:chess", directory=tmp_path / "noughts")


@pytest.mark.slow
def test_the_command_makes_one_of_hidden_cards(tmp_path: Path) -> None:
    done = coworld("game", "wrap", "openspiel:kuhn_poker", "-o", "kuhn", "--no-measure", cwd=tmp_path)
    assert done.status == 0, done.stderr
    assert (tmp_path / "kuhn" / "players" / "practised.py").is_file()
    script = "from kuhn import Kuhn\nfrom coworld_runner.kit.rollout import rollout\n"
    script += "print(rollout(Kuhn, ['players/practised.py', 'random', 'players/random_player.py'], seats=3).scores)"
    played = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path / "kuhn", capture_output=True, text=True, check=False
    )
    assert played.returncode == 0, played.stderr
