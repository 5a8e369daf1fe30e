"""A game on one machine and its players on another, with a network between them that can fail."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from support.certificates import Authority
from support.cli_kit import environment
from support.two_machines import Machine, Running, two_machines

pytestmark = pytest.mark.networks

NIM = Path(__file__).parents[2] / "examples/nim"
BOT = "def act(observation, legal, rng):\n    return legal[-1]\n"

TALKER = """
import asyncio, sys
from coworld_client.seat import SeatError, connection, play_seat
from coworld_client.tls import tls_context

# So that a test need not wait for half a minute
connection.LOST_SECONDS = connection.CONNECT_SECONDS = 2.0

async def play(seat):
    async for message in seat:
        print(message["type"], flush=True)
        await seat.send("something that the game refuses")

try:
    asyncio.run(play_seat(play, sys.argv[1], ssl=tls_context(ca=sys.argv[2])))
except SeatError as error:
    sys.exit(f"{error.code}: {error}")
"""


@pytest.fixture
def machines() -> Generator[tuple[Machine, Machine]]:
    # Less than what a message of the game, or its page, needs: they are sent in parts
    with two_machines(mtu=600) as both:
        yield both


def start(machine: Machine, *words: str | Path, output: Path, directory: Path) -> Running:
    """Start Python on a machine."""
    env = environment({"PYTHONUNBUFFERED": "1"})
    return machine.start(sys.executable, *words, output=output, directory=directory, env=env)


def coworld(machine: Machine, *words: str | Path, output: Path, directory: Path) -> Running:
    """Start a command on a machine."""
    return start(machine, "-m", "coworld_cli", *words, output=output, directory=directory)


def links(game: Running, server: Machine) -> list[str]:
    """The links of the seats, once the game is there."""
    return re.findall(rf"https://{server.address}:\d+/client/player\S+", game.until_printed("/client/global"))


def test_an_episode_with_players_of_another_machine(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    server, players = machines
    authority = Authority(tmp_path)
    (tmp_path / "bot.py").write_text(BOT)
    where = ("--host", server.address, "--tls-cert", authority.issue(server.address))
    game = coworld(
        server,
        *("play", NIM, "--backend", "process", "--human", "0", "--human", "1", "-o", tmp_path / "run", *where),
        *("--no-open-browser", "--seed", "3"),
        output=tmp_path / "game.log",
        directory=tmp_path,
    )
    seated = [
        coworld(
            players,
            *("game", "join", link, "./bot.py", "--ca", "authority.pem"),
            output=tmp_path / f"{slot}.log",
            directory=tmp_path,
        )
        for slot, link in enumerate(links(game, server))
    ]
    assert [seat.end() for seat in seated] == [0, 0], [seat.printed for seat in seated]
    assert game.end() == 0, game.printed
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert sorted(results["scores"]) == [0, 1]
    assert f"over: scores {results['scores']}" in seated[0].printed
    assert json.loads((tmp_path / "run/episode.json").read_text())["status"] == "completed"


def test_a_cable_that_is_pulled_out_is_said_and_the_seat_is_kept(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    server, players = machines
    authority = Authority(tmp_path)
    (tmp_path / "bot.py").write_text(BOT)
    where = ("--host", server.address, "--tls-cert", authority.issue(server.address))
    game = coworld(
        server, "game", "serve", NIM, "--no-open-browser", *where, output=tmp_path / "game.log", directory=tmp_path
    )
    first, second = links(game, server)
    socket = first.replace("https:", "wss:").replace("/client/", "/")
    talker = start(players, "-c", TALKER, socket, authority.file, output=tmp_path / "talker.log", directory=tmp_path)
    talker.until_printed("refused")
    server.cable("down")
    assert talker.end() == 1
    assert "link_lost: The network between here and the game is gone." in talker.printed
    assert "Cannot reach the game at wss://" in talker.printed
    assert "join again when the network is back" in talker.printed
    assert "token=" not in talker.printed
    # Without a network, a new player is told so, too
    alone = coworld(
        players,
        *("game", "join", first, "./bot.py", "--ca", "authority.pem"),
        output=tmp_path / "alone.log",
        directory=tmp_path,
    )
    assert alone.end() == 1
    assert "Cannot reach the game at wss://" in alone.printed
    server.cable("up")
    seated = [
        coworld(
            players,
            *("game", "join", link, "./bot.py", "--ca", "authority.pem"),
            output=tmp_path / f"{slot}.log",
            directory=tmp_path,
        )
        for slot, link in enumerate((first, second))
    ]
    assert [seat.end() for seat in seated] == [0, 0], [seat.printed for seat in seated]
    assert game.end() == 0, game.printed
    assert "over: scores" in seated[0].printed
