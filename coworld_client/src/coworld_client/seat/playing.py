"""The player's end of `coworld.seat/1`: connect, answer each observation that asks for it, leave when it is over."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import random
import sys
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from coworld_core.errors import CoworldError, UsageError
from coworld_core.rules import Act, load_act
from coworld_core.rules.wire import PROTOCOL

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["Act", "SeatError", "load_act", "play_seat", "seat_url"]

URL_VARIABLES: Final = ("COWORLD_PLAYER_WS_URL", "COGAMES_ENGINE_WS_URL")
"""Where a runner leaves the address of the game: the present name and the older one."""

CONNECT_SECONDS: Final = 8.0
"""How long to try to reach the game, at the start and again after a lost connection."""

MAX_REFUSED: Final = 20
"""Actions that may be refused, but for late ones, before a player is taken for hopeless."""


class SeatError(CoworldError):
    """The player could not take part to the end; the message says why, without its token."""

    kind = "remote"
    default_code = "seat_lost"


def seat_url() -> str:
    """The address that the runner gave, token and all.

    Raises:
        UsageError: None was given.
    """
    for variable in URL_VARIABLES:
        if url := os.environ.get(variable):
            return url
    raise UsageError(f"{URL_VARIABLES[0]} is not set; a runner sets it to the address of the game.", code="no_seat")


async def play_seat(act: Act, url: str, *, seed: int | None = None) -> dict[str, Any] | None:
    """Play one game to its end; a lost connection is taken up again.

    Args:
        act: The player.
        url: The address of its seat.
        seed: The seed of the player's `rng`; by default any.

    Returns:
        The game's last message, `over`; or None where the game has closed the connection in good order without it, or
        is gone after this player has sat in it: a game that ends while a slow player speaks may end unheard.

    Raises:
        SeatError: The game cannot be reached, refuses this player, speaks another protocol, or has refused too many of
            its actions; or `act` raised, which is then the cause.
    """
    from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK

    player = _Player(act, random.Random(seed))
    while True:
        try:
            socket = await _connected(url)
        except SeatError as error:
            if player.seated and error.code == SeatError.default_code:
                print(error.message, file=sys.stderr, flush=True)
                return None
            raise
        try:
            async with socket:
                return await player.converse(socket)
        except ConnectionClosedOK:
            return None
        except ConnectionClosedError:
            print("connection lost, trying again", file=sys.stderr, flush=True)


class _Player:
    def __init__(self, act: Act, rng: random.Random) -> None:
        self._act = act
        self._rng = rng
        self._refused = 0
        self._asked: dict[str, Any] | None = None
        self.seated = False
        """Whether the game has spoken to it."""

    async def converse(self, socket: ClientConnection) -> dict[str, Any]:
        while True:
            message: Any = json.loads(await socket.recv())
            self.seated = True
            match message.get("type"):
                case "hello":
                    if (protocol := message.get("protocol")) != PROTOCOL:
                        raise SeatError(f"The game speaks {protocol!r}, this player {PROTOCOL}.", code="other_protocol")
                case "observe" if message.get("your_turn"):
                    self._asked = message
                    await self._answer(socket)
                case "refused":
                    await self._heed(socket, message)
                case "over":
                    return message
                case _:
                    # What later versions add concerns later players.
                    pass

    async def _heed(self, socket: ClientConnection, message: dict[str, Any]) -> None:
        print(f"refused in tick {message.get('tick')}: {message.get('reason')}", file=sys.stderr, flush=True)
        asked = self._asked
        if asked is None or message.get("tick") != asked.get("tick") or not message.get("legal"):
            return
        self._refused += 1
        if self._refused > MAX_REFUSED:
            raise SeatError(f"The game has refused {self._refused} actions.", code="seat_hopeless")
        # There is still time: another try, with what is legal.
        asked["legal"] = message["legal"]
        await self._answer(socket)

    async def _answer(self, socket: ClientConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        asked = self._asked
        assert asked is not None
        try:
            action = self._act(asked["observation"], asked.get("legal"), self._rng)
            if inspect.isawaitable(action):
                action = await action
            text = json.dumps({"type": "act", "tick": asked["tick"], "action": action}, allow_nan=False)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise SeatError(f"The player failed in tick {asked['tick']}: {said}", code="player_failed") from error
        # What the game said before it closed, `over` perhaps, is still to be read; and then, how it closed.
        with contextlib.suppress(ConnectionClosed):
            await socket.send(text)


async def _connected(url: str) -> ClientConnection:
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

    deadline = time.monotonic() + CONNECT_SECONDS
    place = urlsplit(url)._replace(query="", fragment="").geturl()
    pause = 0.05
    while True:
        try:
            # Games of older kinds do not answer pings, and observations have no limit.
            return await connect(url, ping_timeout=None, max_size=None, compression=None, proxy=None)
        except InvalidStatus as refusal:
            status = refusal.response.status_code
            if status < 500:
                raise SeatError(
                    f"{place} refused this player (HTTP {status}): slot or token is wrong.", code="seat_refused"
                ) from None
            problem = f"HTTP {status}"
        except InvalidURI:
            raise UsageError(f"{place} is no websocket address.", code="no_seat") from None
        except (OSError, InvalidHandshake, EOFError) as error:
            problem = str(error) or type(error).__name__
        if time.monotonic() + pause > deadline:
            raise SeatError(f"Cannot reach the game at {place}: {problem}.")
        await asyncio.sleep(pause)
        pause = min(pause * 2, 1.0)
