"""A relay between a game and its players: can discard and delay players' messages, and lets others watch seats."""

from __future__ import annotations

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

from coworld_core.rules.seat_wire import MAX_MESSAGE, PICTURE

from ...episode.contract_probes import seat_query
from ...web.game_socket import connect_to_game
from ..server.game_server import seat_of

__all__ = ["SIT", "WATCH", "Relay"]

SIT: Final = "/seat/player"
"""Path of a seat's socket, with the query that the game expects."""
WATCH: Final = "/watch/player"
"""Path of a socket that only watches what a seat receives."""

_WAITING: Final = 1000
"""Messages of a seat that wait for their delay or for the game; a player that sends more has to wait as well."""

_KEPT: Final = 50
"""Latest messages of a seat that a new watcher receives, after the first one."""
_ABNORMAL: Final = (1005, 1006, 1015)
"""Close codes that only describe how a connection ended, and must not be sent."""


@dataclass
class _Seat:
    """One seat: its faults and its connections."""

    muted: bool = False
    delay: float = 0.0
    """Delay of the player's messages, in seconds."""
    pair: tuple[Connection, Connection] | None = None
    watchers: set[Connection] = field(default_factory=set[Connection])
    first: str | bytes | None = None
    recent: deque[str | bytes] = field(default_factory=lambda: deque[str | bytes](maxlen=_KEPT))


@dataclass(frozen=True)
class _Game:
    """The game that the relay connects to."""

    address: str
    tokens: tuple[str, ...]


class Relay:
    """Connects a server's sockets to those of the current game. A seat keeps its faults from game to game."""

    def __init__(self) -> None:
        self._seats: dict[int, _Seat] = {}
        self._tokens: tuple[str, ...] = ()
        self._game: _Game | None = None
        self._opened = anyio.Event()
        self._connections: set[Connection] = set()

    def seat(self, slot: int) -> _Seat:
        """Return a seat, with its faults."""
        return self._seats.setdefault(slot, _Seat())

    def expect(self, tokens: tuple[str, ...]) -> None:
        """Admit clients with the tokens of a game that is about to start; they wait for `lead`."""
        self.close()
        self._tokens = tokens

    def lead(self, address: str) -> None:
        """Connect clients to the game that listens at `host:port`."""
        self._game = _Game(address, self._tokens)
        self._opened.set()

    def close(self) -> None:
        """Cut all connections, and connect to no game."""
        self._tokens, self._game = (), None
        for connection in self._connections:
            connection.transport.abort()
        for seat in self._seats.values():
            seat.first = None
            seat.recent.clear()
        self._opened.set()
        self._opened = anyio.Event()

    def drop(self, slot: int) -> None:
        """Cut the connection of a seat's player, as a network failure would."""
        for connection in self.seat(slot).pair or ():
            connection.transport.abort()

    def admits(self, url: SplitResult) -> bool:
        """Whether an address is that of a socket here, with a valid token."""
        return url.path in (SIT, WATCH) and seat_of(url, self._tokens) is not None

    async def serve(self, connection: ServerConnection, url: SplitResult) -> None:
        """Serve a socket whose address `admits` accepts."""
        slot = seat_of(url, self._tokens)
        self._connections.add(connection)
        try:
            if slot is not None and url.path == WATCH:
                await self._show(connection, self.seat(slot))
            elif (game := await self._ready()) is None or slot is None:
                connection.transport.abort()
            else:
                query = seat_query(slot, game.tokens[slot])
                await self._lead(connection, game.address, f"/player?{query}", self.seat(slot))
        finally:
            self._connections.discard(connection)

    async def _ready(self) -> _Game | None:
        """Wait for the game, and return it; None if the relay was closed meanwhile."""
        if self._game is None:
            await self._opened.wait()
        return self._game

    async def _show(self, connection: Connection, seat: _Seat) -> None:
        said = [] if seat.first is None else [seat.first, *seat.recent]
        for message in said:
            broadcast([connection], message)
        seat.watchers.add(connection)
        try:
            async for message in connection:
                # A page that only watches a seat shows its picture, too; the seat's player ignores the answer.
                if message == PICTURE and seat.pair is not None:
                    broadcast([seat.pair[1]], message)
        except ConnectionClosed:
            pass
        finally:
            seat.watchers.discard(connection)

    async def _lead(self, connection: Connection, address: str, target: str, seat: _Seat) -> None:
        try:
            game = await connect_to_game(address, target, max_size=MAX_MESSAGE, ping_timeout=None)
        except (InvalidHandshake, OSError, EOFError):
            connection.transport.abort()
            return
        pair = (connection, game)
        seat.pair, seat.first = pair, None
        seat.recent.clear()
        try:
            late, to_send = anyio.create_memory_object_stream[tuple[float, str | bytes]](_WAITING)
            with late, to_send:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_hear, connection, late, seat, game)
                    tasks.start_soon(_tell, game, to_send)
                    await _down(game, connection, seat)
                    tasks.cancel_scope.cancel()
        finally:
            if seat.pair is pair:
                seat.pair = None
            with anyio.CancelScope(shield=True):
                await _hang_up(game, connection)


async def _down(game: ClientConnection, connection: Connection, seat: _Seat) -> None:
    """Pass the game's messages on to the player and the watchers."""
    try:
        async for message in game:
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
    seat: _Seat,
    game: ClientConnection,
) -> None:
    """Queue a player's messages, unless they are muted, with the times at which they are due."""
    try:
        async for message in connection:
            if not seat.muted:
                await late.send((anyio.current_time() + seat.delay, message))
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
    """End the player's connection the way that the game's has ended; abort both if the game's is still open."""
    code = game.close_code
    if code is None:
        game.transport.abort()
    if code is None or code in _ABNORMAL:
        connection.transport.abort()
    else:
        await connection.close(code, game.close_reason or "")
