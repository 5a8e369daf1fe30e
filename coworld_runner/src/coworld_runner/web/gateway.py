"""The way to a game for other machines: its own port there, with TLS, in front of the game's port on loopback.

Games know neither certificates nor the networks of the machine that they run on, so this serves any of them. It passes
on one request for each connection, and whatever follows it if it opens a websocket. The operator's pages are closed,
because they ask for no token.
"""

from __future__ import annotations

import contextlib
import errno
import http
import math
import re
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import unquote

import anyio
from anyio.abc import AnyByteStream, ByteSendStream, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteStream
from anyio.streams.tls import TLSStream

from coworld_core.errors import UsageError, unwrapped
from coworld_core.hints import Hint

from .game_paths import is_operator_path, plain_path, quoted_path
from .http_requests import connect_to
from .public_address import PublicAddress

__all__ = ["Gateway", "Traffic", "open_gateway"]

HEAD_SECONDS: Final = 10.0
"""Time that a client has to say what it wants, TLS included."""
IDLE_SECONDS: Final = 120.0
"""Longest silence within a request or its answer; websockets have none."""
LOST_SECONDS: Final = 30
"""A client that acknowledges nothing for this long has lost its network."""
CLOSING_SECONDS: Final = 2.0
"""Time in which clients may take the game's last messages when it has ended."""
MAX_CONNECTIONS: Final = 400
"""Connections at a time; each needs two of the process's open files."""
MAX_EACH: Final = 100
"""Connections of one address at a time."""

_MAX_HEAD: Final = 64 * 1024
_CHUNK: Final = 64 * 1024
_HANDSHAKE: Final = b"\x16"
"""The first byte of TLS."""
_END: Final = b"\r\n\r\n"
_REFUSED: Final = {
    400: "This is no request.\n",
    403: "This page is the operator's, and closed here.\n",
    411: "Say how long the body is.\n",
    426: "This port speaks TLS: ask with https:// or wss://.\n",
    502: "The game does not answer.\n",
    503: "Too many connections.\n",
}


