"""Websockets to games: straight to the address that was asked for, wherever the game would rather have us go.

A game in a closed network that redirects its viewers would otherwise have the runner, which is in no such network, call
whomever it names, with whatever it has to say in the query.
"""

from __future__ import annotations

from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from coworld_core.terminal import strip_controls

__all__ = ["MESSAGE_LIMIT", "game_socket", "hear", "words_of"]

MESSAGE_LIMIT = 256 * 1024 * 1024
"""Bytes of one viewer message; a whole replay may come as one."""


class _Straight(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow none: what it answered is what comes of it."""
        return exc


def game_socket(address: str, target: str, **options: Any) -> connect:
    """A connection to a game, as an async context manager.

    Args:
        address: ``host:port``.
        target: Path and query.
        options: More of ``websockets.asyncio.client.connect``.

    Raises:
        InvalidHandshake, OSError, EOFError, TimeoutError: On entering: it lets nobody in. A redirect is an
            ``InvalidStatus``.
    """
    options.setdefault("max_size", MESSAGE_LIMIT)
    # never through a proxy: the address is this machine's own
    return _Straight(f"ws://{address}{target}", proxy=None, **options)


async def hear(socket: ClientConnection) -> str:
    """Wait for a message, of which no more than ``max_size`` is read, and say how long it is; empty if it is empty.

    Raises:
        ConnectionClosed: It is closed without one.
    """
    try:
        message = await socket.recv()
    except ConnectionClosed as error:
        # what is announced as longer is a message all the same: the rest was not waited for
        if error.sent is None or error.sent.code != CloseCode.MESSAGE_TOO_BIG or error.rcvd_then_sent:
            raise
        return "more bytes than are read"
    return f"{len(message)} bytes" if message else ""


def words_of(error: BaseException) -> str:
    """Why a connection failed, in one line: the reason for a close is in the game's own words."""
    return " ".join(strip_controls(str(error)).split()) or type(error).__name__
