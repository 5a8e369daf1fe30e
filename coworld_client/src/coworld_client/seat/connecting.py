"""Reaching the game, at the start and again after a lost connection."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from coworld_core.errors import CoworldError, UsageError
from coworld_core.rules.wire import MAX_MESSAGE
from coworld_core.sizes import shown_size

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["CONNECT_SECONDS", "SeatError", "connected", "received"]

CONNECT_SECONDS: Final = 8.0
"""How long to try to reach the game, at the start and again after a lost connection."""


class SeatError(CoworldError):
    """The player could not take part to the end; the message says why, without its token."""

    kind = "remote"
    default_code = "seat_lost"


async def connected(url: str) -> ClientConnection:
    """Connect to the game at an address, trying for ``CONNECT_SECONDS``.

    Raises:
        SeatError: The game cannot be reached, or refuses this player.
        UsageError: The address is not a websocket address.
    """
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

    deadline = time.monotonic() + CONNECT_SECONDS
    place = _place(url)
    pause = 0.05
    while True:
        try:
            # Older games do not answer pings.
            return await connect(url, ping_timeout=None, max_size=MAX_MESSAGE, compression=None, proxy=None)
        except InvalidStatus as refusal:
            status = refusal.response.status_code
            if status < 500:
                raise SeatError(
                    f"{place} refused this player (HTTP {status}): slot or token is wrong.", code="seat_refused"
                ) from None
            problem = f"HTTP {status}"
        except InvalidURI:
            raise UsageError(f"{place} is not a websocket address.", code="no_seat") from None
        except (OSError, InvalidHandshake, EOFError) as error:
            problem = str(error) or type(error).__name__
        if time.monotonic() + pause > deadline:
            raise SeatError(f"Cannot reach the game at {place}: {problem}.")
        await asyncio.sleep(pause)
        pause = min(pause * 2, 1.0)


async def received(socket: ClientConnection, url: str) -> str | bytes:
    """Wait for the next message of the game at an address.

    Raises:
        ConnectionClosed: The connection is closed without one.
        SeatError: The message is longer than ``MAX_MESSAGE`` (``message_too_long``).
    """
    from websockets.exceptions import ConnectionClosedError
    from websockets.frames import CloseCode

    try:
        return await socket.recv()
    except ConnectionClosedError as error:
        if error.sent is None or error.sent.code != CloseCode.MESSAGE_TOO_BIG or error.rcvd_then_sent:
            raise
        raise SeatError(
            f"The game at {_place(url)} has sent a message of more than {shown_size(MAX_MESSAGE)}.",
            code="message_too_long",
            hint="A player reads messages of up to that size: the game should send less at a time.",
        ) from None


def _place(url: str) -> str:
    """An address without its token."""
    return urlsplit(url)._replace(query="", fragment="").geturl()
