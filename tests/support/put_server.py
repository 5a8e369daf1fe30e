"""An HTTP server that stores uploads, serves documents, and fails on request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

__all__ = ["Put", "PutServer", "put_server"]


@dataclass(frozen=True)
class Put:
    """A completely received request."""

    path: str
    content_type: str
    length: str | None
    """The announced length; None if the body was chunked."""
    body: bytes
    status: int
    """The status of the answer."""


@dataclass
class PutServer:
    """The server's address, uploads, documents and faults."""

    url: str = ""
    puts: list[Put] = field(default_factory=list[Put])
    """All uploads, in the order in which they were answered."""
    documents: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Documents that clients can fetch, by path."""
    faults: dict[str, list[int | str]] = field(default_factory=dict[str, "list[int | str]"])
    """Answers to the first requests for a path: a status, ``reset``, or a status with Retry-After, as ``503/1``."""

    def kept(self) -> dict[str, bytes]:
        """The last accepted upload for each path."""
        return {put.path: put.body for put in self.puts if put.status == 200}

    def order(self) -> list[str]:
        """The paths that were accepted, in order."""
        return [put.path for put in self.puts if put.status == 200]

    def put_of(self, path: str) -> Put:
        """The accepted request for a path."""
        return next(put for put in self.puts if put.path == path and put.status == 200)


@asynccontextmanager
async def put_server(
    host: str = "127.0.0.1", *, faults: Mapping[str, list[int | str]] | None = None
) -> AsyncGenerator[PutServer]:
    """Run a server on a free port."""
    known = PutServer(faults={path: list(steps) for path, steps in (faults or {}).items()})

    def fault(request: web.Request) -> web.Response | None:
        steps = known.faults.get(request.path)
        if not steps:
            return None
        step = steps.pop(0)
        if step == "reset":
            assert request.transport is not None
            request.transport.abort()
            return web.Response(status=500)
        status, _, wait = str(step).partition("/")
        return web.Response(status=int(status), headers={"Retry-After": wait} if wait else {})

    async def put(request: web.Request) -> web.Response:
        body = await request.read()
        answer = fault(request) or web.Response()
        known.puts.append(
            Put(
                request.path,
                request.headers.get("Content-Type", ""),
                request.headers.get("Content-Length"),
                body,
                answer.status,
            )
        )
        return answer

    async def get(request: web.Request) -> web.Response:
        if request.path not in known.documents:
            return web.Response(status=404)
        return fault(request) or web.Response(body=known.documents[request.path])

    app = web.Application(client_max_size=1 << 30)
    app.router.add_put("/{path:.*}", put)
    app.router.add_post("/{path:.*}", put)
    app.router.add_get("/{path:.*}", get)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, 0).start()
        known.url = f"http://{host}:{runner.addresses[0][1]}"
        yield known
    finally:
        await runner.cleanup()
