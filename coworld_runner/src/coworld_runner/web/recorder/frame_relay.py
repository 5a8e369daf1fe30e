"""Passes on what players and their game say, and reads it afterwards."""

from __future__ import annotations

import errno
import hmac
import selectors
import socket
import time
from urllib.parse import parse_qs, urlsplit

from .frame_port import FramePort, fields_of, prepare
from .kept_frames import KeptFrames
from .socket_messages import MessageReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["FrameRelay"]

_CHUNK = 1 << 16
_HELD_BACK = 1 << 20
"""Bytes that wait for one side; above that, nothing more is read from the other."""
_HEAD = 1 << 16
"""Bytes of the longest head of a request."""
_MOST_EACH = 32
"""Connections of one host at a time, besides some for each seat, so that no player can block the others."""
_NOT_PASSED_ON = (b"sec-websocket-extensions", b"connection")


class FrameRelay:
    """Everything that the program does, in one loop.

    Args:
        game: Host and port of the game.
        tokens: The token of each seat.
        token: What the reader of the frames must know.

    Attributes:
        frames: The kept frames.
        unread: What was passed on and not read yet: seat, time, direction, the reader of its messages, and the bytes.
    """

    def __init__(self, game: tuple[str, int], tokens: Sequence[str], token: str) -> None:
        self._game, self._tokens = game, tokens
        self._place: tuple[Any, ...] | None = None
        self._selector = selectors.DefaultSelector()
        self._open: dict[str, int] = {}
        self._most_each = _MOST_EACH + 8 * len(tokens)
        self.unread: list[tuple[int, float, str, MessageReader, bytes]] = []
        self.frames = KeptFrames(len(tokens))
        self._port = FramePort(self._selector, token, self.frames, self._read_all)

    def run(self, players: socket.socket, frames: socket.socket) -> None:
        """Serve until the reader has got everything; without a reader, until the process is ended."""
        for listener, accept in ((players, self._accept), (frames, self._port.accept)):
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, accept)
        while True:
            for key, events in self._selector.select(self._port.pause()):
                if type(key.data) is _Side:
                    self._serve(key.data, events)
                else:
                    key.data(key.fileobj)
            # Everything has been passed on, and nobody waits for this
            self._read_all()
            if self._port.send():
                return self._port.close()

    def _read_all(self) -> None:
        for seat, when, direction, reader, data in self.unread:
            for is_text, content, size in reader.feed(data):
                self.frames.add(seat, when, direction, is_text, content, size)
        self.unread.clear()

    # Connections

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, (host, *_) = listener.accept()
        except OSError:
            return
        if self._open.get(host, 0) >= self._most_each:
            client.close()
            return
        self._open[host] = self._open.get(host, 0) + 1
        prepare(client)
        self.watch(_Link(self, client, host).client)

    def ended(self, host: str) -> None:
        """Note that a connection of a host is closed."""
        self._open[host] -= 1

    def connect(self) -> socket.socket:
        """Begin a connection to the game.

        Raises:
            OSError: It is refused at once.
        """
        if self._place is None:
            self._place = socket.getaddrinfo(*self._game, type=socket.SOCK_STREAM)[0]
        family, kind, protocol, _, address = self._place
        game = socket.socket(family, kind, protocol)
        prepare(game)
        if (code := game.connect_ex(address)) not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            game.close()
            raise OSError(code, "The game refuses the connection")
        return game

    def seat_of(self, request: bytes) -> int | None:
        """The seat whose token is in the first line of a request."""
        target = request.split(b" ")[1:2]
        query = parse_qs(urlsplit(target[0].decode("ascii", "replace")).query) if target else {}
        slot, token = query.get("slot", [""])[0], query.get("token", [""])[0]
        if not (slot.isascii() and slot.isdigit() and len(slot) < 5 and int(slot) < len(self._tokens)):
            return None
        is_right = hmac.compare_digest(token.encode(errors="replace"), self._tokens[int(slot)].encode())
        return int(slot) if is_right else None

    # Bytes

    def _serve(self, side: _Side, events: int) -> None:
        if not side.events:
            return  # Closed by an event before this one
        if events & selectors.EVENT_WRITE:
            if not side.connected:
                side.connected = True
                if side.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    side.link.close()
                    return
            self.send(side)
        if events & side.events & selectors.EVENT_READ:
            side.link.read(side)

    def send(self, side: _Side, data: bytes = b"") -> None:
        """Send to a side what it takes now, and the rest when it takes more."""
        try:
            if side.connected and data and not side.waiting:
                data = data[side.socket.send(data) :]
                if not data:
                    return
            elif side.connected and side.waiting:
                del side.waiting[: side.socket.send(side.waiting)]
        except BlockingIOError:
            pass
        except OSError:
            side.link.close()
            return
        side.waiting += data
        self.watch(side)

    def watch(self, side: _Side) -> None:
        """Wait for what the two sides of a connection may do next, and close one that has nothing more to do."""
        link = side.link
        game = link.game
        for one, other in ((link.client, game), (game, link.client)):
            if one is None:
                continue
            if other is not None and other.at_end and one.connected and not one.waiting and not one.end_sent:
                one.end_sent = True
                try:
                    one.socket.shutdown(socket.SHUT_WR)
                except OSError:
                    link.close()
                    return
            is_full = other is not None and len(other.waiting) > _HELD_BACK
            events = 0 if one.at_end or is_full or not one.connected else selectors.EVENT_READ
            events |= selectors.EVENT_WRITE if one.waiting or not one.connected else 0
            self._register(one, events)
        if game is not None and link.client.end_sent and game.end_sent:
            link.close()

    def forget(self, side: _Side) -> None:
        """Close a socket."""
        self._register(side, 0)
        side.socket.close()

    def _register(self, side: _Side, events: int) -> None:
        if events == side.events:
            return
        if not events:
            self._selector.unregister(side.socket)
        elif not side.events:
            self._selector.register(side.socket, events, side)
        else:
            self._selector.modify(side.socket, events, side)
        side.events = events


