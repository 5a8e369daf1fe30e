"""One HTTP/1.1 request per connection: h11 handles the protocol, anyio transfers the bytes.

It serves plain HTTP, one request at a time, to a game on the loopback interface or to a collector through a cluster's
forwarded port. httpx2 takes no connection from its caller, as a forwarded port needs; it reads 64 KiB at once, which in
a hostile body are 10,000 events before anything else gets a turn; and its imports would cost every run of local
processes a tenth of a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream

from .own_connections import note_own

if TYPE_CHECKING:
    import h11

__all__ = ["BROKEN", "HttpAnswer", "NotHttpError", "PageAnswer", "connect_to", "exchange", "get_page", "get_status"]

_ASKING = frozenset({"GET", "HEAD"})
_READ_BYTES = 256 * 1024
_HEAD_BYTES = 64 * 1024
_BODY_READ_BYTES = 4096
"""How much of such a body to read at once: it may come in chunks of one byte, each of which is an event."""
_BODY_BYTES = 64 * 1024
"""How much of a body to read when only the status counts, so that the server sees an orderly close."""
_BODY_SECONDS = 1.0
"""How long to read such a body: the status is known already, and a body may be endless."""


class NotHttpError(Exception):
    """The response is not HTTP/1.1, or is incomplete."""


BROKEN = (OSError, anyio.BrokenResourceError, anyio.EndOfStream, NotHttpError)
"""The exceptions that an exchange may raise."""


class HttpAnswer:
    """The response to one request. Iterate over it for the body's bytes as they arrive."""

    def __init__(
        self, connection: h11.Connection, stream: ByteStream, response: h11.Response, *, read_bytes: int = _READ_BYTES
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
        }
        """The headers by lower-case name."""
        self._connection = connection
        self._stream = stream
        self._read_bytes = read_bytes

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        import h11

        event = await _next_event(self._connection, self._stream, read_bytes=self._read_bytes)
        if isinstance(event, h11.Data):
            return bytes(event.data)
        raise StopAsyncIteration

    async def read(self, limit: int | None = None) -> bytes:
        """Read the whole body, or stop once at least `limit` bytes are read."""
        parts: list[bytes] = []
        size = 0
        async for data in self:
            parts.append(data)
            size += len(data)
            if limit is not None and size >= limit:
                break
        return b"".join(parts)


async def _next_event(
    connection: h11.Connection, stream: ByteStream, *, answered: bool = True, read_bytes: int = _READ_BYTES
) -> Any:
    """Return the next event of h11; reads from the stream only when h11 needs data."""
    import h11

    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            raise NotHttpError("an answer that is cut off" if answered else "an answer that is not HTTP") from error
        if event is not h11.NEED_DATA:
            return event
        try:
            connection.receive_data(await stream.receive(read_bytes))
        except anyio.EndOfStream:
            if not answered and not connection.trailing_data[0]:
                raise NotHttpError("a closed connection") from None
            connection.receive_data(b"")


@asynccontextmanager
async def exchange(
    connect: Callable[[], Awaitable[ByteStream]],
    method: str,
    target: str,
    *,
    host: str,
    headers: Mapping[str, str] | None = None,
    content: AsyncIterable[bytes] | None = None,
    read_bytes: int = _READ_BYTES,
) -> AsyncGenerator[HttpAnswer]:
    """Send a request and yield its response; the connection is closed on leaving.

    Args:
        connect: Opens a connection.
        method: The method.
        target: Path and query, quoted.
        host: Value of the Host header.
        headers: Further headers; with a body, among them its Content-Length.
        content: The body, sent as it comes.
        read_bytes: How much of the answer to read at once.

    Raises:
        OSError, anyio.BrokenResourceError, anyio.EndOfStream, NotHttpError: `BROKEN`.
    """
    import h11  # Imported late, while a game is starting up anyway

    fields = {"Host": host, "User-Agent": "coworld", "Connection": "close", **(headers or {})}
    if content is None and method not in _ASKING:
        # GET and HEAD have none: some servers close the connection on a Content-Length, even if it is 0
        fields["Content-Length"] = "0"
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
    try:
        head = connection.send(h11.Request(method=method, target=target, headers=list(fields.items())))
    except h11.LocalProtocolError as error:
        raise NotHttpError(f"a request that cannot be sent: {error}") from error
    async with await connect() as stream:
        # A server that refuses a request may stop reading it, but its response may still be readable
        with contextlib.suppress(anyio.BrokenResourceError):
            await stream.send(head or b"")
            if content is not None:
                async for data in content:
                    await stream.send(connection.send(h11.Data(data=data)) or b"")
            connection.send(h11.EndOfMessage())
        event = await _next_event(connection, stream, answered=False, read_bytes=read_bytes)
        while isinstance(event, h11.InformationalResponse):
            event = await _next_event(connection, stream, answered=False, read_bytes=read_bytes)
        if not isinstance(event, h11.Response):
            raise NotHttpError("a closed connection")
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}:
            # Whoever stands between reads one, and we the other
            raise NotHttpError("an answer with both Content-Length and Transfer-Encoding")
        yield HttpAnswer(connection, stream, event, read_bytes=read_bytes)


@asynccontextmanager
async def asking(address: str, path: str) -> AsyncGenerator[HttpAnswer]:
    """Send `GET path` once, on a new connection; redirects are not followed.

    Args:
        address: `host:port` of an HTTP/1.1 server.
        path: The path, with its leading slash.

    Raises:
        OSError: The connection failed.
        NotHttpError: The server does not speak HTTP, or closed the connection without a response.
    """
    try:
        async with exchange(
            lambda: connect_to(address),
            "GET",
            path,
            host=address,
            headers={"Accept": "*/*"},
            read_bytes=_BODY_READ_BYTES,
        ) as answer:
            yield answer
    except (anyio.BrokenResourceError, anyio.EndOfStream) as error:
        raise NotHttpError("a closed connection") from error


async def connect_to(address: str) -> SocketStream:
    """Connect to the game at `host:port`; the connection is not taken for a player's.

    Raises:
        OSError: The connection failed.
    """
    host, _, number = address.rpartition(":")
    port = int(number)
    stream = await anyio.connect_tcp(host.strip("[]"), port)
    note_own(stream.extra(SocketAttribute.local_port), port)  # noqa: S610 - no query
    return stream


class PageAnswer(NamedTuple):
    """What a page's address answers."""

    status: int
    empty: bool
    """Whether it has no content, or only white space."""


async def get_page(address: str, path: str) -> PageAnswer:
    """Return what `GET path` answers; raises as `asking` does."""
    async with asking(address, path) as answer:
        # A page whose body is slow or broken off is not known to be empty
        content = b"?"
        with contextlib.suppress(*BROKEN), anyio.move_on_after(_BODY_SECONDS):
            content = await answer.read(_BODY_BYTES)
        return PageAnswer(answer.status, empty=not content.strip())


async def get_status(address: str, path: str) -> int:
    """Return the status of `GET path`; raises as `asking` does."""
    return (await get_page(address, path)).status
