"""The part that all players share: connect, answer each observation with a move, and leave when the game is over.

A player's process exits with 0 after the game, or with 1 and a one-line reason if it could not play.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Final, NotRequired, TypedDict
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidHandshake, InvalidStatus, InvalidURI

from paintarena.rules import Action

URL_VARIABLES: Final = ("COWORLD_PLAYER_WS_URL", "COGAMES_ENGINE_WS_URL")
"""Variables in which a runner passes the address of the game: the current name and the older one."""

CONNECT_SECONDS: Final = 8.0
"""How long to try to reach the game, at the start and after each lost connection."""

MAX_MESSAGE: Final = 16 * 1024 * 1024


class Observation(TypedDict):
    """The message that a player gets each tick; tile `(x, y)` has the index `y * width + x`, and owner -1 means none.

    It also has `tick_rate`, the names and the flags of a snapshot, which these players do not need.
    """

    type: str
    slot: int
    width: int
    height: int
    positions: list[list[int]]
    tile_owners: list[int]
    scores: list[int]
    tick: int
    max_ticks: int
    message: NotRequired[str]


Policy = Callable[[Observation], Action]


class PlayError(Exception):
    """The player could not take part; the message says why, and never shows the token."""


def main(policy: Policy, *, name: str) -> None:
    """Play one game with `policy` and end the process.

    Args:
        policy: Chooses an action from an observation.
        name: The player's name in its log.
    """
    # The first process of a container ignores SIGTERM unless it has a handler.
    signal.signal(signal.SIGTERM, _stop)
    try:
        url = game_url()
        asyncio.run(play(url, policy, name=name))
    except PlayError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def game_url() -> str:
    """Return the address of the game that the runner passed.

    Raises:
        PlayError: The runner passed none.
    """
    for variable in URL_VARIABLES:
        if url := os.environ.get(variable):
            return url
    raise PlayError(f"{URL_VARIABLES[0]} is not set; a runner sets it to the address of the game")


async def play(url: str, policy: Policy, *, name: str) -> None:
    """Play until the game is over, reconnecting whenever the connection is lost.

    Raises:
        PlayError: The game cannot be reached, or refuses this player.
    """
    while True:
        socket = await _connected(url)
        try:
            async with socket:
                await _converse(socket, policy, name=name)
                return
        except ConnectionClosedError:
            print(f"{name}: connection lost, trying again", flush=True)


async def _converse(socket: ClientConnection, policy: Policy, *, name: str) -> None:
    """Answer observations until the end of the game."""
    async for text in socket:
        message: Observation = json.loads(text)
        match message["type"]:
            case "observation":
                # The game may be over by now; its last messages are still to be read.
                with contextlib.suppress(ConnectionClosedOK):
                    await socket.send(json.dumps({"move": policy(message)}))
            case "final":
                scores = message["scores"]
                print(f"{name}: slot {message['slot']} ends with {scores[message['slot']]} of {scores}", flush=True)
                return
            case "error":
                print(f"{name}: the game says: {message.get('message', '')}", file=sys.stderr, flush=True)
            case _:
                pass
    reason = f": {socket.close_reason}" if socket.close_reason else ""
    print(f"{name}: the game closed the connection{reason}", flush=True)


async def _connected(url: str) -> ClientConnection:
    deadline = time.monotonic() + CONNECT_SECONDS
    place = urlsplit(url)._replace(query="", fragment="").geturl()
    pause = 0.05
    while True:
        try:
            # Older games do not answer pings, and a proxy of the image's does not know the game.
            return await connect(url, ping_timeout=None, max_size=MAX_MESSAGE, compression=None, proxy=None)
        except InvalidStatus as refusal:
            status = refusal.response.status_code
            if status < 500:
                raise PlayError(f"{place} refused this player (HTTP {status}): slot or token is wrong") from None
            problem = f"HTTP {status}"
        except InvalidURI:
            raise PlayError(f"{place} is not a websocket address") from None
        except (OSError, InvalidHandshake, EOFError) as error:
            problem = str(error) or type(error).__name__
        if time.monotonic() + pause > deadline:
            raise PlayError(f"cannot reach the game at {place}: {problem}")
        await asyncio.sleep(pause)
        pause = min(pause * 2, 1.0)


def _stop(number: int, _frame: object) -> None:
    sys.exit(128 + number)
