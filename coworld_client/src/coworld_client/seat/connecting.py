"""Reaching the game, at the start and again after a lost connection."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from coworld_core.errors import CoworldError, UsageError

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["CONNECT_SECONDS", "SeatError", "connected"]

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
    place = urlsplit(url)._replace(query="", fragment="").geturl()
    pause = 0.05
    while True:
        try:
            # Older games do not answer pings, and observations may have any size.
            return await connect(url, ping_timeout=None, max_size=None, compression=None, proxy=None)
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
