"""A player in JavaScript, as `coworld init player bot.mjs` writes it, against a game of the kit and raw sockets."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from support.served_game import Talk, serving, sit
from websockets.asyncio.server import ServerConnection, serve

from coworld_runner.kit.server.scaffolds import new_player

pytestmark = pytest.mark.node


@pytest.fixture
def bot(tmp_path: Path) -> Path:
    made = new_player(tmp_path / "bot.mjs")
    return made.directory / made.paths[0]


def with_act(bot: Path, body: str) -> None:
    pattern = r"(?<=function act\(observation, legal, random\) \{\n).*?(?=\n\})"
    bot.write_text(re.sub(pattern, body, bot.read_text(), count=1, flags=re.S))


async def play(bot: Path, url: str, **variables: str) -> tuple[int, str]:
    env = {"PATH": os.environ["PATH"], "COWORLD_PLAYER_WS_URL": url, **variables}
    done = await anyio.run_process([str(bot)], env=env, check=False, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode()


async def test_javascript_player_plays_a_game(bot: Path) -> None:
    async with serving(sticks=8) as table, anyio.create_task_group() as tasks:

        async def seated(slot: int) -> None:
            assert await play(bot, table.url(slot)) == (0, "")

        tasks.start_soon(seated, 0)
        tasks.start_soon(seated, 1)
        await table.over.wait()


async def test_javascript_player_lets_the_time_pass_where_no_actions_are_listed(bot: Path) -> None:
    async with serving(Talk, sticks=2, seconds_per_move=0.1) as table, sit(table, 1):
        assert await play(bot, table.url(0)) == (0, "")


async def test_javascript_player_reports_failures(bot: Path) -> None:
    async with serving(sticks=8) as table, sit(table, 1):
        with_act(bot, "throw new Error('no idea')")
        status, said = await play(bot, table.url(0))
        assert (status, "no idea" in said) == (1, True)
        status, said = await play(bot, table.url(0, "wrong"))
        assert (status, "status 403" in said) == (1, True)
        assert "wrong" not in said
        with_act(bot, "return { take: 9 }")
        status, said = await play(bot, table.url(0))
        assert (status, said.count("refused in tick 0")) == (1, 21)


@asynccontextmanager
async def answering(*scripts: list[str | bytes]) -> AsyncGenerator[tuple[str, list[str]]]:
    """A game that says one thing after another to each connection, and hears an answer where it asks."""
    left, heard = [*scripts], list[str]()

    async def connected(connection: ServerConnection) -> None:
        for said in left.pop(0):
            if said == b"":
                connection.transport.abort()
                return
            if isinstance(said, bytes):
                await connection.ping(said)
                continue
            await connection.send((said[:5], said[5:]) if len(said) > 5 else said)
            if "your_turn" in said:
                heard.append(str(await connection.recv()))

    async with serve(connected, "127.0.0.1", 0, compression=None) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/player", heard


async def test_javascript_player_draws_the_same_numbers_for_the_same_seed(bot: Path) -> None:
    with_act(bot, "return [random(), random()]")
    asked = json.dumps({"type": "observe", "tick": 1, "observation": 0, "your_turn": True})
    script = ['{"type": "hello", "protocol": "coworld.seat/1"}', asked, '{"type": "over", "scores": [1]}']
    async with answering(*[[*script] for _ in range(5)]) as (url, heard):
        for seed in ("7", "7", "8", "", ""):
            assert await play(bot, url, COWORLD_PLAYER_SEED=seed) == (0, "")
    drawn = [json.loads(said)["action"] for said in heard]
    assert drawn[0] == drawn[1]
    assert len({str(pair) for pair in drawn}) == 4
    assert all(0 <= number < 1 and pair[0] != pair[1] for pair in drawn for number in pair)


async def test_frames_of_all_kinds_and_a_lost_connection(bot: Path) -> None:
    with_act(bot, "return { observation, legal }")
    asked = {"type": "observe", "tick": 1, "observation": "y" * 70_000, "legal": ["\u00e9"], "your_turn": True}
    ask, over = json.dumps(asked), '{"type": "over", "scores": [1]}'
    hello = '{"type": "hello", "protocol": "coworld.seat/1"}'
    async with answering([hello, b"still there?", ask, b""], [hello, ask, '{"type": "news"}', over]) as (url, heard):
        assert await play(bot, url) == (0, "")
    answer = {"type": "act", "tick": 1, "action": {"observation": asked["observation"], "legal": ["\u00e9"]}}
    assert [json.loads(said) for said in heard] == [answer, answer]
    for first in ('{"type":"hello","protocol":"chess/1"}', '{"type":"observation","tick":0}'):
        async with answering([first]) as (url, _):
            status, said = await play(bot, url)
            assert (status, f"the game does not speak coworld.seat/1, but: {first}" in said) == (1, True)
    # Closed in good order
    async with answering([hello]) as (url, _):
        assert await play(bot, url) == (0, "")
