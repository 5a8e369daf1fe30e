"""The page of a game under development, and the server of that page and of the sockets of the game's seats."""

from __future__ import annotations

import hmac
import http
import json
import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast
from urllib.parse import SplitResult

from websockets.asyncio.connection import Connection, broadcast
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from coworld_core.rules.seat_wire import MAX_MESSAGE

from ...web.http_server import address_of, open_server, page_response
from ...web.page_documents import Document, document
from ..server.pages import common
from .relay import Relay

__all__ = ["DevControls", "open_page_server"]

_MOST_LINES: Final = 1000
"""Log lines that a page receives when it is opened."""


class DevControls:
    """The content of all open pages: the newest state and the log.

    Args:
        address: `host:port` of the server.
        key: The secret that the page's address must contain.
    """

    def __init__(self, address: str, key: str) -> None:
        self.link = f"http://{address}/{key}/"
        self.pages: set[Connection] = set()
        self._address = address
        self._key = key
        self._state = ""
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)

    def socket(self, path: str) -> str:
        """Return the full address of one of the server's sockets."""
        return f"ws://{self._address}{path}"

    def show(self, state: dict[str, Any]) -> None:
        """Replace the state that is shown."""
        text = json.dumps(state)
        if text != self._state:
            self._state = text
            broadcast(self.pages, text)

    def log(self, line: dict[str, str]) -> None:
        """Add a line to the log."""
        self._lines.append(json.dumps(line))
        broadcast(self.pages, self._lines[-1])

    def admits(self, url: SplitResult, path: str) -> bool:
        """Whether an address is that of a path of the page, including the secret."""
        return hmac.compare_digest(url.path.encode(errors="replace"), f"/{self._key}/{path}".encode())

    async def serve(self, connection: ServerConnection, obey: Callable[[dict[str, Any]], None]) -> None:
        """Send the state and the log to a page, and carry out its commands."""
        for message in filter(None, (self._state, *self._lines)):
            broadcast([connection], message)
        self.pages.add(connection)
        try:
            async for message in connection:
                try:
                    command: Any = json.loads(message)
                except ValueError:
                    continue
                if isinstance(command, dict):
                    obey(cast("dict[str, Any]", command))
        except ConnectionClosed:
            pass
        finally:
            self.pages.discard(connection)


@asynccontextmanager
async def open_page_server(
    controls: DevControls, relay: Relay, obey: Callable[[dict[str, Any]], None], *, listener: socket.socket
) -> AsyncGenerator[None]:
    """Serve the page, its socket and the relay's sockets until the block ends."""

    async def connected(connection: ServerConnection) -> None:
        url = address_of(connection.request)
        if controls.admits(url, "socket"):
            await controls.serve(connection, obey)
        else:
            await relay.serve(connection, url)

    async def route(connection: ServerConnection, request: Request) -> Response | None:
        url = address_of(request)
        if controls.admits(url, ""):
            return page_response(_page())
        if controls.admits(url, "socket") or relay.admits(url):
            return None
        return connection.respond(http.HTTPStatus.NOT_FOUND, "no such page\n")

    async with open_server(connected, route, listener, max_size=MAX_MESSAGE):
        yield


@cache
def _page() -> Document:
    folder = files("coworld_runner.kit.dev") / "pages"
    html, style, script = ((folder / f"dev.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    return document(
        html, style=common("common.css") + style, script=common("common.js") + script, frames="http://127.0.0.1:*"
    )
