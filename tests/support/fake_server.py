"""An HTTP server whose handler controls every answer, including malformed ones and those that break off."""

from __future__ import annotations

import inspect
import json
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

import anyio
import anyio.abc
import anyio.lowlevel
import h11
import psutil
from anyio.from_thread import start_blocking_portal
from anyio.streams.tls import TLSStream

__all__ = [
    "Ask",
    "FakeServer",
    "Reset",
    "Say",
    "Site",
    "json_say",
    "nobody_there",
    "serve",
    "serve_bytes",
    "serve_everywhere",
    "serve_file",
    "serve_in_thread",
    "serve_site",
    "serve_streams",
    "site_in_thread",
]

LOOPBACK = "127.0.0.1"
_Site = TypeVar("_Site", bound="Site")


class Reset(Exception):
    """Raised by a handler to have the connection reset instead of answered."""


@dataclass
class Ask:
    """A request."""

    method: str
    target: str
    """Path and query as received."""
    headers: Mapping[str, str]
    """By lower-case name; values of repeated ones are joined with commas."""
    _next: Callable[[], Awaitable[bytes | None]] = field(repr=False)
    body: bytes = b""
    """The body, once it has been read."""

    @property
    def json(self) -> Any:
        """The body as JSON, once it has been read."""
        return json.loads(self.body)

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2]))

    async def pieces(self) -> AsyncIterator[bytes]:
        while (piece := await self._next()) is not None:
            yield piece

    async def read(self) -> bytes:
        self.body += b"".join([piece async for piece in self.pieces()])
        return self.body


@dataclass
class Say:
    """An answer. If the headers have no `content-length`, that of the body is added."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cut: int | None = None
    """Reset the connection after this many bytes of the body."""


Handler = Callable[[Ask], Awaitable[Say]]


def json_say(value: object, status: int = 200, **headers: str) -> Say:
    """An answer in JSON."""
    fields = {name.replace("_", "-"): text for name, text in headers.items()}
    return Say(status, json.dumps(value).encode(), {"content-type": "application/json", **fields})


class FakeServer:
    """A running server: its URL, and the requests that it received."""

    def __init__(self, url: str, handler: Handler) -> None:
        self.url = url
        self.handler = handler
        self.asked: list[Ask] = []


@asynccontextmanager
async def serve_streams(
    attend: Callable[[anyio.abc.ByteStream], Awaitable[object]],
    place: Path | anyio.abc.Listener[anyio.abc.ByteStream] | None = None,
    *,
    host: str = LOOPBACK,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[str]:
    """Have a function attend to each connection while the context is open, and close it afterwards.

    Yields host and port, unless a place was given. A connection that breaks off is nothing; any other error of the
    function is raised.

    Args:
        attend: Attends to one connection.
        place: The path of a Unix socket, or a listener; by default a free port is taken.
        host: The address to listen at.
        tls: To speak TLS.
    """

    async def connected(raw: anyio.abc.ByteStream) -> None:
        async with raw:
            with suppress(OSError, anyio.BrokenResourceError, anyio.EndOfStream):
                wrapped = TLSStream.wrap(raw, server_side=True, ssl_context=tls) if tls else None
                await attend(raw if wrapped is None else await wrapped)

    listener: anyio.abc.Listener[Any]
    address = ""
    if isinstance(place, Path):
        listener = await anyio.create_unix_listener(place)
    elif place is not None:
        listener = place
    else:
        listener = await anyio.create_tcp_listener(local_host=host, local_port=0)
        address = f"{host}:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
    failure: BaseException
    async with listener:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(listener.serve, connected)
                try:
                    yield address
                finally:
                    group.cancel_scope.cancel()
            return
        except BaseExceptionGroup as errors:
            if len(errors.exceptions) != 1:
                raise
            failure = errors.exceptions[0]
    raise failure


@asynccontextmanager
async def serve(
    handler: Handler, *, host: str = LOOPBACK, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[FakeServer]:
    """Serve on a free port while the context is open, one request per connection; an error of the handler is raised.

    Args:
        handler: Answers each request.
        host: The address to listen at.
        tls: To serve https.
    """
    server = FakeServer("", handler)

    async def connected(stream: anyio.abc.ByteStream) -> None:
        with suppress(h11.RemoteProtocolError):
            await _exchange(stream, server)

    async with serve_streams(connected, host=host, tls=tls) as address:
        server.url = f"{'http' if tls is None else 'https'}://{address}"
        yield server


@contextmanager
def serve_in_thread(handler: Handler, *, host: str = LOOPBACK) -> Generator[FakeServer]:
    """Serve in a thread with its own event loop, for fixtures and for tests that block."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serve(handler, host=host)) as server:
        yield server


class Site:
    """Answers chosen by method and path; any other request gets 404.

    Args:
        prefix: What all paths begin with; left out everywhere else.
    """

    def __init__(self, prefix: str = "") -> None:
        self.url = ""
        self.asked: list[Ask] = []
        """The received requests, with their bodies."""
        self._prefix = prefix
        self._says: dict[tuple[str, str], Any] = {}

    def on(self, method: str, path: str, says: Any) -> None:
        """Set the answer to a request.

        Args:
            method: Its method.
            path: Its path as sent; with a query, only a request with exactly this query is meant.
            says: A `Say`, the bytes of a body, any other value for JSON, or a function that returns one of them for a
                request.
        """
        self._says[method, path] = says

    def calls(self, method: str, path: str) -> list[Ask]:
        """The received requests with a method and path."""
        return [ask for ask in self.asked if (ask.method, self.place(ask)) == (method, path)]

    def place(self, ask: Ask) -> str:
        """The path of a request, as sent."""
        return ask.target.partition("?")[0].removeprefix(self._prefix)

    async def answer(self, ask: Ask) -> Say:
        """Record a request and return its answer."""
        await ask.read()
        self.asked.append(ask)
        said: Any = self.otherwise
        for place in (self.place(ask), ask.target.removeprefix(self._prefix)):
            said = self._says.get((ask.method, place), said)
        said = said(ask) if callable(said) else said
        said = await said if inspect.isawaitable(said) else said
        said = Say(200, said) if isinstance(said, bytes) else said
        return said if isinstance(said, Say) else json_say(said)

    def otherwise(self, ask: Ask) -> Any:
        """The answer to any other request; may be awaitable."""
        return json_say({"detail": "Not Found"}, 404)


