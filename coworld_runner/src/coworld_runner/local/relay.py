"""What stands between the seats of a game and who sits in them: what they say is lost or late, and others may look."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.connection import Connection, broadcast
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from ..episode.probes import seat_query
from ..serving.server import seat_of
from ..websocket import game_socket

__all__ = ["GLOBAL", "SIT", "WATCH", "Relay"]

SIT: Final = "/seat/player"
"""Path of a seat, with the same query that the game asks for."""
WATCH: Final = "/watch/player"
"""Path of what a seat is told, for those who only look."""
GLOBAL: Final = ("/seat/global", "/watch/global")
"""Where a player's page finds the spectators' socket: beside its own."""

_KEPT: Final = 50
"""Messages of a seat that a newcomer who only looks is told, beside the first."""
_ABNORMAL: Final = (1005, 1006, 1015)
"""Codes that say how a connection ended, and may not be sent."""


@dataclass
class _Seat:
    """One seat: its faults, and who is connected."""

    muted: bool = False
    delay: float = 0.0
    """Seconds."""
    pair: tuple[Connection, Connection] | None = None
    watchers: set[Connection] = field(default_factory=set[Connection])
    first: str | bytes | None = None
    recent: deque[str | bytes] = field(default_factory=lambda: deque[str | bytes](maxlen=_KEPT))


@dataclass(frozen=True)
class _Game:
    """Where the relay leads to."""

    address: str
    tokens: tuple[str, ...]


class Relay:
    """Leads from sockets of a server to those of the game of the moment. Faults stay with a seat from game to game."""

    def __init__(self) -> None:
        self._seats: dict[int, _Seat] = {}
        self._tokens: tuple[str, ...] = ()
        self._game: _Game | None = None
        self._opened = anyio.Event()
        self._connections: set[Connection] = set()

    def seat(self, slot: int) -> _Seat:
        """A seat and its faults."""
        return self._seats.setdefault(slot, _Seat())

    def expect(self, tokens: tuple[str, ...]) -> None:
        """Let in who has the tokens of a game that is about to be there; they wait for ``lead``."""
        self.close()
        self._tokens = tokens

    def lead(self, address: str) -> None:
        """Lead to the game that listens at ``host:port``."""
        self._game = _Game(address, self._tokens)
        self._opened.set()

    def close(self) -> None:
        """Lead nowhere: whoever is connected is cut off."""
        self._tokens, self._game = (), None
        for connection in self._connections:
            connection.transport.abort()
        for seat in self._seats.values():
            seat.first = None
            seat.recent.clear()
        self._opened.set()
        self._opened = anyio.Event()

    def drop(self, slot: int) -> None:
        """Cut the connection of who sits in a seat, as a network would."""
        for connection in self.seat(slot).pair or ():
            connection.transport.abort()

    def admits(self, url: SplitResult) -> bool:
        """Whether a socket may be had at an address."""
        return url.path in (SIT, WATCH, *GLOBAL) and seat_of(url, self._tokens) is not None

    async def serve(self, connection: ServerConnection, url: SplitResult) -> None:
        """Serve a socket that ``admits`` lets in."""
        slot = seat_of(url, self._tokens)
        self._connections.add(connection)
        try:
            if slot is not None and url.path == WATCH:
                await self._show(connection, self.seat(slot))
            elif (game := await self._ready()) is None or slot is None:
                connection.transport.abort()
            elif url.path in GLOBAL:
                await self._lead(connection, game.address, "/global", None)
            else:
                query = seat_query(slot, game.tokens[slot])
                await self._lead(connection, game.address, f"/player?{query}", self.seat(slot))
        finally:
            self._connections.discard(connection)

    async def _ready(self) -> _Game | None:
        """The game, once it is there; None when it will not be."""
        if self._game is None:
            await self._opened.wait()
        return self._game

    async def _show(self, connection: Connection, seat: _Seat) -> None:
        said = [] if seat.first is None else [seat.first, *seat.recent]
        for message in said:
            broadcast([connection], message)
        seat.watchers.add(connection)
        try:
            async for _ in connection:
                pass
        except ConnectionClosed:
            pass
        finally:
            seat.watchers.discard(connection)

    async def _lead(self, connection: Connection, address: str, target: str, seat: _Seat | None) -> None:
        try:
            game = await game_socket(address, target, max_size=None, ping_timeout=None, compression=None)
        except (InvalidHandshake, OSError, EOFError):
            connection.transport.abort()
            return
        pair = (connection, game)
        if seat is not None:
            seat.pair, seat.first = pair, None
            seat.recent.clear()
        try:
            late, to_send = anyio.create_memory_object_stream[tuple[float, str | bytes]](math.inf)
            with late, to_send:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_hear, connection, late, seat, game)
                    tasks.start_soon(_tell, game, to_send)
                    await _down(game, connection, seat)
                    tasks.cancel_scope.cancel()
        finally:
            if seat is not None and seat.pair is pair:
                seat.pair = None
            with anyio.CancelScope(shield=True):
                await _hang_up(game, connection)


async def _down(game: ClientConnection, connection: Connection, seat: _Seat | None) -> None:
    """What the game says, to who sits there and to who looks."""
    try:
        async for message in game:
            if seat is not None:
                if seat.first is None:
                    seat.first = message
                else:
                    seat.recent.append(message)
                broadcast(seat.watchers, message)
            await connection.send(message)
    except ConnectionClosed:
        pass


async def _hear(
    connection: Connection,
    late: MemoryObjectSendStream[tuple[float, str | bytes]],
    seat: _Seat | None,
    game: ClientConnection,
) -> None:
    """What a player says, as far as it is not lost, with the time at which it is to arrive."""
    try:
        async for message in connection:
            if seat is None or not seat.muted:
                late.send_nowait((anyio.current_time() + (seat.delay if seat is not None else 0.0), message))
    except ConnectionClosed:
        game.transport.abort()
    else:
        await game.close()


async def _tell(game: ClientConnection, to_send: MemoryObjectReceiveStream[tuple[float, str | bytes]]) -> None:
    async for due, message in to_send:
        await anyio.sleep_until(due)
        try:
            await game.send(message)
        except ConnectionClosed:
            return


async def _hang_up(game: ClientConnection, connection: Connection) -> None:
    """End both as the first of them ended."""
    code = game.close_code
    if code is None:
        game.transport.abort()
    if code is None or code in _ABNORMAL:
        connection.transport.abort()
    else:
        await connection.close(code, game.close_reason or "")
