"""A connection to a port of a pod, over a websocket to the API server."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from ...runs._task_groups import nursery

__all__ = ["ForwardedStream", "carry"]

_DATA, _ERROR = 0, 1
_PIECE = 64 * 1024
_CLOSE_SECONDS = 1.0
_LINGER = 2.0
"""How long a connection stays open after the near side has sent everything: the protocol cannot tell the far side."""
_BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class ForwardedStream(ByteStream):
    """Bytes to and from a port. The protocol has no half-closed state: when either side is done, both are.

    Args:
        carrier: A websocket that speaks `v4.channel.k8s.io`: the first byte of a message is its channel, and the
            first message of each channel is the port's number.
    """

    def __init__(self, carrier: Any) -> None:
        self._socket = carrier
        self._below = carrier.get_extra_info("socket")
        self._greeted: set[int] = set()
        self._rest = b""
        self._error = ""
        self._over = False

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Receive the next bytes.

        Raises:
            anyio.EndOfStream: The other side closed the connection.
            anyio.BrokenResourceError: Nothing listens on the port, or the connection broke; the message says which.
        """
        import aiohttp

        while not self._rest:
            if self._over:
                self._end()
            try:
                message = await self._socket.receive()
            except (aiohttp.ClientError, OSError, RuntimeError) as error:
                raise anyio.BrokenResourceError(str(error)) from error
            if message.type is not aiohttp.WSMsgType.BINARY:
                self._over = message.type in (
                    aiohttp.WSMsgType.CLOSE,
                    aiohttp.WSMsgType.CLOSING,
                    aiohttp.WSMsgType.CLOSED,
                    aiohttp.WSMsgType.ERROR,
                )
                continue
            data: bytes = message.data
            channel, content = data[0], data[1:]
            if channel not in self._greeted:
                self._greeted.add(channel)
                content = content[2:]
            if channel == _ERROR and content:
                self._error += content.decode("utf-8", "replace")
                self._over = True
            elif channel == _DATA:
                self._rest = content
        data, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
        return data

    def _end(self) -> None:
        if self._error:
            raise anyio.BrokenResourceError(self._error)
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        """Send bytes.

        Raises:
            anyio.BrokenResourceError: The connection is closed.
        """
        import aiohttp

        view = memoryview(item)
        while view:
            piece, view = view[:_PIECE], view[_PIECE:]
            try:
                await self._socket.send_bytes(b"\x00" + bytes(piece))
            except (aiohttp.ClientError, OSError, RuntimeError) as error:
                raise anyio.BrokenResourceError(str(error)) from error

    async def send_eof(self) -> None:
        """Do nothing: the protocol has no message for it."""

    async def aclose(self) -> None:
        """Close the connection, waiting at most a second for the other side, and not for the end of TLS."""
        import aiohttp

        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            with contextlib.suppress(aiohttp.ClientError, OSError, RuntimeError):
                await self._socket.close()
            if self._below is not None:
                with contextlib.suppress(OSError):
                    self._below.shutdown(socket.SHUT_RDWR)
                while self._below.fileno() >= 0:
                    await anyio.lowlevel.checkpoint()


async def carry(near: ByteStream, far: ForwardedStream) -> None:
    """Copy bytes in both directions until one side is done."""

    async def onwards(scope: anyio.CancelScope) -> None:
        try:
            while True:
                await far.send(await near.receive())
        except anyio.EndOfStream:
            await anyio.sleep(_LINGER)
        except _BROKEN:
            pass
        scope.cancel()

    async with nursery() as tasks:
        tasks.start_soon(onwards, tasks.cancel_scope)
        try:
            while True:
                await near.send(await far.receive())
        except _BROKEN:
            return
