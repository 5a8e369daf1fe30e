"""Websocket connections whose peer cannot hold the event loop, however it cuts what it sends into frames.

The library parses all that one read returns, up to 256 KiB, before other tasks get a turn. That may be a hundred
thousand pings, which take seconds.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection
from websockets.frames import CTRL_OPCODES, CloseCode, Frame

from .own_connections import note_own

__all__ = ["PacedClient", "PacedServer"]

_LEAST, _FIRST, _MOST = 128, 4096, 8192
"""Bytes of one read."""
_FRAMES = 64
"""Frames of one read to aim at: about a millisecond of work."""
_CONTROL_FRAMES = 5000
"""Maximum pings and pongs of a peer in a second."""
_UNREAD = 64 * 1024 * 1024
"""Maximum bytes that wait for a peer that sends pings and does not read the answers."""


class _Paced(Connection, asyncio.BufferedProtocol):
    """Reads fewer bytes at once the more frames they hold, and disconnects a peer that floods it with pings."""

    flooded = False
    """Whether the peer was disconnected for its pings and pongs."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._buffer = memoryview(bytearray(_MOST))
        self._room = _FIRST
        self._frames = 0
        self._second, self._control = 0, 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes are to be put."""
        return self._buffer[: self._room]

    def buffer_updated(self, nbytes: int) -> None:
        """Parse the bytes just read, and decide how many to read next."""
        self._frames = 0
        self.data_received(bytes(self._buffer[:nbytes]))
        if self._frames > _FRAMES:
            self._room = max(_LEAST, self._room * _FRAMES // self._frames)
        elif nbytes == self._room:
            self._room = min(_MOST, self._room * 2)

    def process_event(self, event: Any) -> None:
        """Count a frame, and process it."""
        self._frames += 1
        if isinstance(event, Frame) and event.opcode in CTRL_OPCODES:
            second = int(self.loop.time())
            self._control = self._control + 1 if second == self._second else 1
            self._second = second
            if self._control > _CONTROL_FRAMES or self.transport.get_write_buffer_size() > _UNREAD:
                self.flooded = True
                self.transport.abort()
        super().process_event(event)


class PacedClient(_Paced, ClientConnection):
    """A client's connection. It ends at once at a message that is too long: the server might never close it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # There is none if the other side has closed it already
        if (peer := transport.get_extra_info("peername")) is not None:
            note_own(transport.get_extra_info("sockname")[1], peer[1])
        super().connection_made(transport)

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection; cut it if that is cancelled."""
        try:
            await super().__aexit__(kind, value, traceback)
        finally:
            self.transport.abort()

    def buffer_updated(self, nbytes: int) -> None:
        """Parse the bytes just read, and decide how to go on."""
        super().buffer_updated(nbytes)
        sent = self.protocol.close_sent
        if sent is not None and sent.code == CloseCode.MESSAGE_TOO_BIG:
            self.transport.abort()


class PacedServer(_Paced, ServerConnection):
    """A server's connection to a client."""
