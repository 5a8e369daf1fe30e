"""Serves the page of a tournament while it is played; the page is rendered again whenever the log has grown."""

from __future__ import annotations

import http
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import anyio
import anyio.to_thread
from websockets.asyncio.connection import Connection, broadcast
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.errors import CoworldError, unwrapped
from coworld_core.tournament.tournament_log import LOG_NAME

from ...web.http_server import address_of, content_response, listen, open_server
from ..evaluation_page import live_policy, report_page
from .tournament_folder import read_tournament

__all__ = ["open_site"]

_LOOK_SECONDS: Final = 1.0
"""Interval between two checks of the log; a page changes no more often than that."""


class _Site:
    """The newest page, and the replays that it links to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._made: int | None = None
        self._page = b""
        self._replays: dict[str, Path] = {}
        self._making = anyio.Lock()

    def length(self) -> int:
        """Return the size of the log, which only ever grows, in bytes; -1 if it cannot be read."""
        try:
            return (self.directory / LOG_NAME).stat().st_size
        except OSError:
            return -1

    async def page(self) -> bytes:
        """Return the page of the current log.

        Raises:
            UsageError: There is no tournament, or its log was changed.
        """
        async with self._making:
            length = await anyio.to_thread.run_sync(self.length)
            if length != self._made:
                await anyio.to_thread.run_sync(self._make)
                self._made = length
            return self._page

    def replay(self, path: str) -> Path | None:
        """Return the replay that the page links to by this path; None if there is none."""
        return self._replays.get(path)

    def _make(self) -> None:
        played = read_tournament(self.directory)
        self._page = report_page([played], beside=self.directory, live=True).encode()
        self._replays = {
            f"/{row.workspace}/{EpisodeLayout(Path()).replay}": EpisodeLayout(self.directory / row.workspace).replay
            for row in played.rows()
        }


@asynccontextmanager
async def open_site(directory: str | os.PathLike[str], *, port: int = 0) -> AsyncGenerator[str]:
    """Serve the page of a tournament on the loopback interface; another process may be playing the tournament.

    Args:
        directory: The tournament's directory.
        port: The port to listen on; 0: any free one.

    Yields:
        The page's address.

    Raises:
        UsageError: There is no tournament, its log was changed, or the port is taken.
    """
    site = _Site(Path(directory))
    await site.page()
    pages: set[Connection] = set()

    async def connected(connection: ServerConnection) -> None:
        pages.add(connection)
        try:
            async for _ in connection:
                pass
        except ConnectionClosed:
            pass
        finally:
            pages.discard(connection)

    async def watch() -> None:
        known = await anyio.to_thread.run_sync(site.length)
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            length = await anyio.to_thread.run_sync(site.length)
            if length != known:
                known = length
                broadcast(pages, "changed")

    with unwrapped(), listen("127.0.0.1", port) as listener:
        port = listener.getsockname()[1]
        names = {f"{host}:{port}" for host in ("127.0.0.1", "localhost")}

        async def route(connection: ServerConnection, request: Request) -> Response | None:
            path = unquote(address_of(request).path)
            # Refuse foreign pages that reach this machine under a name of their own (DNS rebinding)
            if request.headers.get("Host") not in names:
                return connection.respond(http.HTTPStatus.FORBIDDEN, "not by that name\n")
            if path == "/changes":
                return None
            try:
                if path == "/":
                    body = await site.page()
                    return content_response(body, kind="text/html; charset=utf-8", policy=live_policy())
                if (replay := site.replay(path)) is not None:
                    body = await anyio.to_thread.run_sync(replay.read_bytes)
                    return content_response(body, kind="application/octet-stream", policy="default-src 'none'")
            except CoworldError as error:
                return connection.respond(http.HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n")
            except OSError:
                return connection.respond(http.HTTPStatus.NOT_FOUND, "it is not there any more\n")
            return connection.respond(http.HTTPStatus.NOT_FOUND, "no such page\n")

        async with open_server(connected, route, listener), anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                yield f"http://127.0.0.1:{port}/"
            finally:
                tasks.cancel_scope.cancel()
