"""Metrics and the state of something that runs, at an address of their own, which no proxy passes on."""

from __future__ import annotations

import http
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from ..web.http_server import address_of, open_server, response

__all__ = ["health_of", "open_metrics"]


@asynccontextmanager
async def open_metrics(
    listener: socket.socket, *, read: Callable[[], Awaitable[bytes]], trouble: Callable[[], Awaitable[str]]
) -> AsyncGenerator[None]:
    """Show `/metrics` and `/healthz` while the block is open, to whoever reaches the listener.

    Args:
        listener: Where to listen; closed at the end.
        read: Returns the metrics as Prometheus reads them (`prometheus_client.generate_latest`), or raises an `OSError`
            if they cannot be read now.
        trouble: Returns why what runs here cannot work, in a sentence; empty if it can.

    Raises:
        UsageError: `prometheus-client` is not installed (`metrics_missing`).
    """
    from .run_metrics import require_prometheus

    require_prometheus()
    from prometheus_client import CONTENT_TYPE_LATEST

    async def route(connection: ServerConnection, request: Request) -> Response:
        path = address_of(request).path
        if path == "/healthz":
            status, said = health_of(await trouble())
            return response(status, json.dumps(said).encode(), {"Content-Type": "application/json"})
        if path != "/metrics":
            return connection.respond(http.HTTPStatus.NOT_FOUND, "no such page\n")
        try:
            return response(http.HTTPStatus.OK, await read(), {"Content-Type": CONTENT_TYPE_LATEST})
        except OSError as error:
            return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n")

    async def connected(connection: ServerConnection) -> None:
        raise AssertionError("every request is answered by its route")

    with listener:
        async with open_server(connected, route, listener):
            yield


def health_of(trouble: str) -> tuple[http.HTTPStatus, dict[str, str]]:
    """Return the status and the object that answer `/healthz`: 200, or 503 with what is wrong."""
    if trouble:
        return http.HTTPStatus.SERVICE_UNAVAILABLE, {"status": "unavailable", "detail": trouble}
    return http.HTTPStatus.OK, {"status": "ok"}