class _Refusal(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


@dataclass(frozen=True)
class _Request:
    """What a client has asked for, as the game is asked."""

    head: bytes
    what: str
    """As in `Traffic.requests`."""
    upgrades: bool
    body: int
    """Number of bytes that follow."""


@dataclass
class Traffic:
    """What has passed a gateway since it was opened."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    """Requests that were answered, by what they asked for (`player`, `global`, `page`, or `other`) and by status."""
    received: int = 0
    """Bytes from clients to the game, within TLS."""
    sent: int = 0
    """Bytes from the game to clients, within TLS."""


class Gateway:
    """An open way to a game.

    Args:
        address: Where it is.
        port: The port that is listened on.
        again: Whether another game follows when one has ended: whoever comes meanwhile waits for it.

    Attributes:
        base: What links of the game's pages begin with.
        open: Connections that are open.
        traffic: What has passed.
        target: The game's `host:port`; empty before `lead`.
    """

    def __init__(self, address: PublicAddress, port: int, *, again: bool = False) -> None:
        self.base = address.base(port)
        self._context = address.context()
        self.target = ""
        self.traffic = Traffic()
        self._led = anyio.Event()
        self._again = again
        self._wanted = anyio.Event()
        self._from: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """Number of connections that are open."""
        return self._from.total()

    def lead(self, address: str) -> None:
        """Pass connections on to the game that listens at `host:port`; those that came before have waited for it."""
        self.target = address
        self._led.set()

    async def wanted(self) -> None:
        """Wait until somebody asks for a game after the last one has ended."""
        await self._wanted.wait()
        self._wanted = anyio.Event()

    async def serve(self, stream: SocketStream) -> None:
        """Serve one connection."""
        # Connections from the same place: the interface's scope, and the port, may differ
        sender = str(stream.extra(SocketAttribute.remote_address)[0])  # noqa: S610 - of a stream
        _notice_loss(stream.extra(SocketAttribute.raw_socket))  # noqa: S610
        if self.open >= MAX_CONNECTIONS:
            # Saying so would keep it open
            await anyio.aclose_forcefully(stream)
            return
        full = self._from[sender] >= MAX_EACH
        self._from[sender] += 1
        try:
            async with _closed(stream):
                await self._serve(stream, full=full)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError, TimeoutError):
            # The client is gone, has said nothing in time, or does not trust our certificate
            pass
        finally:
            self._from[sender] -= 1
            if not self._from[sender]:
                del self._from[sender]

    async def _serve(self, stream: SocketStream, *, full: bool) -> None:
        client: AnyByteStream = stream
        game: SocketStream | None = None
        what = "other"
        try:
            try:
                with anyio.fail_after(HEAD_SECONDS):
                    if self._context is not None:
                        client = await _secured(stream, self._context)
                    if full:
                        raise _Refusal(503)
                    asking = BufferedByteStream(client)
                    request = await _asked(asking)
                    what = request.what
                    game = await self._reach()
                await _pass_on(asking, game, request, self.traffic)
            except _Refusal as refusal:
                self.traffic.requests[what, refusal.status] += 1
                with anyio.move_on_after(CLOSING_SECONDS):
                    await client.send(_answer(refusal.status))
        finally:
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                if game is not None:
                    await game.aclose()
                # Ends TLS properly, so that nobody can have cut the answer off unseen
                await client.aclose()

    async def _reach(self) -> SocketStream:
        while True:
            await self._led.wait()
            led = self._led
            try:
                return await connect_to(self.target)
            except OSError:
                if not self._again:
                    raise _Refusal(502) from None
                if led is self._led:
                    self._led = anyio.Event()
                    self._wanted.set()


@asynccontextmanager
async def open_gateway(address: PublicAddress, *, again: bool = False) -> AsyncGenerator[Gateway]:
    """Listen for other machines while the block is open; `Gateway.lead` says which game they get.

    At the end, clients have a moment to take the game's last messages.

    Args:
        address: Where others reach the game.
        again: Whether another game follows when one has ended, as for `Gateway`.

    Raises:
        UsageError: The certificate cannot be used, or the address cannot be listened on (`port_taken`, `bad_host`).
    """
    try:
        listener = await anyio.create_tcp_listener(local_host=address.host, local_port=address.port)
    except OSError as error:
        cause = _cause(error)
        if isinstance(cause, socket.gaierror) or cause.errno == errno.EADDRNOTAVAIL:
            raise UsageError(
                f"There is no address {address.host!r} on this machine.",
                code="bad_host",
                hint="Listen on one of its own addresses, or on 0.0.0.0 for all.",
            ) from None
        raise UsageError(
            f"Cannot listen on {address.host}, port {address.port}: {cause.strerror or cause}.",
            code="port_taken",
            hint=Hint("other_port", "Pass another port, or 0 for any."),
        ) from error
    gateway = Gateway(address, listener.extra(SocketAttribute.local_port), again=again)  # noqa: S610
    with unwrapped():
        async with listener, anyio.create_task_group() as accepting, anyio.create_task_group() as serving:
            accepting.start_soon(listener.serve, gateway.serve, serving)
            try:
                yield gateway
            finally:
                accepting.cancel_scope.cancel()
                serving.cancel_scope.deadline = anyio.current_time() + CLOSING_SECONDS


def _cause(error: OSError) -> OSError:
    """The failure of the one address of a host, or of the first of its addresses."""
    inner = error.__cause__
    if isinstance(inner, BaseExceptionGroup):
        several = cast("tuple[BaseException, ...]", inner.exceptions)
        inner = next((one for one in several if isinstance(one, OSError)), None)
    return inner if isinstance(inner, OSError) else error


def _notice_loss(connection: socket.socket) -> None:
    """Have the system end a connection whose other end is out of reach; nobody would notice otherwise."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", LOST_SECONDS),
        ("TCP_KEEPINTVL", 5),
        ("TCP_USER_TIMEOUT", LOST_SECONDS * 1000),
    ):
        # Not every system has them
        if (number := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, number, value)


@asynccontextmanager
async def _closed(stream: SocketStream) -> AsyncGenerator[None]:
    """Close a connection without waiting for anybody."""
    try:
        yield
    finally:
        await anyio.aclose_forcefully(stream)


async def _secured(stream: SocketStream, context: ssl.SSLContext) -> TLSStream:
    """Begin TLS.

    Raises:
        _Refusal: The client does not.
    """
    plain = BufferedByteStream(stream)
    first = await plain.receive(_CHUNK)
    if not first.startswith(_HANDSHAKE):
        raise _Refusal(426)
    plain.feed_data(first)
    return await TLSStream.wrap(plain, server_side=True, ssl_context=context)