class _Side:
    """One of the two sockets of a connection, and what waits to be sent to it."""

    def __init__(self, end: socket.socket, link: _Link, *, connected: bool) -> None:
        self.socket, self.link, self.connected = end, link, connected
        self.waiting = bytearray()
        self.at_end = False
        """Whether it has sent its last byte."""
        self.end_sent = False
        """Whether it was told that the other has."""
        self.events = 0


class _Link:
    """One connection through the relay."""

    def __init__(self, relay: FrameRelay, client: socket.socket, host: str) -> None:
        self._relay = relay
        self._host: str | None = host
        """Where it comes from; None once it is closed."""
        self.client = _Side(client, self, connected=True)
        self.game: _Side | None = None
        self._request: bytearray | None = bytearray()
        """The request's head, until it is whole."""
        self._answer: bytearray | None = bytearray()
        """The answer's head, until it is whole."""
        self._first = b""
        """What the client has sent right after its request."""
        self._seat: int | None = None
        self._readers: dict[str, MessageReader] = {}

    def read(self, side: _Side) -> None:
        """Pass on what a side has sent."""
        try:
            data = side.socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if self.game is None:
            self._read_request(data)
            return
        is_client = side is self.client
        if not data:
            side.at_end = True
            self._relay.watch(side)
            return
        self._relay.send(self.game if is_client else self.client, data)
        if self._readers:
            self._keep("to_game" if is_client else "to_player", data)
        elif is_client:
            self._first += data if self._seat is not None and self._answer is not None else b""
        elif self._answer is not None:
            self._read_answer(self._answer, data)

    def _read_request(self, data: bytes) -> None:
        """Connect to the game once the head of the request is whole."""
        assert self._request is not None
        self._request += data
        end = self._request.find(b"\r\n\r\n")
        if end < 0:
            if not data or len(self._request) > _HEAD:
                self.close()
            return
        first, *lines = bytes(self._request[:end]).split(b"\r\n")
        self._first, self._request = bytes(self._request[end + 4 :]), None
        is_socket = fields_of(lines).get(b"upgrade", b"").lower() == b"websocket"
        lines = [line for line in lines if line.partition(b":")[0].strip().lower() not in _NOT_PASSED_ON]
        # One request on each connection: a later one might open a socket that is not seen
        lines.append(b"Connection: " + (b"Upgrade" if is_socket else b"close"))
        self._seat = self._relay.seat_of(first) if is_socket else None
        try:
            game = self._relay.connect()
        except OSError:
            self.close()
            return
        self.game = _Side(game, self, connected=False)
        self._relay.send(self.game, b"\r\n".join([first, *lines, b"", b""]) + self._first)

    def _read_answer(self, answer: bytearray, data: bytes) -> None:
        """See whether the game has let a player in; from then on, messages are kept."""
        answer += data
        end = answer.find(b"\r\n\r\n")
        if end < 0 and len(answer) <= _HEAD:
            return
        self._answer = None
        if self._seat is not None and answer.split(b" ", 2)[1:2] == [b"101"]:
            self._readers = {"to_game": MessageReader(), "to_player": MessageReader()}
            self._keep("to_game", self._first)
            self._keep("to_player", bytes(answer[end + 4 :]))

    def _keep(self, direction: str, data: bytes) -> None:
        assert self._seat is not None
        if data and self._relay.frames.is_open:
            self._relay.unread.append((self._seat, time.time(), direction, self._readers[direction], data))

    def close(self) -> None:
        """Close both sides."""
        if self._host is None:
            return
        self._relay.ended(self._host)
        self._host = None
        for side in (self.client, self.game):
            if side is not None:
                self._relay.forget(side)
