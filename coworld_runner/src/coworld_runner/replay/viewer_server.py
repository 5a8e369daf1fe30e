"""Static replay viewers: a directory with a page that shows replays without running the game.

The page and the replay are served on one loopback origin, under the same policy that platforms use for such pages.
"""

from __future__ import annotations

import gzip
import http
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from ..package.viewer_bundle import VIEWER_PAGE, ViewerBundle
from ..web.http_server import address_of, content_response, open_server
from .bundle_page import kind_of

__all__ = ["ViewerSession", "open_viewer"]

_REPLAY: Final = "/_coworld/replay"
_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob: https:; font-src 'self' data:; media-src 'self' data: blob:; "
    "worker-src 'self' blob:; connect-src 'self' http: https:; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True, kw_only=True)
class ViewerSession:
    """A viewer that shows a replay."""

    link: str
    """The page to open."""
    address: str
    """`host:port` of the server."""
    fetched: anyio.Event
    """Set once the page has asked for the replay."""


@asynccontextmanager
async def open_viewer(bundle: ViewerBundle, replay: Path, *, packed: bool = False) -> AsyncGenerator[ViewerSession]:
    """Serve a viewer beside a replay on the loopback interface until the block ends.

    Args:
        bundle: The viewer.
        replay: A file with the replay as the game wrote it.
        packed: Whether to serve the replay as gzip, as `replay_compression` says.
    """
    fetched = anyio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        names = {f"{host}:{port}" for host in ("127.0.0.1", "localhost")}

        async def route(connection: ServerConnection, request: Request) -> Response:
            path = unquote(address_of(request).path)
            # Refuse a foreign page whose host name resolves to this machine (DNS rebinding)
            if request.headers.get("Host") not in names:
                return connection.respond(http.HTTPStatus.FORBIDDEN, "not by that name\n")
            if path == _REPLAY:
                fetched.set()
                body = await anyio.to_thread.run_sync(_content, replay, packed)
                return content_response(body, kind="application/octet-stream", policy=_POLICY)
            inside = path.removeprefix("/") + (VIEWER_PAGE if path.endswith("/") else "")
            file = bundle.files.get(inside)
            if file is None:
                return connection.respond(http.HTTPStatus.NOT_FOUND, "no such file\n")
            try:
                body = await anyio.to_thread.run_sync(file.read_bytes)
            except OSError:
                return connection.respond(http.HTTPStatus.NOT_FOUND, "it is not there any more\n")
            kind = kind_of(file.name)
            text = kind.startswith("text/")
            return content_response(body, kind=f"{kind}; charset=utf-8" if text else kind, policy=_POLICY)

        async def refuse(connection: ServerConnection) -> None:
            await connection.close()

        async with open_server(refuse, route, listener):
            origin = f"http://127.0.0.1:{port}"
            yield ViewerSession(
                link=f"{origin}/{VIEWER_PAGE}#replay={quote(origin + _REPLAY, safe='')}",
                address=f"127.0.0.1:{port}",
                fetched=fetched,
            )


def _content(replay: Path, packed: bool) -> bytes:
    content = replay.read_bytes()
    return gzip.compress(content, mtime=0) if packed else content
