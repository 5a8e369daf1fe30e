"""Websockets to games, which connect only to the given address and follow no redirects.

A game in a closed network could otherwise use a redirect to make the runner, which is not in that network, send data of
the game's choice to any host.
"""

from __future__ import annotations

from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from coworld_core.text.terminal import strip_controls

from .paced_websockets import PacedClient

__all__ = ["MESSAGE_LIMIT", "REPLAY_LIMIT", "connect_to_game", "failure_text", "is_too_long", "receive"]

MESSAGE_LIMIT = 4 * 1024 * 1024
"""Maximum bytes of a message from a running game."""
REPLAY_LIMIT = 256 * 1024 * 1024
"""Maximum bytes of a message on `/replay` that has to be read: a whole replay may be one message."""


class _Straight(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow no redirect: report the response itself."""
        return exc


def connect_to_game(address: str, target: str, **options: Any) -> connect:
    """Connect to a game; returns an async context manager.

    Args:
        address: `host:port`.
        target: Path and query.
        options: Further options of `websockets.asyncio.client.connect`. By default, messages have up to
            `MESSAGE_LIMIT` bytes and are not compressed, because a small one could become large.

    Raises:
        InvalidHandshake, OSError, EOFError, TimeoutError: On entering: the connection failed. A redirect raises
            `InvalidStatus`.
    """
    options = {"max_size": MESSAGE_LIMIT, "compression": None, "create_connection": PacedClient, **options}
    # Never through a proxy: the address is on this machine
    return _Straight(f"ws://{address}{target}", proxy=None, **options)


async def receive(socket: ClientConnection) -> int | None:
    """Wait for a message and return its size in bytes; None for one longer than `max_size`, which is not read.

    Raises:
        ConnectionClosed: The connection is closed without a message.
    """
    try:
        return len(await socket.recv(decode=False))
    except ConnectionClosed as error:
        if not is_too_long(error):
            raise
        return None


def is_too_long(error: ConnectionClosed) -> bool:
    """Whether we closed a connection because a message is longer than `max_size`."""
    return error.sent is not None and error.sent.code == CloseCode.MESSAGE_TOO_BIG and not error.rcvd_then_sent


def failure_text(error: BaseException) -> str:
    """Return why a connection failed, in one line, without control sequences: a close reason is the game's own text."""
    return " ".join(strip_controls(str(error)).split()) or type(error).__name__
