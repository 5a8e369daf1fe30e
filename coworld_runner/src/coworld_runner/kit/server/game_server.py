"""Routes and connections in both protocol dialects: pages, and the sockets of players, spectators and replays."""

from __future__ import annotations

import hmac
import http
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol
from urllib.parse import SplitResult, parse_qs

import anyio
from websockets.asyncio.server import Server, ServerConnection, broadcast
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from coworld_core.errors import CoworldError
from coworld_core.rules import RulesError

from ...web.http_server import CLOSING_SECONDS, address_of, open_server, page_response, response
from ...web.page_documents import Document
from .outbox import Outbox
from .pages import render
from .sample_stream import SampleStream

__all__ = [
    "Load",
    "ReplayFeed",
    "Reply",
    "ServedGame",
    "replay_server",
    "seat_of",
    "serve_game",
    "talked_out",
]

STUCK_SECONDS: Final = 10.0
"""A client that accepts no data for this many seconds is dropped."""

VIEWER_PAUSE: Final = 1 / 30
"""Seconds between two states for one spectator."""

FREE_MESSAGES: Final = 32
"""Refused messages in a row that a connection may send at full speed; each further one is delayed."""

LONG_MESSAGE: Final = 32 * 1024
"""Size of a refused message that counts as two: it takes as long to read."""

FLOOD_PAUSE: Final = 0.05

MAX_VIEWERS: Final = 1000

Reply = Callable[[str | bytes], str | None]
"""Takes a message and may return an answer."""

Answer = Callable[[str | bytes], Awaitable[Sequence[str]]]
"""Takes a message of a viewer and returns what is sent to it."""


async def _silence(_: str | bytes) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class ReplayFeed:
    """A replay as it is shown: the messages that every viewer gets, and what answers those of viewers."""

    messages: Sequence[str]
    answer: Answer = _silence


Load = Callable[[str], Awaitable[ReplayFeed]]
"""Loads the replay at an address."""

_Pages = Callable[[str], Document]
"""Makes a page of its name: `player`, `global`, `replay`, or one of the game's own."""


class ServedGame(Protocol):
    """A running game as its connections see it. Messages go through outboxes, so the game never waits for a client."""

    def join(self, slot: int, /) -> Outbox:
        """Give a seat to a new connection."""
        ...

    def leave(self, slot: int, outbox: Outbox, /) -> None:
        """Record that the connection behind `outbox` is gone."""
        ...

    def receive(self, slot: int, message: str | bytes, /) -> str | None:
        """Handle a message from a seat, and return an answer if it is refused."""
        ...

    def delivered(self, slot: int, /) -> None:
        """Record that a seat's pending messages were sent."""
        ...

    def watch(self) -> Outbox:
        """Add a spectator."""
        ...

    def unwatch(self, outbox: Outbox, /) -> None:
        """Remove a spectator."""
        ...

    def fail(self, error: RulesError, /) -> None:
        """End the game with a failure of the rules that a connection has caused."""
        ...


@asynccontextmanager
async def serve_game(
    game: ServedGame,
    tokens: Sequence[str],
    *,
    listener: socket.socket,
    pages: _Pages = render,
    operators: Mapping[str, Reply] = MappingProxyType({}),
    samples: SampleStream | None = None,
) -> AsyncGenerator[Server]:
    """Serve a running game.

    Args:
        game: The game.
        tokens: The secret of each seat.
        listener: The socket to listen on.
        pages: Its pages: `player`, `global`, and one for each of `operators`.
        operators: Additional sockets of the game, by name: each is a spectator whose messages are answered. They
            require no token, so offer them only when the game is asked to.
        samples: The game's samples, for the socket `/samples`; None: there is none.
    """
    watching = 0

    async def connected(connection: ServerConnection) -> None:
        nonlocal watching
        url = address_of(connection.request)
        try:
            if url.path == "/player":
                slot = seat_of(url, tokens)
                assert slot is not None, "the route refuses all others"
                outbox = game.join(slot)
                try:
                    await converse(
                        connection, outbox, answer=partial(game.receive, slot), sent=partial(game.delivered, slot)
                    )
                finally:
                    game.leave(slot, outbox)
            elif url.path == "/samples":
                assert samples is not None, "the route refuses others"
                await samples.send_to(connection)
            else:
                watching += 1
                outbox = game.watch()
                try:
                    await converse(connection, outbox, answer=operators.get(url.path[1:]), pause=VIEWER_PAUSE)
                finally:
                    watching -= 1
                    game.unwatch(outbox)
        except RulesError as error:
            game.fail(error)

    async def route(connection: ServerConnection, request: Request) -> Response | None:
        url = address_of(request)
        if url.path == "/player":
            if seat_of(url, tokens) is None:
                return connection.respond(http.HTTPStatus.FORBIDDEN, "slot or token missing or wrong\n")
            return None
        if url.path == "/samples" and samples is not None:
            if not samples.admits(parse_qs(url.query).get("token", [""])[0]):
                return connection.respond(http.HTTPStatus.FORBIDDEN, "token missing or wrong, or already read\n")
            return None
        if url.path == "/global" or url.path[1:] in operators:
            if set(parse_qs(url.query).get("eye", ())) - {"public"}:
                words = (
                    "whoever watches a game is the public: what a seat sees needs its token, and all is in the replay\n"
                )
                return connection.respond(http.HTTPStatus.FORBIDDEN, words)
            full = watching >= MAX_VIEWERS
            return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "too many viewers\n") if full else None
        return _common(connection, url, pages=pages, names=("player", "global", *operators), home="client/global")

    async with open_server(connected, route, listener) as server:
        yield server


