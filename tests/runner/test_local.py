"""Games and players of one's own, opened by hand: served, seated, and worked on while they play."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from support.served_game import TOKENS, Cards, Sticks, Table, hear, serving, sit, tell
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from coworld_core.errors import EpisodeError, UsageError
from coworld_core.rules import Rules
from coworld_core.rules.seat_wire import PICTURE
from coworld_runner.kit.dev import open_dev, open_served, socket_address
from coworld_runner.kit.dev.dev_page import DevControls, open_page_server
from coworld_runner.kit.dev.file_watch import changes
from coworld_runner.kit.dev.relay import SIT, WATCH, Relay
from coworld_runner.kit.server.scaffolds import new_game

KEY = "key-of-the-page"


class Led:
    """A game that is led to by a relay."""

    def __init__(self, table: Table, relay: Relay, controls: DevControls) -> None:
        self.table = table
        self.relay = relay
        self.controls = controls

    def at(self, path: str, slot: int, token: str | None = None) -> Any:
        return connect(self.controls.socket(f"{path}?slot={slot}&token={token or TOKENS[slot]}"), proxy=None)


@asynccontextmanager
async def led(rules: type[Rules] = Sticks) -> AsyncGenerator[Led]:
    async with serving(rules) as table:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            controls, relay = DevControls(f"127.0.0.1:{listener.getsockname()[1]}", KEY), Relay()
            async with open_page_server(controls, relay, lambda _: None, listener=listener):
                relay.expect(TOKENS)
                relay.lead(f"127.0.0.1:{table.port}")
                yield Led(table, relay, controls)
                relay.close()


async def until(seat: ClientConnection, **wanted: Any) -> dict[str, Any]:
    """The first message that has these fields."""
    with anyio.fail_after(30):
        while True:
            message = await hear(seat)
            if all(message.get(name) == value for name, value in wanted.items()):
                return message


async def test_watcher_of_a_seat_receives_but_cannot_act() -> None:
    async with led() as game, sit(game.table, 1), game.at(WATCH, 0) as early, game.at(SIT, 0) as player:
        await until(player, your_turn=True)
        assert (await hear(early))["type"] == "hello"
        await until(early, your_turn=True)
        async with game.at(WATCH, 0) as late:
            assert (await hear(late))["type"] == "hello"
            await until(late, your_turn=True)
            await tell(late, 0, {"take": 3})
            await tell(player, 0, {"take": 1})
            for seat in (early, late, player):
                assert (await until(seat, tick=1))["observation"] == {"left": 5}


async def test_watcher_sees_the_picture_of_a_programs_seat() -> None:
    async with led(Cards) as game, sit(game.table, 1), game.at(WATCH, 0) as looker, game.at(SIT, 0) as player:
        assert "picture" not in await until(player, your_turn=True)
        assert (await hear(looker))["type"] == "hello"
        await looker.send(PICTURE)
        seen = await until(looker, type="picture")
        assert "hearts-" in seen["picture"]
        assert await until(player, type="picture") == seen
        await tell(player, 0, {"take": 1})
        assert "5 sticks, hearts-" in (await until(looker, tick=1, type="observe"))["picture"]


async def test_a_seat_is_muted_late_and_cut_off() -> None:
    async with led() as game, sit(game.table, 1) as other:
        async with game.at(SIT, 0) as player:
            await until(player, your_turn=True)
            game.relay.seat(0).muted = True
            await tell(player, 0, {"take": 3})
            # Once the pong is back, what was said before the ping has been lost.
            await (await player.ping())
            game.relay.seat(0).muted = False
            game.relay.seat(0).delay = 0.1
            said = anyio.current_time()
            await tell(player, 0, {"take": 1})
            assert (await until(other, tick=1, your_turn=True))["observation"] == {"left": 5}
            assert anyio.current_time() - said >= 0.1
            game.relay.drop(0)
            with pytest.raises(ConnectionClosed) as lost:
                await until(player, type="never")
            assert lost.value.rcvd is None
        async with game.at(SIT, 0) as again:
            assert (await hear(again))["type"] == "hello"
            assert (await until(again, type="observe"))["tick"] == 1


async def test_connections_without_the_secret_are_refused() -> None:
    async with led() as game:
        for path in (SIT, WATCH):
            with pytest.raises(InvalidStatus, match="404"):
                await game.at(path, 0, "wrong")
        with pytest.raises(InvalidStatus, match="404"):
            await connect(game.controls.socket("/another-key/socket"), proxy=None)
        async with httpx2.AsyncClient() as http:
            page = await http.get(game.controls.link)
            assert (await http.get(game.controls.link.replace(KEY, "x"))).status_code == 404
        assert "script-src 'sha256-" in page.headers["content-security-policy"]
        assert "no-referrer" in page.headers["referrer-policy"]


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("ws://h:1/a/player?slot=0&token=x", "ws://h:1/a/player?slot=0&token=x"),
        ("http://h:1/client/player?slot=0&token=x#top", "ws://h:1/player?slot=0&token=x"),
        ("https://h/live/a/clients/player?slot=0", "wss://h/live/a/player?slot=0"),
        ("http://h/client/player?slot=0&address=https%3A%2F%2Fg%2Fplayer%3Fslot%3D1", "wss://g/player?slot=1"),
        ("http://h/client/global", None),
        ("h:1", None),
    ],
)
def test_a_seat_is_found_by_its_socket_or_its_page(address: str, found: str | None) -> None:
    if found is None:
        with pytest.raises(UsageError, match="not the address of a seat"):
            socket_address(address)
    else:
        assert socket_address(address) == found


async def test_saved_file_is_noticed_once(tmp_path: Path) -> None:
    inside, outside = tmp_path / "game" / "rules.py", tmp_path / "bot.py"
    inside.parent.mkdir()
    for path in (inside, outside):
        path.write_text("1")
    more: list[Path] = []
    seen = changes(inside.parent, lambda: more)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            found: list[frozenset[Path]] = []

            async def look() -> None:
                async for changed in seen:
                    found.append(changed)
                    if len(found) == 1:
                        # Neither what is asked for from now on nor what was compiled has been saved
                        more.append(outside)
                        (inside.parent / "__pycache__").mkdir()
                        (inside.parent / "__pycache__" / "x.py").write_text("")
                        inside.write_text("333")
                    elif len(found) == 2:
                        outside.write_text("4444")
                    else:
                        return

            tasks.start_soon(look)
            await anyio.wait_all_tasks_blocked()
            inside.write_text("22")
    assert found == [{inside}, {inside}, {outside}]


async def test_invalid_package_cannot_be_served(tmp_path: Path) -> None:
    new_game("small-game", directory=tmp_path / "game")
    with pytest.raises(UsageError, match="target"):
        async with open_served(str(tmp_path / "game" / "small_game.py"), config={"target": 0}):
            pass
    (tmp_path / "game" / "small_game.py").write_text("nothing")
    with pytest.raises(EpisodeError) as failed:
        async with open_served(str(tmp_path / "game")):
            pass
    assert "NameError: name 'nothing'" in str(failed.value.context["log_tail"])


class Page:
    """What an open page of a game that is being written would show."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.lines: list[str] = []

    async def until(self, shows: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        with anyio.fail_after(60):
            while True:
                message = json.loads(await self._connection.recv())
                if message["type"] == "log":
                    self.lines.append(f"{message['who']}: {message['text']}")
                elif shows(message):
                    return message

    async def do(self, **command: Any) -> None:
        await self._connection.send(json.dumps(command))


async def test_saved_player_restarts_in_the_same_game(tmp_path: Path) -> None:
    new_game("small-game", directory=tmp_path / "game")
    bot = tmp_path / "bot.py"
    bot.write_text("def act(observation, legal, rng):\n    raise ValueError('no idea')\n")
    async with (
        open_dev(tmp_path / "game", players=["human", str(bot)], seed=7) as dev,
        connect(dev.link.replace("http:", "ws:") + "socket", proxy=None) as connection,
    ):
        page = Page(connection)
        shown = await page.until(lambda state: state["status"] == "playing")
        assert (shown["seed"], shown["name"], shown["seats"][1]["name"]) == (7, "small-game", "bot")
        assert str(bot) in shown["choices"]
        mine = parse_qs(urlsplit(shown["seats"][0]["page"]).query)["address"][0]
        async with connect(mine, proxy=None) as person:
            await until(person, your_turn=True)
            await tell(person, 0, {"add": 1})
            await page.until(lambda state: "status 1" in state["seats"][1]["status"])
            assert any("bot.py" in line for line in page.lines)
            bot.write_text("def act(observation, legal, rng):\n    return legal[0]\n")
            assert (await until(person, tick=2))["observation"]["total"] == 2
            bot.write_text("def act(")
            await page.until(lambda state: state["seats"][1]["status"] == "failed")
            bot.write_text("def act(observation, legal, rng):\n    return legal[1]\n")
            await page.until(lambda state: state["seats"][1]["status"] == "playing")
            await tell(person, 2, {"add": 1})
            assert (await until(person, tick=4))["observation"]["total"] == 5
            # A page may ask for anything
            for nonsense in ({"do": "sit", "slot": 9, "who": "human"}, {"do": "late", "slot": 0, "seconds": -1}):
                await page.do(**nonsense)
            await page.do(do="mute", slot=1, on=True)
            await page.do(do="late", slot=1, seconds=2)
            shown = await page.until(lambda state: state["seats"][1]["late"] == 2)
            assert (shown["seats"][1]["muted"], shown["viewer"] is None) == (True, False)
    # The manifest follows the rules at each save, and keeps what was written by hand
    rules, template = tmp_path / "game" / "small_game.py", tmp_path / "game" / "coworld_manifest_template.json"
    template.write_text(template.read_text().replace("with time for people", "by hand"))
    async with (
        open_dev(tmp_path / "game", players=["random-player"]) as dev,
        connect(dev.link.replace("http:", "ws:") + "socket", proxy=None) as connection,
    ):
        page = Page(connection)
        await page.until(lambda state: len(state["seats"]) == 2 and state["status"] == "playing")
        rules.write_text(
            rules.read_text().replace("seats = 2", "seats = 3").replace("1 - self.turn", "(self.turn + 1) % 3")
        )
        await page.until(lambda state: len(state["seats"]) == 3 and state["status"] in ("playing", "over"))
    assert "by hand" in template.read_text()
    changed = {"seed": 11}
    async with (
        open_dev(tmp_path / "game", config=changed) as dev,
        connect(dev.link.replace("http:", "ws:") + "socket", proxy=None) as connection,
    ):
        assert (await Page(connection).until(lambda state: state["status"] == "playing"))["seed"] == 11
    with pytest.raises(UsageError, match='no "sed" in its config'):
        async with open_dev(tmp_path / "game", config={"sed": 11}):
            pass
    with pytest.raises(UsageError, match="no player 'nobody'"):
        async with open_dev(tmp_path / "game", players=["nobody"]):
            pass
