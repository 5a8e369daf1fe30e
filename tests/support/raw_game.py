"""Games that are a few bytes: what is written to each client that connects, and how the connection ends."""

from __future__ import annotations

import binascii
import hashlib
import re
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteStream, SocketAttribute

from .fake_server import serve_streams

__all__ = ["CLOSE", "PING", "TEXT", "UPGRADE", "frame", "raw_game"]

TEXT, CLOSE, PING = 1, 8, 9
UPGRADE = b"(accepted)"
"""In an answer, stands for the acceptance of the client's websocket."""
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(payload: bytes, kind: int = TEXT) -> bytes:
    """A frame as servers send it."""
    size = len(payload)
    if size < 126:
        return bytes((0x80 | kind, size)) + payload
    if size < 1 << 16:
        return bytes((0x80 | kind, 126)) + struct.pack(">H", size) + payload
    return bytes((0x80 | kind, 127)) + struct.pack(">Q", size) + payload


@asynccontextmanager
async def raw_game(
    *pieces: bytes, pause: float = 0.0, then: str = "stays", older: bytes | None = None
) -> AsyncGenerator[str]:
    """A game that sends the same bytes to each client; yields its address.

    Args:
        pieces: What it sends.
        pause: Seconds after each piece.
        then: `stays` with the client, `closes` or `resets` the connection, or `repeats` the last piece for ever.
        older: What it sends for paths below `/clients`, if that is something else.
    """

    async def attend(stream: ByteStream) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await stream.receive()
        for piece in (older,) if older and b" /clients/" in head else pieces:
            await stream.send(piece.replace(UPGRADE, _acceptance(head)) if UPGRADE in piece else piece)
            await anyio.sleep(pause)
        while then == "repeats":
            await stream.send(pieces[-1])
        while then == "stays":
            await stream.receive()
        if then == "resets":
            linger = struct.pack("ii", 1, 0)
            stream.extra(SocketAttribute.raw_socket).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with serve_streams(attend) as address:
        yield address


def _acceptance(head: bytes) -> bytes:
    key = re.search(rb"sec-websocket-key: (\S+)", head, re.IGNORECASE)
    accept = binascii.b2a_base64(hashlib.sha1(key[1] + _MAGIC).digest(), newline=False) if key is not None else b""
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )
