"""Websockets to games: straight to the address that was asked for, wherever the game would rather have us go.

A game in a closed network that redirects its viewers would otherwise have the runner, which is in no such network, call
whomever it names, with whatever it has to say in the query.
"""

from __future__ import annotations

from typing import Any

from websockets.asyncio.client import connect

from .runs._files import strip_controls

__all__ = ["MESSAGE_LIMIT", "game_socket", "words_of"]

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


def words_of(error: BaseException) -> str:
    """Why a connection failed, in one line: the reason for a close is in the game's own words."""
    return " ".join(strip_controls(str(error)).split()) or type(error).__name__
