"""Sitting in a seat with one function: against a game of the kit where that says it, against a raw socket where not."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from support.served_game import serving, sit
from websockets.asyncio.server import ServerConnection, serve

from coworld_client.seat import SeatError, load_player, play_seat, seat_seed, seat_url
from coworld_core.errors import UsageError
from coworld_core.rules.seat_wire import MAX_MESSAGE


def greedy(observation: Any, legal: Any, rng: Any) -> Any:
    return legal[-1]


async def slow(observation: Any, legal: Any, rng: Any) -> Any:
    await anyio.lowlevel.checkpoint()
    return rng.choice(legal)


async def test_two_functions_play_a_game() -> None:
    heard: list[Any] = []
    async with serving(sticks=8) as table:
        async with anyio.create_task_group() as tasks:

            async def play(act: Any, slot: int) -> None:
                heard.append(await play_seat(act, table.url(slot), seed=1))

            tasks.start_soon(play, greedy, 0)
            tasks.start_soon(play, slow, 1)
        await table.over.wait()
    assert heard[0] == heard[1]
    assert heard[0]["reason"] == "over"


async def test_a_refused_action_is_tried_again() -> None:
    tries: list[Any] = []

    def stubborn(observation: Any, legal: Any, rng: Any) -> Any:
        tries.append(legal)
        return {"take": 9} if len(tries) < 3 else legal[-1]

    async with serving(sticks=1) as table, sit(table, 1):
        over = await play_seat(stubborn, table.url(0))
        assert over is not None
        assert (over["scores"], len(tries)) == ([1.0, 0.0], 3)


@dataclass
class Move:
    take: Any


async def test_actions_may_be_of_numpy_and_without_one_the_time_passes(capfd: pytest.CaptureFixture[str]) -> None:
    moves: list[Any] = [{"take": np.int64(2)}, {"take": {1}}, Move(take=np.array(1)), None, {"take": 1}]
    left: list[int] = []

    def act(observation: Any, legal: Any, rng: Any) -> Any:
        left.append(observation["left"])
        return moves.pop(0)

    async with serving(sticks=9, seconds_per_move=1) as table, anyio.create_task_group() as tasks:
        tasks.start_soon(play_seat, lambda observation, legal, rng: legal[0], table.url(1))
        await play_seat(act, table.url(0))
    # A seat without an action in time takes one stick
    assert left == [9, 6, 6, 4, 2]
    assert capfd.readouterr().err.splitlines() == [
        "refused in tick 2: the action is not a JSON value: a set has no order: return a list",
        "no action in tick 4, so its time passes (and that of later ticks without one)",
    ]


async def test_failing_player_is_reported_without_the_token() -> None:
    def wrong(*_: Any) -> Any:
        return {"take": 9}

    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("no idea")

    async with serving() as table, sit(table, 1):
        for act, url, code in (
            (wrong, table.url(0), "seat_hopeless"),
            (fails, table.url(0), "player_failed"),
            (lambda *_: {"take": float("nan")}, table.url(0), "seat_hopeless"),
            (greedy, table.url(0, "wrong"), "seat_refused"),
        ):
            with pytest.raises(SeatError) as failed:
                await play_seat(act, url)
            assert failed.value.code == code
            assert "token=" not in failed.value.message
    with pytest.raises(UsageError, match="not a websocket address"):
        await play_seat(greedy, "http://nowhere/?token=x")


class Counts:
    """Takes part from `hello` to `over`."""

    made: list[Counts] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.made.append(self)

    async def start(self, hello: Any) -> None:
        self.heard.append(hello["seat"])

    def act(self, observation: Any, legal: Any, rng: Any) -> Any:
        self.heard.append(observation["left"])
        return legal[0]

    def over(self, over: Any) -> None:
        self.heard.append(over["scores"])


async def test_a_class_plays_from_start_to_over() -> None:
    for _ in range(2):
        async with serving(sticks=4) as table, anyio.create_task_group() as tasks:
            tasks.start_soon(play_seat, greedy, table.url(0))
            await play_seat(Counts, table.url(1))
    assert [one.heard for one in Counts.made] == [[1, 1, [0.0, 1.0]]] * 2


async def test_a_restored_connection_brings_what_was_said_meanwhile_and_nothing_twice() -> None:
    heard: list[Any] = []

    def told(tick: int, *, seat: int = 1) -> dict[str, Any]:
        return {"tick": tick, "seat": seat, "text": f"{seat} in {tick}", "to": "all"}

    def listens(observation: Any, legal: Any, rng: Any, talk: Any) -> Any:
        heard.append([one["text"] for one in talk.heard])
        return legal[0]

    def observe(tick: int, *said: dict[str, Any], turn: bool = False) -> str:
        seen = {"tick": tick, "your_turn": turn, "observation": 0, "legal": [1], "heard": said}
        return json.dumps({"type": "observe", **seen})

    hello = {"type": "hello", "protocol": "coworld.seat/1", "seat": 0}

    async def is_lost(connection: ServerConnection) -> None:
        await connection.send(json.dumps({**hello, "talked": [told(0), told(1, seat=0), told(1)]}))
        await connection.send(observe(3, told(2)))
        await (await connection.ping())
        connection.transport.abort()

    async def comes_back(connection: ServerConnection) -> None:
        before = [told(tick, seat=seat) for tick in range(4) for seat in range(2)]
        await connection.send(json.dumps({**hello, "talked": [*before, told(5, seat=0)]}))
        await connection.send(observe(5, told(4)))
        await connection.send(observe(5, told(4), turn=True))
        await connection.recv()
        await connection.send(observe(6, told(5), turn=True))
        await connection.recv()
        await connection.send('{"type": "over", "scores": [1]}')

    async with answering(is_lost, comes_back) as url:
        assert await play_seat(listens, url) == {"type": "over", "scores": [1]}
    assert heard == [[f"1 in {tick}" for tick in range(5)], ["1 in 5"]]


async def test_session_player_reconnects() -> None:
    """Nothing of ours is assumed: these messages have no type."""
    heard: list[Any] = []

    async def drops(connection: ServerConnection) -> None:
        await connection.send("[1]")
        assert await connection.recv() == '"one"'
        connection.transport.abort()

    async def goes_on(connection: ServerConnection) -> None:
        await connection.send("2")

    async def no_json(connection: ServerConnection) -> None:
        await connection.send("nothing")

    async def play(seat: Any) -> None:
        async for message in seat:
            heard.append(message)
            await seat.send("one")

    async def fails(seat: Any) -> None:
        raise ZeroDivisionError

    async with answering(drops, goes_on, no_json, goes_on) as url:
        assert await play_seat(play, url) is None
        assert heard == [[1], 2]
        for player, says in ((play, "not JSON"), (fails, "ZeroDivisionError")):
            with pytest.raises(SeatError, match=says):
                await play_seat(player, url)


@asynccontextmanager
async def answering(*connections: Callable[[ServerConnection], Awaitable[None]]) -> AsyncGenerator[str]:
    """A game that treats its first connection one way and its next another."""
    left = list(connections)

    async def connected(connection: ServerConnection) -> None:
        await left.pop(0)(connection)

    async with serve(connected, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/player"


ASK = json.dumps({"type": "observe", "tick": 4, "observation": 7, "your_turn": True, "legal": [1], "later": "word"})


async def test_a_lost_connection_is_taken_up_again() -> None:
    async def drops(connection: ServerConnection) -> None:
        await connection.send(ASK)
        connection.transport.abort()

    async def goes_on(connection: ServerConnection) -> None:
        await connection.send('{"type": "news of a later version"}')
        await connection.send(ASK)
        assert json.loads(await connection.recv()) == {"type": "act", "tick": 4, "action": 1}
        await connection.send('{"type": "over", "scores": [1]}')

    async with answering(drops, goes_on) as url:
        assert await play_seat(greedy, url) == {"type": "over", "scores": [1]}


async def test_a_message_that_is_too_long_ends_the_player() -> None:
    async def endless(connection: ServerConnection) -> None:
        await connection.send(" " * (MAX_MESSAGE + 1))
        await connection.wait_closed()

    async def just_fits(connection: ServerConnection) -> None:
        await connection.send('{"type": "over", "scores": [1]}'.ljust(MAX_MESSAGE))

    async def play(seat: Any) -> None:
        async for _ in seat:
            pass

    async with answering(endless, endless, just_fits) as url:
        for player in (greedy, play):
            with pytest.raises(SeatError, match=r"has sent a message of more than 16 MiB\.") as failed:
                await play_seat(player, f"{url}?token=s3cret")
            assert failed.value.code == "message_too_long"
            assert "s3cret" not in str(failed.value)
        assert await play_seat(greedy, url) == {"type": "over", "scores": [1]}


async def test_late_player_answers_once_for_the_current_tick() -> None:
    late = json.dumps({"type": "refused", "tick": 4, "reason": "too late: tick 3 is over", "legal": [1]})
    heard: list[Any] = []

    async def is_ahead(connection: ServerConnection) -> None:
        await connection.send(ASK)
        for _ in range(30):
            await connection.send(late)
        await connection.send('{"type": "over", "scores": [1]}')
        heard.extend([json.loads(message) async for message in connection])

    async with answering(is_ahead) as url:
        assert await play_seat(greedy, url) == {"type": "over", "scores": [1]}
    assert heard == [{"type": "act", "tick": 4, "action": 1}]


async def test_a_refusal_that_quotes_the_word_late_is_not_a_late_one() -> None:
    reason = 'not legal now (sent was "chocolate"; legal is for example 1)'
    heard: list[Any] = []

    async def asks_again(connection: ServerConnection) -> None:
        await connection.send(ASK)
        await connection.send(json.dumps({"type": "refused", "tick": 4, "reason": reason, "legal": [1]}))
        heard.extend([json.loads(await connection.recv()) for _ in range(2)])
        await connection.send('{"type": "over", "scores": [1]}')

    async with answering(asks_again) as url:
        assert await play_seat(greedy, url) == {"type": "over", "scores": [1]}
    assert heard == [{"type": "act", "tick": 4, "action": 1}] * 2


async def test_game_ending_during_a_decision_is_not_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coworld_client.seat.connection.CONNECT_SECONDS", 0.2)
    closed = anyio.Event()

    async def says_it_all(connection: ServerConnection) -> None:
        await connection.send(ASK)
        await connection.send('{"type": "over", "scores": [1]}')
        connection.transport.abort()
        closed.set()

    async def thinks(*_: Any) -> int:
        await closed.wait()
        # The news has come in, unread, when this answers.
        await anyio.wait_all_tasks_blocked()
        return 1

    async with answering(says_it_all) as url:
        assert await play_seat(thinks, url) == {"type": "over", "scores": [1]}

    async with serve(lambda connection: connection.send(ASK), "127.0.0.1", 0) as server:

        async def gone(*_: Any) -> int:
            for connection in list(server.connections):
                connection.transport.abort()
            server.close()
            await server.wait_closed()
            return 1

        assert await play_seat(gone, f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/player") is None


async def test_orderly_close_ends_the_game() -> None:
    async def closes(connection: ServerConnection) -> None:
        await connection.send('{"type": "hello", "protocol": "coworld.seat/1"}')

    async def speaks_otherwise(connection: ServerConnection) -> None:
        await connection.send('{"type": "hello", "protocol": "chess/1"}')

    async def has_its_own(connection: ServerConnection) -> None:
        await connection.send('{"type": "observation", "tick": 0}')

    async def sends_lists(connection: ServerConnection) -> None:
        await connection.send("[1]")

    async with answering(closes, speaks_otherwise, has_its_own, sends_lists) as url:
        assert await play_seat(greedy, url) is None
        with pytest.raises(SeatError, match="speaks 'chess/1'"):
            await play_seat(greedy, url)
        for sent in ('{"type": "observation", "tick": 0}', "[1]"):
            with pytest.raises(SeatError, match=re.escape(f"this player has not acted. It sent: {sent}")):
                await play_seat(greedy, url)


def test_players_are_files_or_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "beside_it.py").write_text("ANSWER = 42")
    (tmp_path / "bot_of_test.py").write_text("from beside_it import ANSWER\ndef act(*_): return ANSWER\nother = act")
    for name in (f"{tmp_path}/bot_of_test.py", f"{tmp_path}/bot_of_test.py:other", "bot_of_test", "bot_of_test:other"):
        assert load_player(name)(None, None, None) == 42  # type: ignore[arg-type]
    for name in (f"{tmp_path}/none.py", "no_such_bot", f"{tmp_path}/bot_of_test.py:ANSWERS"):
        with pytest.raises(UsageError):
            load_player(name)


def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COWORLD_PLAYER_WS_URL", "COGAMES_ENGINE_WS_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="COWORLD_PLAYER_WS_URL is not set"):
        seat_url()
    monkeypatch.setenv("COGAMES_ENGINE_WS_URL", "ws://older")
    assert seat_url() == "ws://older"
    monkeypatch.setenv("COWORLD_PLAYER_WS_URL", "ws://present")
    assert seat_url() == "ws://present"


async def test_the_seed_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []

    def act(observation: Any, legal: Any, rng: Any) -> Any:
        drawn.append(rng.random())
        return legal[0]

    async def session(seat: Any) -> None:
        drawn.append(seat.rng.random())

    monkeypatch.setenv("COWORLD_PLAYER_SEED", "5")
    async with serving(sticks=1) as table, sit(table, 1):
        await play_seat(session, table.url(0))
        await play_seat(act, table.url(0))
    assert drawn == [random.Random(5).random()] * 2
    monkeypatch.setenv("COWORLD_PLAYER_SEED", "five")
    with pytest.raises(UsageError, match="COWORLD_PLAYER_SEED is 'five'"):
        seat_seed()
    monkeypatch.delenv("COWORLD_PLAYER_SEED")
    assert seat_seed() is None


@pytest.mark.parametrize(
    ("bot", "code", "says"),
    [
        ("def act(observation, legal, rng):\n    return legal[0]", 0, "over: scores [0.0, 1.0]"),
        (
            "import argparse, pickle, sys\nargparse.ArgumentParser().parse_args()\nassert sys.argv == [__file__]\n"
            "class Kept: pass\nassert isinstance(pickle.loads(pickle.dumps(Kept())), Kept)\n"
            "def act(observation, legal, rng):\n    import bot\n    return legal[0] if bot.act is act else None",
            0,
            "over: scores [0.0, 1.0]",
        ),
        ("def act(observation, legal, rng):\n    return observation.nothing", 1, "The player failed in tick 0"),
        ("def move(): pass", 2, "has no function act"),
    ],
)
async def test_the_program_ends_with_the_right_status(tmp_path: Path, bot: str, code: int, says: str) -> None:
    (tmp_path / "bot.py").write_text(bot)
    async with serving(sticks=2) as table, anyio.create_task_group() as tasks:
        tasks.start_soon(play_seat, slow, table.url(1))
        done = await anyio.run_process(
            [sys.executable, "-m", "coworld_client.seat", "bot.py"],
            cwd=tmp_path,
            env={**os.environ, "COWORLD_PLAYER_WS_URL": table.url(0)},
            stderr=subprocess.STDOUT,
            check=False,
        )
        tasks.cancel_scope.cancel()
    assert says in done.stdout.decode()
    assert done.returncode == code


def test_seat_player_imports_only_what_it_needs() -> None:
    code = "import coworld_client.seat.seat_session, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"anyio", "pydantic", "httpx2", "yaml", "coworld_core.rules.game"} & set(done.stdout.split())
