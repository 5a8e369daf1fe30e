"""The program that serves rules: its environment, its exit, its files, and what it shows of a replay."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.game_process import Program, program
from support.served_game import TOKENS
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

pytestmark = pytest.mark.slow


def seat(game: Program, slot: int) -> Any:
    return connect(f"ws://127.0.0.1:{game.port}/player?slot={slot}&token={TOKENS[slot]}", proxy=None)


def act(socket: Any, tick: int, take: int) -> None:
    while json.loads(socket.recv()).get("tick") != tick:
        pass
    socket.send(json.dumps({"type": "act", "tick": tick, "action": {"take": take}}))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A game that was played to its end."""
    with program(tmp_path_factory.mktemp("played")) as game:
        with seat(game, 0) as first, seat(game, 1) as second:
            while not json.loads(first.recv()).get("your_turn"):
                pass
            first.send(json.dumps({"type": "act", "tick": 0, "action": {"take": 3}}))
            act(second, 1, 1)
            *_, seen, last = (json.loads(message) for message in first)
        assert (seen["observation"], seen["your_turn"], last["type"]) == ({"left": 0}, False, "over")
        assert game.process.wait(20) == 0
        # Whoever has heard the end finds everything written.
        assert last["results"] == json.loads((game.place / "there" / "results.json").read_text())
        return game


def test_results_and_replay_are_there_and_no_token(played: Program) -> None:
    assert json.loads((played.place / "there" / "results.json").read_text()) == {"scores": [0.0, 1.0], "ticks": 2}
    replay = played.replay()
    assert (replay.reason, replay.header.seed, replay.header.config) == ("over", 1, {"sticks": 4})
    assert not any(token in played.printed() + str(replay) for token in TOKENS)


def test_a_game_that_is_stopped_keeps_its_replay_and_has_no_results(tmp_path: Path) -> None:
    with program(tmp_path) as game, seat(game, 0) as first, seat(game, 1) as second:
        while not json.loads(first.recv()).get("your_turn"):
            pass
        first.send(json.dumps({"type": "act", "tick": 0, "action": {"take": 1}}))
        while json.loads(second.recv()).get("tick") != 1:
            pass
        game.process.send_signal(signal.SIGTERM)
        assert [json.loads(message) for message in second][-1]["reason"] == "stopped"
        assert game.process.wait(20) == 128 + signal.SIGTERM
        assert (game.replay().reason, len(game.replay().ticks)) == ("stopped", 2)
        assert not (tmp_path / "there").exists()


@pytest.mark.parametrize(
    ("rules", "env", "code", "says"),
    [
        (":Sticks", {}, 2, "does not name a Rules class"),
        ("support.served_game:Sticks", {"COGAME_RESULTS_URI": ""}, 2, "COGAME_RESULTS_URI is not set"),
        ("support.served_game:Sticks", {"COGAME_CONFIG_URI": "file:///nowhere/x"}, 2, "cannot be read"),
        ("support.served_game:Sticks", {"COGAME_PORT": "x"}, 2, "COGAME_PORT must be"),
        ("support.served_game:Sticks", {"COGAME_LOAD_REPLAY_URI": __file__}, 1, "is not a replay of rules"),
        ("support.served_game:Broken", {}, 1, "start, tick 0: RuntimeError: no sticks"),
        ("support.served_game:Broken", {}, 1, 'raise RuntimeError("no sticks")'),
    ],
)
def test_unplayable_rules_are_reported(tmp_path: Path, rules: str, env: dict[str, str], code: int, says: str) -> None:
    with program(tmp_path, rules, **env) as game:
        assert game.process.wait(20) == code
        assert says in game.printed()


def test_a_replay_is_shown_in_both_dialects(played: Program, tmp_path: Path) -> None:
    uri = (played.place / "replay").as_uri()
    with program(tmp_path, COGAME_LOAD_REPLAY_URI=uri) as game:
        base = f"127.0.0.1:{game.port}"
        for path in ("/client/replay", "/clients/replay", "/client/replay/some.z", "/healthz"):
            assert httpx2.get(f"http://{base}{path}").status_code == 200
        with connect(f"ws://{base}/replay/some.z", proxy=None) as viewer:
            head, ticks = json.loads(viewer.recv()), json.loads(viewer.recv())
        assert (head["type"], head["count"], head["header"]["names"]) == ("replay", 3, ["Seat 0", "Seat 1"])
        assert [tick["drawing"] for tick in ticks["ticks"]] == ["||||", "|", ""]
        game.process.terminate()
        assert game.process.wait(20) == 0


def test_the_older_way_names_a_replay_by_request(played: Program, tmp_path: Path) -> None:
    uri = (played.place / "replay").as_uri()
    with program(tmp_path, COGAME_REPLAY_SERVER="1", COGAME_CONFIG_URI="") as game:
        base = f"127.0.0.1:{game.port}"
        assert httpx2.get(f"http://{base}/clients/replay?uri={uri}").status_code == 200
        assert httpx2.get(f"http://{base}/clients/replay?uri={tmp_path}/gone").status_code == 404
        assert httpx2.get(f"http://{base}/clients/replay").status_code == 400
        with connect(f"ws://{base}/replay?uri={uri}", proxy=None) as viewer:
            assert json.loads(viewer.recv())["type"] == "replay"
        with pytest.raises(InvalidStatus, match="404"):
            connect(f"ws://{base}/replay?uri={tmp_path}/gone", proxy=None)


def test_served_game_imports_only_what_it_needs() -> None:
    code = "import coworld_runner.kit.server.game_host, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"docker", "h11", "httpx2", "jinja2", "kubernetes_asyncio", "psutil", "yaml", "jsonschema", "rich"}
    assert not heavy & set(done.stdout.split())


def test_rules_find_only_their_file_in_sys_argv(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()\n")
    (tmp_path / "game.py").write_text(
        "import helper, sys\nfrom coworld_core.rules import Rules\nassert sys.argv == [__file__]\n"
        "class Game(Rules):\n    start = to_act = observe = step = scores = Rules.default\n"
    )
    for name in ("game.py:Game", "game:Game"):
        command = [sys.executable, "-m", "coworld_runner.kit.server", name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.stderr.startswith("COGAME_CONFIG_URI is not set"), done.stderr


def test_garbage_is_collected_once_a_game_waits() -> None:
    script = """
import gc, sys
from coworld_runner.kit.server.server_process import run_server

async def serve():
    from anyio.lowlevel import checkpoint
    starting = gc.isenabled()
    await checkpoint()
    return (starting, gc.isenabled(), gc.get_freeze_count() > 0) != (False, True, True)

sys.exit(run_server(serve))
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
