"""The players: how well they play on paper, and how they behave as processes."""

import asyncio
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from support.waiting import wait_until
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request
from websockets.server import ServerProtocol

from paintarena import testing
from paintarena.players import client, frontier, sweep
from paintarena.players.client import Observation
from paintarena.rules import Board
from paintarena.testing import DEADLINE, environment, running, small_config

pytestmark = pytest.mark.slow


def observation(board: Board, slot: int, *, max_ticks: int) -> Observation:
    return cast("Observation", {**board.state(), "type": "observation", "slot": slot, "max_ticks": max_ticks})


def play(first: ModuleType, second: ModuleType, *, width: int = 12, height: int = 8, ticks: int = 100) -> Board:
    board = Board(width, height, slots=2)
    for _ in range(ticks):
        moves = [p.choose(observation(board, slot, max_ticks=ticks)) for slot, p in enumerate((first, second))]
        for slot, move in enumerate(moves):
            board.hold(slot, move)
        board.step()
    return board


@pytest.mark.parametrize("slot", [0, 1])
def test_the_sweep_paints_the_whole_board(slot: int) -> None:
    board = Board(6, 5, slots=2)
    for _ in range(6 * 5):
        board.hold(slot, sweep.choose(observation(board, slot, max_ticks=30)))
        board.step()
    assert board.scores[slot] == 6 * 5 - 2, "all but its own start and the tile that the idle slot stands on"


@pytest.mark.parametrize(
    ("width", "height", "ticks"), [(12, 8, 100), (12, 8, 30), (12, 8, 20), (20, 20, 300), (5, 31, 200)]
)
def test_the_frontier_beats_the_sweep_from_either_seat(width: int, height: int, ticks: int) -> None:
    size: dict[str, int] = {"width": width, "height": height, "ticks": ticks}
    mine, other = play(frontier, sweep, **size).scores
    assert mine > other
    other, mine = play(sweep, frontier, **size).scores
    assert mine > other


def test_on_the_default_board_it_wins_clearly() -> None:
    mine, other = play(frontier, sweep).scores
    assert mine >= 2 * other
    other, mine = play(sweep, frontier).scores
    assert mine >= 2 * other


def test_the_frontier_is_deterministic() -> None:
    assert play(frontier, sweep).state() == play(frontier, sweep).state()


def test_the_frontier_does_not_linger_with_someone_who_stands_still() -> None:
    class Idle(ModuleType):
        @staticmethod
        def choose(_seen: Observation) -> str:
            return "stay"

    board = play(frontier, Idle("idle"), ticks=150)
    assert board.scores[0] >= 12 * 8 - 2


@pytest.mark.parametrize("corner", [[0, 0], [3, 3], [0, 3], [3, 0]])
def test_the_frontier_always_has_an_answer(corner: list[int]) -> None:
    seen: Any = {"slot": 0, "width": 4, "height": 4, "positions": [corner], "tile_owners": [0] * 16}
    for tick in (3, 9):
        seen |= {"tick": tick, "max_ticks": 9}
        assert frontier.choose(seen) in ("up", "down", "left", "right")


# As processes


@dataclass
class Player:
    """A player as a process."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def ended(self) -> tuple[int, str]:
        """Wait for its end; its exit code, and what it has said."""
        try:
            return self.process.wait(DEADLINE), self.log.read_text()
        finally:
            self.process.kill()
            self.process.wait()


def start(place: Path, module: str, **env: str) -> Player:
    log = place / f"{module}.log"
    with log.open("w") as output:
        name = f"paintarena.players.{module}"
        return Player(testing.start(name, env=environment(**env), output=output, errors=output), log)


@pytest.mark.parametrize("variable", ["COWORLD_PLAYER_WS_URL", "COGAMES_ENGINE_WS_URL"])
def test_both_players_play_a_game_and_leave_with_0(tmp_path: Path, variable: str) -> None:
    with running(tmp_path, config=small_config()) as server:
        players = [
            start(tmp_path, name, **{variable: server.player_url(slot)})
            for slot, name in enumerate(("sweep", "frontier"))
        ]
        outcomes = [player.ended() for player in players]
        assert server.wait() == 0
    for code, said in outcomes:
        assert code == 0, said
        assert "ends with" in said
        assert "secret" not in said


def test_without_an_address_the_player_says_which_variable_is_missing(tmp_path: Path) -> None:
    code, said = start(tmp_path, "sweep").ended()
    assert code == 1
    assert "COWORLD_PLAYER_WS_URL is not set" in said
    assert "Traceback" not in said


def test_refused_player_reports_it_at_once(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config()) as server:
        code, said = start(tmp_path, "sweep", COWORLD_PLAYER_WS_URL=server.ws("/player?slot=0&token=hush")).ended()
    assert code == 1
    assert "refused this player (HTTP 403)" in said
    assert "hush" not in said
    assert "Traceback" not in said


def test_a_player_without_a_game_gives_up_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    from paintarena.players import client

    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.2)
    with pytest.raises(client.PlayError, match=r"cannot reach the game at ws://127\.0\.0\.1:1/player: ") as caught:
        asyncio.run(client.play("ws://127.0.0.1:1/player?slot=0&token=hush", sweep.choose, name="sweep"))
    assert "hush" not in str(caught.value)


async def test_a_lost_connection_is_taken_up_again() -> None:
    from paintarena.players import client

    visits = 0
    board = Board(4, 4, slots=2)

    async def game(socket: ServerConnection) -> None:
        nonlocal visits
        visits += 1
        import json

        await socket.send(json.dumps(observation(board, 0, max_ticks=5)))
        assert json.loads(await socket.recv()) == {"move": "right"}
        if visits == 1:
            socket.transport.abort()
            return
        await socket.send(json.dumps({**observation(board, 0, max_ticks=5), "type": "final"}))

    async with serve(game, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        await client.play(f"ws://127.0.0.1:{port}/player", sweep.choose, name="sweep")
    assert visits == 2


def test_a_player_stops_on_sigterm(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config()) as server:
        player = start(tmp_path, "sweep", COWORLD_PLAYER_WS_URL=server.player_url(0))
        wait_until(lambda: "slot 0" in server.printed(), what="a player in its loop")
        player.process.terminate()
        code, _ = player.ended()
    assert code == 143


def test_a_policy_needs_no_server() -> None:
    """A player starts without the libraries of the server: they would double its start."""
    heavy = "import sys, paintarena.players.frontier; print([name for name in sys.modules if 'coworld' in name])"
    assert subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_late_move_does_not_lose_the_last_message(capsys: pytest.CaptureFixture[str]) -> None:
    """The game is over before the player has answered: observation, scores and goodbye come all at once."""

    def tell() -> None:
        connection, _ = listener.accept()
        with connection:
            protocol = ServerProtocol()
            while not (events := protocol.events_received()):
                protocol.receive_data(connection.recv(65536))
            protocol.send_response(protocol.accept(cast("Request", events[0])))
            connection.sendall(b"".join(protocol.data_to_send()))
            protocol.send_text(json.dumps({"type": "observation"}).encode())
            protocol.send_text(json.dumps({"type": "final", "slot": 1, "scores": [3, 4]}).encode())
            protocol.send_close(1000, "the game is over")
            connection.sendall(b"".join(protocol.data_to_send()))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        served = threads.submit(tell)
        asyncio.run(client.play(f"ws://127.0.0.1:{listener.getsockname()[1]}/player", lambda _: "up", name="late"))
        served.result(DEADLINE)
    assert capsys.readouterr().out == "late: slot 1 ends with 4 of [3, 4]\n"
