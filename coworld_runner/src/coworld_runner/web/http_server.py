"""A server for pages and websockets on one port, and the responses with which it sends pages and their files."""

from __future__ import annotations

import http
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import SplitResult, urlsplit

import anyio
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.rules.seat_wire import MAX_FRAME

from .paced_websockets import PacedServer
from .page_documents import Document

__all__ = ["CLOSING_SECONDS", "address_of", "content_response", "listen", "open_server", "page_response", "response"]

CLOSING_SECONDS: Final = 1.0
"""Seconds that the end of a server waits for clients to take their last message and close."""


@asynccontextmanager
async def open_server(
    connected: Callable[[ServerConnection], Awaitable[None]],
    route: Callable[[ServerConnection, Request], Awaitable[Response | None]],
    listener: socket.socket,
    *,
    compress: bool = False,
    max_size: int = MAX_FRAME,
) -> AsyncGenerator[Server]:
    """Serve pages and sockets while the context is open; nothing is logged.

    Args:
        connected: Serves one socket.
        route: Answers a request, or returns None for a socket.
        listener: The socket to listen on.
        compress: Whether to compress messages.
        max_size: Maximum size of a message in bytes.
    """
    # Connections inherit TCP_NODELAY. asyncio sets it only for sockets whose protocol number is TCP, which those of
    # `socket.create_server` lack; without it, a second small frame waits until the first one is acknowledged.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = await serve(
        connected,
        sock=listener,
        # asyncio calls listen() again, with a backlog of only 100 by default.
        backlog=socket.SOMAXCONN,
        process_request=route,
        max_size=max_size,
        max_queue=4,
        create_connection=PacedServer,
        compression="deflate" if compress else None,
        close_timeout=CLOSING_SECONDS,
        # Pings keep connections through proxies open. A late pong drops no client: a player may be thinking.
        ping_timeout=None,
        # Log lines would show requests, and with them tokens.
        logger=_silent(),
        server_header=None,
    )
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            server.close()
            with anyio.move_on_after(2 * CLOSING_SECONDS):
                await server.wait_closed()
            for connection in server.connections:
                connection.transport.abort()


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address of this machine.

    Raises:
        UsageError: It is taken, or none of this machine (`port_taken`).
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UsageError(
            f"Cannot listen on {host}, port {port}: {error.strerror or error}.",
            code="port_taken",
            hint=Hint("other_port", "Pass another port, or 0 for any."),
        ) from error


def _silent() -> logging.Logger:
    logger = logging.Logger("coworld.web")
    logger.disabled = True
    return logger


def address_of(request: Request | None) -> SplitResult:
    """Return the address of a request; empty if it cannot be parsed."""
    try:
        return urlsplit(request.path if request is not None else "")
    except ValueError:
        return urlsplit("")


def page_response(document: Document) -> Response:
    """Return the response with a page."""
    return content_response(document.html.encode(), kind="text/html; charset=utf-8", policy=document.policy)


def content_response(body: bytes, *, kind: str, policy: str) -> Response:
    """Return the response with a page or one of its files.

    Args:
        body: Its content.
        kind: Its media type.
        policy: The `Content-Security-Policy`.
    """
    headers = {
        "Content-Type": kind,
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        # The address of the player page contains a token.
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return response(http.HTTPStatus.OK, body, headers)


def response(status: http.HTTPStatus, body: bytes, headers: dict[str, str]) -> Response:
    """Return a response after which the connection is closed."""
    length = {"Connection": "close", "Content-Length": str(len(body))}
    return Response(status.value, status.phrase, Headers({**length, **headers}), body)