@asynccontextmanager
async def replay_server(
    feed: ReplayFeed | None,
    *,
    load: Load,
    listener: socket.socket,
    pages: _Pages = render,
) -> AsyncGenerator[Server]:
    """Serve one replay, or, in the older dialect, the replays that requests name with `?uri=`.

    Args:
        feed: The one replay; None: each request names its replay.
        load: Loads a replay by its address.
        listener: The socket to listen on.
        pages: Makes the page `replay`.
    """

    async def named(url: SplitResult) -> ReplayFeed:
        return feed if feed is not None else await load(parse_qs(url.query).get("uri", [""])[0])

    async def connected(connection: ServerConnection) -> None:
        with suppress(CoworldError, ConnectionClosed):
            shown = await named(address_of(connection.request))
            for message in shown.messages:
                await connection.send(message)
            free = FREE_MESSAGES
            async for asked in connection:
                for message in await shown.answer(asked):
                    await connection.send(message)
                free -= 1 + len(asked) // LONG_MESSAGE
                if free < 0:
                    await anyio.sleep(FLOOD_PAUSE)

    async def route(connection: ServerConnection, request: Request) -> Response | None:
        url = address_of(request)
        is_page = re.match(r"/clients?/replay(/|$)", url.path)
        if not is_page and not re.match(r"/replay(/|$)", url.path):
            return _common(connection, url, pages=pages, names=(), home="client/replay")
        try:
            await named(url)
        except CoworldError as error:
            status = http.HTTPStatus.NOT_FOUND if parse_qs(url.query).get("uri") else http.HTTPStatus.BAD_REQUEST
            return connection.respond(status, f"{error.message}\n")
        return page_response(pages("replay")) if is_page else None

    async with open_server(connected, route, listener, compress=True) as server:
        yield server


async def converse(
    connection: ServerConnection,
    outbox: Outbox,
    *,
    answer: Reply | None = None,
    sent: Callable[[], None] | None = None,
    pause: float = 0.0,
) -> None:
    """Serve one connection until it closes, is finished, or is stuck.

    Args:
        connection: The connection.
        outbox: The messages to send, added while this runs.
        answer: Takes each message and may return a reply; None: messages are ignored.
        sent: Called when all pending messages have been handed to the network.
        pause: Minimum seconds between two rounds of sending.
    """
    sending = False

    def at_once() -> bool:
        # Switching to the sending task would take as long as sending the message.
        if sending or connection.transport.get_write_buffer_size():
            return False
        for message in outbox.pending():
            broadcast([connection], message)
        if sent is not None:
            sent()
        return True

    async with anyio.create_task_group() as tasks:

        async def send() -> None:
            nonlocal sending
            try:
                while True:
                    messages = await outbox.take()
                    sending = True
                    with anyio.fail_after(STUCK_SECONDS):
                        for message in messages:
                            await connection.send(message)
                        if sent is not None:
                            sent()
                        # Nothing can be added to a finished outbox, so everything is sent.
                        if outbox.close_reason is not None:
                            await connection.close(reason=outbox.close_reason)
                            break
                    sending = False
                    if pause:
                        await anyio.sleep(pause)
            except TimeoutError:
                connection.transport.abort()
            except ConnectionClosed:
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(send)
        if not pause:
            outbox.at_once = at_once
        free = FREE_MESSAGES
        try:
            async for message in connection:
                reply = None if answer is None else answer(message)
                if reply is None and answer is not None:
                    free = FREE_MESSAGES
                    continue
                if reply is not None:
                    outbox.notify(reply)
                free -= 1 + len(message) // LONG_MESSAGE
                if free < 0:
                    # Unread messages fill only the sender's own buffers.
                    await anyio.sleep(FLOOD_PAUSE)
        except ConnectionClosed:
            pass
        tasks.cancel_scope.cancel()


async def talked_out(server: Server) -> None:
    """Wait until the clients have closed their sockets, at most `CLOSING_SECONDS`.

    If the server ended while a client's message is unread, the kernel would reset the connection, and the client could
    lose the last message.
    """
    with anyio.move_on_after(CLOSING_SECONDS):
        for connection in server.connections:
            await connection.wait_closed()


def seat_of(url: SplitResult, tokens: Sequence[str]) -> int | None:
    """Return the slot in the query, or None if the slot or its token is missing or wrong."""
    query = parse_qs(url.query)
    slot, token = query.get("slot", [""])[0], query.get("token", [""])[0]
    if not (slot.isascii() and slot.isdigit() and len(slot) < 5 and int(slot) < len(tokens)):
        return None
    right = hmac.compare_digest(token.encode(errors="replace"), tokens[int(slot)].encode(errors="replace"))
    return int(slot) if right else None


def _common(
    connection: ServerConnection, url: SplitResult, *, pages: _Pages, names: Sequence[str], home: str
) -> Response:
    """The routes of every server: health, the pages under both prefixes, and a redirect from the root to a page."""
    if url.path == "/healthz":
        return response(http.HTTPStatus.OK, b'{"ok":true}', {"Content-Type": "application/json"})
    if match := re.fullmatch(rf"/clients?/({'|'.join(names) or '$'})", url.path):
        return page_response(pages(match[1]))
    if url.path == "/":
        return response(http.HTTPStatus.TEMPORARY_REDIRECT, b"", {"Location": home})
    return connection.respond(http.HTTPStatus.NOT_FOUND, "no such page\n")