@asynccontextmanager
async def serve_site(site: _Site) -> AsyncGenerator[_Site]:
    """Serve a site while the context is open."""
    async with serve(site.answer) as server:
        site.url = server.url
        yield site


@contextmanager
def site_in_thread(site: _Site, *, host: str = LOOPBACK) -> Generator[_Site]:
    """Serve a site in a thread, as `serve_in_thread` does."""
    with serve_in_thread(site.answer, host=host) as server:
        site.url = server.url
        yield site


async def _exchange(stream: anyio.abc.ByteStream, server: FakeServer) -> None:
    connection = h11.Connection(h11.SERVER)

    async def event() -> object:
        while (one := connection.next_event()) is h11.NEED_DATA:
            try:
                connection.receive_data(await stream.receive(1 << 20))
            except anyio.EndOfStream:
                connection.receive_data(b"")
        return one

    async def body() -> bytes | None:
        one = await event()
        return bytes(one.data) if isinstance(one, h11.Data) else None

    request = await event()
    if not isinstance(request, h11.Request):
        return
    headers: dict[str, str] = {}
    for name, value in request.headers:
        key, text = name.decode().lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    ask = Ask(request.method.decode(), request.target.decode("latin-1"), headers, body)
    server.asked.append(ask)
    try:
        say = await server.handler(ask)
    except Reset:
        _reset(stream)
        return
    fields = {name.lower(): value for name, value in say.headers.items()}
    if isinstance(say.body, bytes) and not {"content-length", "transfer-encoding"} & fields.keys():
        fields["content-length"] = str(len(say.body))
    # Written by hand, because h11 refuses to send malformed answers.
    lines = [
        f"HTTP/1.1 {say.status} Said",
        *(f"{name}: {value}" for name, value in fields.items()),
        "connection: close",
    ]
    await stream.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
    if request.method == b"HEAD":
        return
    sent = 0
    async for piece in _iterated(say.body):
        if say.cut is not None and sent + len(piece) >= say.cut:
            await stream.send(piece[: say.cut - sent])
            _reset(stream)
            return
        await stream.send(piece)
        sent += len(piece)


async def _iterated(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        for start in range(0, len(body), 1 << 16):
            yield body[start : start + (1 << 16)]
    else:
        async for piece in body:
            yield piece


def _reset(stream: anyio.abc.ByteStream) -> None:
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Asked(list[bytes]):
    """The requests so far."""

    def __init__(self) -> None:
        super().__init__()
        self.first = anyio.Event()
        """Set once there is one."""


@asynccontextmanager
async def serve_bytes(place: Path | anyio.abc.Listener[anyio.abc.ByteStream], *answers: bytes) -> AsyncGenerator[Asked]:
    """Serve each connection the next of `answers`, HTTP or not; nothing once none are left. Yields the requests.

    Args:
        place: The path of a Unix socket, or a listener.
        answers: Whole answers.
    """
    asked = Asked()
    left = list(answers)

    async def answer(stream: anyio.abc.ByteStream) -> None:
        asked.append(await stream.receive())
        asked.first.set()
        if not left:
            await anyio.sleep_forever()
        await stream.send(left.pop(0))

    async with serve_streams(answer, place):
        yield asked


@asynccontextmanager
async def serve_everywhere() -> AsyncGenerator[list[str]]:
    """Take connections at all addresses of this machine and close them; yields those that others can reach."""

    async with serve_streams(lambda _: anyio.lowlevel.checkpoint(), host="0.0.0.0") as address:
        port = address.rpartition(":")[2]
        entries = [entry for interface in psutil.net_if_addrs().values() for entry in interface]
        own = [entry.address for entry in entries if entry.family == socket.AF_INET]
        yield [f"{address}:{port}" for address in own if not address.startswith("127.")]


@contextmanager
def nobody_there() -> Generator[str]:
    """The URL of a port that refuses connections; it is bound, so that no other test can listen on it."""
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        yield f"http://{LOOPBACK}:{taken.getsockname()[1]}"


def serve_file(content: bytes, *, etag: str = '"1"', cuts: list[int] | None = None) -> Handler:
    """A handler that serves a file correctly, including ranges, and resets connections where told to.

    Args:
        content: The file.
        etag: Its ETag; empty for none.
        cuts: For each request in turn, the number of bytes of the body after which the connection is reset; later
            requests are not cut.
    """
    pending = list(cuts or ())

    async def handler(ask: Ask) -> Say:
        headers = {"Content-Type": "application/octet-stream", **({"ETag": etag} if etag else {})}
        cut = pending.pop(0) if pending else None
        wanted = ask.headers.get("range", "")
        if wanted.startswith("bytes=") and etag and ask.headers.get("if-range") == etag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                return Say(416, headers={"Content-Range": f"bytes */{len(content)}"})
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            return Say(206, content[start:], headers, cut)
        return Say(200, content, headers, cut)

    return handler