async def _asked(client: BufferedByteStream) -> _Request:
    """Read what a client asks for.

    Raises:
        _Refusal: It is refused.
    """
    import h11  # Imported late, as in `http_requests`

    reading = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
    try:
        while (asked := reading.next_event()) is h11.NEED_DATA:
            reading.receive_data(await client.receive(_CHUNK))
    except (anyio.EndOfStream, h11.RemoteProtocolError):
        raise _Refusal(400) from None
    if not (isinstance(asked, h11.Request) and asked.http_version == b"1.1" and asked.target.startswith(b"/")):
        raise _Refusal(400)
    client.feed_data(reading.trailing_data[0])
    fields = dict(asked.headers)
    upgrades = fields.get(b"upgrade", b"").lower() == b"websocket"
    if b"transfer-encoding" in fields:
        raise _Refusal(411)
    # Not split as a URL: //name would be a host
    where, question, query = asked.target.decode().partition("?")
    where = unquote(where)
    path = plain_path(where)
    if path is None:
        raise _Refusal(400)
    if is_operator_path(path):
        raise _Refusal(403)
    target = quoted_path(path, asked=where) + question + query
    # One request for each connection, so that none passes by unread
    kept = [(name, value) for name, value in asked.headers.raw_items() if upgrades or name.lower() != b"connection"]
    kept += [] if upgrades else [(b"Connection", b"close")]
    head = h11.Connection(h11.CLIENT).send(h11.Request(method=asked.method, target=target, headers=kept)) or b""
    what = path if path in ("player", "global") else "page" if path.startswith(("client/", "clients/")) else "other"
    return _Request(head, what, upgrades, 0 if upgrades else int(fields.get(b"content-length", b"0")))


async def _pass_on(client: BufferedByteStream, game: SocketStream, request: _Request, traffic: Traffic) -> None:
    """Pass a request on and its answer back, and both directions of a websocket until one of them ends.

    Raises:
        _Refusal: The game gives no answer.
    """

    def received(size: int) -> None:
        traffic.received += size

    def sent(size: int) -> None:
        traffic.sent += size

    await game.send(request.head)
    received(len(request.head))
    await _copy(client, game, received, limit=request.body, idle_timeout=IDLE_SECONDS)
    answer = BufferedByteStream(game)
    patience = math.inf if request.upgrades else IDLE_SECONDS
    try:
        with anyio.fail_after(patience):
            status = await answer.receive_until(b"\r\n", _MAX_HEAD) + b"\r\n"
    except (anyio.DelimiterNotFound, anyio.IncompleteRead, anyio.BrokenResourceError):
        raise _Refusal(502) from None
    number = re.match(rb"HTTP/1\.[01] ([1-5][0-9]{2})\b", status)
    if number is None:
        raise _Refusal(502)
    traffic.requests[request.what, int(number[1])] += 1
    await client.send(status)
    sent(len(status))
    # Where no websocket is opened, what follows would be another request
    if not (request.upgrades and int(number[1]) == http.HTTPStatus.SWITCHING_PROTOCOLS):
        await _copy(answer, client, sent, idle_timeout=IDLE_SECONDS)
        return

    async def up() -> None:
        await _copy(client, game, received)
        # The game may still have something to say
        with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await game.send_eof()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(up)
        await _copy(answer, client, sent)
        tasks.cancel_scope.cancel()


async def _copy(
    source: BufferedByteStream,
    sink: ByteSendStream,
    count: Callable[[int], None],
    *,
    limit: int | None = None,
    idle_timeout: float = math.inf,
) -> None:
    """Copy bytes until the source has ended, the sink is gone, `limit` is reached, or nothing comes for too long."""
    left = limit
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
        while left is None or left > 0:
            with anyio.fail_after(idle_timeout):
                data = await source.receive(_CHUNK if left is None else min(_CHUNK, left))
            left = None if left is None else left - len(data)
            await sink.send(data)
            count(len(data))


def _answer(status: int) -> bytes:
    body = _REFUSED[status].encode()
    head = (
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join(head).encode() + _END + body
