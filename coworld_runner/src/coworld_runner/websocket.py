"""Websockets to games, which connect only to the given address and follow no redirects.

A game in a closed network could otherwise use a redirect to make the runner, which is not in that network, send data of
the game's choice to any host.
"""

from __future__ import annotations

from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from coworld_core.terminal import strip_controls

__all__ = ["MESSAGE_LIMIT", "game_socket", "hear", "words_of"]

MESSAGE_LIMIT = 256 * 1024 * 1024
"""Maximum bytes of one viewer message; a whole replay may be one message."""


class _Straight(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow no redirect: report the response itself."""
        return exc


def game_socket(address: str, target: str, **options: Any) -> connect:
    """Connect to a game; returns an async context manager.

    Args:
        address: ``host:port``.
        target: Path and query.
        options: Further options of ``websockets.asyncio.client.connect``.

    Raises:
        InvalidHandshake, OSError, EOFError, TimeoutError: On entering: the connection failed. A redirect raises
            ``InvalidStatus``.
    """
    options.setdefault("max_size", MESSAGE_LIMIT)
    # never through a proxy: the address is on this machine
    return _Straight(f"ws://{address}{target}", proxy=None, **options)


async def hear(socket: ClientConnection) -> str:
    """Wait for a message and return its length in words; an empty string for an empty message.

    A message longer than ``max_size`` is not read to its end.

    Raises:
        ConnectionClosed: The connection is closed without a message.
    """
    try:
        message = await socket.recv()
    except ConnectionClosed as error:
        # a message that is too long still counts as one, although it was not read
        if error.sent is None or error.sent.code != CloseCode.MESSAGE_TOO_BIG or error.rcvd_then_sent:
            raise
        return "more bytes than are read"
    return f"{len(message)} bytes" if message else ""


def words_of(error: BaseException) -> str:
    """Return why a connection failed, in one line, without control sequences: a close reason is the game's own text."""
    return " ".join(strip_controls(str(error)).split()) or type(error).__name__
