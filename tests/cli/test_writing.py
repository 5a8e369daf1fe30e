"""`serve` and `sit`: one game for whoever has the links, and players that come to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from support.certificates import Authority
from support.cli_kit import Started, coworld

from coworld_runner.kit.server.scaffolds import new_game

Start = Callable[..., Started]


def test_rules_are_served_and_players_sit_down(start: Start, tmp_path: Path) -> None:
    new_game("small-game", directory=tmp_path / "game")
    bot, other = tmp_path / "bot.py", tmp_path / "other.py"
    bot.write_text("def act(observation, legal, rng):\n    return legal[-1]\n")
    other.write_text("def play(observation, legal, rng):\n    return legal[0]\n")
    # Seat 0 adds two and seat 1 one, so the numbers are 2, 3, 5
    game = start("game", "serve", tmp_path / "game" / "small_game.py", "--config", '{"target": 5}', "--seed", "3")
    seats = game.until(
        lambda: re.findall(r"http\S+/player\S+", game.stdout) if "global" in game.stdout else None, "links"
    )
    first = start("game", "join", seats[0], bot)
    second = coworld(
        "game", "join", seats[1].replace("http:", "ws:").replace("/client", ""), "other:play", "--json", cwd=tmp_path
    )
    assert (second.status, second.json["exit"]["code"]) == (0, 0), second.stderr
    assert "over: scores [1.0, 0.0]" in second.stderr
    assert first.end().status == 0
    done = game.end()
    assert (done.status, done.stdout.splitlines()[-2:]) == (0, ["Seat 0: 1", "Seat 1: 0"])


def test_players_come_from_other_machines_with_an_authority_of_ones_own(start: Start, tmp_path: Path) -> None:
    new_game("small-game", directory=tmp_path / "game")
    (tmp_path / "bot.py").write_text("def act(observation, legal, rng):\n    return legal[-1]\n")
    authority = Authority(tmp_path)
    where = ("--host", "127.0.0.1", "--announce", "localhost", "--tls-cert", authority.issue("localhost"))
    game = start("game", "serve", tmp_path / "game" / "small_game.py", "--config", '{"target": 4}', *where)
    seats = game.until(
        lambda: re.findall(r"https://localhost:\S+/player\S+", game.stdout) if "global" in game.stdout else None,
        "links",
    )
    distrusts = coworld("game", "join", seats[0], "./bot.py", "--json", cwd=tmp_path)
    assert (distrusts.status, distrusts.json["ok"]) == (1, False)
    assert "no authority that this machine trusts" in distrusts.stderr
    wrong = coworld("game", "join", seats[0], "./bot.py", "--ca", "bot.py", "--json", cwd=tmp_path)
    assert (wrong.status, wrong.json["error"]["code"]) == (2, "bad_certificate")
    first = start("game", "join", seats[0], tmp_path / "bot.py", env={"COWORLD_CA_FILE": str(authority.file)})
    # A path of here, although the player has a directory of its own
    second = coworld("game", "join", seats[1], "./bot.py", "--ca", "authority.pem", cwd=tmp_path)
    assert (second.status, first.end().status, game.end().status) == (0, 0, 0), second.stderr
    assert "over: scores" in second.stderr


def test_a_game_is_not_served_to_others_without_tls_or_an_address(tmp_path: Path) -> None:
    new_game("small-game", directory=tmp_path / "game")
    for options, code, words in (
        (("--host", "0.0.0.0"), "announce_missing", "--announce"),
        (("--host", "10.0.0.1"), "tls_required", "--tls-cert"),
        (("--tls-key", "key.pem"), "certificate_missing", "--tls-cert"),
    ):
        done = coworld("game", "serve", "game", *options, "--json", cwd=tmp_path)
        assert (done.status, done.json["error"]["code"]) == (2, code)
        assert words in done.json["error"]["hint"]


def test_address_that_is_not_a_seat_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    done = coworld("game", "join", "http://h:1/client/global", "./bot.py", "--json", cwd=tmp_path)
    assert (done.status, done.json["error"]["code"]) == (2, "bad_address")


def test_new_player_for_a_game_is_ready_to_play(tmp_path: Path) -> None:
    new_game("small-game", directory=tmp_path / "game")
    made = coworld("init", "player", "bot.py", "--for", "game", cwd=tmp_path)
    assert made.status == 0, made.stderr
    (command,) = re.findall(r"^Next:  coworld (run .+)$", made.stdout, re.M)
    assert command == "run game --player ./bot.py --player random-player"
    played = coworld(*command.split(), "--backend", "process", "--json", cwd=tmp_path)
    assert (played.status, played.json["ok"]) == (0, True), played.stderr


def test_new_role_of_a_package_is_declared_and_shown(tmp_path: Path) -> None:
    new_game("small-game", directory=tmp_path / "game")
    made = coworld("init", "grader", "game", "--declare", cwd=tmp_path)
    assert (made.status, (tmp_path / "game" / "roles" / "grader.py").is_file()) == (0, True), made.stderr
    assert "declared in game/coworld_manifest_template.json as grader grader." in made.stdout
    assert re.findall(r"^(?:Next|Then):  coworld (.+)$", made.stdout, re.M) == [
        "run game",
        "grade game/results/latest --grader ./game/roles/grader.py",
    ]
    shown = coworld("show", "game", cwd=tmp_path)
    assert "coworld grade game/results/latest --grader grader" in shown.stdout
    # No published version takes a reporter in an image beside tags; where nobody can be asked, nothing is declared
    left = coworld("init", "reporter", "game", cwd=tmp_path)
    assert "It is not declared in game/coworld_manifest_template.json: published versions" in left.stdout
    asked = coworld("init", "diagnoser", "game/roles/why.py", cwd=tmp_path)
    assert "To declare it in game/coworld_manifest_template.json:  coworld game update game\n" in asked.stdout
    beside = coworld("init", "optimizer", cwd=tmp_path)
    assert (beside.status, (tmp_path / "optimizer.py").is_file()) == (0, True), beside.stderr
    again = coworld("init", "optimizer", cwd=tmp_path)
    assert (again.status, "already exists" in again.stderr) == (2, True)


def test_a_manifest_is_compared_with_the_rules_and_written(tmp_path: Path) -> None:
    game = new_game("small-game", directory=tmp_path / "game").directory
    rules, template = game / "small_game.py", game / "coworld_manifest_template.json"
    before = template.read_text()
    same = coworld("game", "update", "game", "--dry-run", cwd=tmp_path)
    assert (same.status, "is up to date" in same.stdout) == (0, True)
    rules.write_text(rules.read_text().replace("seats = 2", "seats = 10"))
    differs = coworld("game", "update", "game", "--dry-run", "--json", cwd=tmp_path)
    assert (differs.status, differs.json["changed"], differs.json["written"]) == (1, True, False)
    assert '"ten-player"' in differs.json["difference"]
    assert template.read_text() == before
    done = coworld("game", "update", cwd=game)
    assert (done.status, '+            "name": "Seat 9"' in done.stdout) == (0, True), done.stderr
    assert coworld("game", "update", "game", "--dry-run", cwd=tmp_path).status == 0
    template.write_text(template.read_text().replace('"game_config": {', '"game_config": {"goal": 7,', 1))
    wrong = coworld("game", "update", "game", cwd=tmp_path)
    assert (wrong.status, 'The key "goal" is not known here' in wrong.stdout) == (1, True)
    rules.write_text(rules.read_text().replace("seats = 10", "seats = 10 +"))
    refused = coworld("game", "update", "game", cwd=tmp_path)
    assert (refused.status, "Traceback" in refused.stderr, "small_game.py:" in refused.stderr) == (2, False, True)
