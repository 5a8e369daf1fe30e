"""The body of an answer, as large pieces as the network gives."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

import httpx2

__all__ = ["body_pieces", "whole_number"]

_LARGE = 16 << 20
"""Bytes from which on it is worth more to be quick than to keep the connection for the next call."""
_PIECE = 1 << 18
"""Bytes read at a time; asyncio has no larger."""


class _Stream(Protocol):
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes: ...


@asynccontextmanager
async def body_pieces(response: httpx2.Response) -> AsyncGenerator[AsyncIterator[bytes]]:
    """The bytes of a body as they come over the wire, nothing undone.

    Through the HTTP library every byte is copied again and again, 64 KiB at a time: most of what a large download
    costs. Where the rest of the connection's bytes are the rest of the body, because its length was announced, it is
    read from the library's network stream instead. The connection then ends with the body.

    Args:
        response: The open answer.

    Raises:
        httpx2.TransportError: While iterating: the connection broke off, or was silent for too long.
    """
    async with aclosing(_pieces(response)) as pieces:
        yield pieces


async def _pieces(response: httpx2.Response) -> AsyncGenerator[bytes]:
    length = _announced(response)
    stream: _Stream | None = response.extensions.get("network_stream")
    async with aclosing(response.aiter_raw()) as pieces:
        async for piece in pieces:
            yield piece
            if length is not None and stream is not None:
                # the parser gives all it has with the first piece, so what follows is still on the wire
                length -= len(piece)
                break
        else:
            return
        timeout = response.request.extensions.get("timeout", {}).get("read")
        while length > 0:
            piece = await _read(stream, min(_PIECE, length), timeout)
            length -= len(piece)
            yield piece


def _announced(response: httpx2.Response) -> int | None:
    """How long a large body of HTTP/1.1 is, if its end is where that says."""
    if response.http_version != "HTTP/1.1" or "transfer-encoding" in response.headers:
        return None
    length = whole_number(response.headers.get("content-length"))
    return length if length is not None and length > _LARGE else None


def whole_number(text: str | None) -> int | None:
    """A number as headers write it; None for anything else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else None


async def _read(stream: _Stream, most: int, timeout: float | None) -> bytes:
    try:
        piece = await stream.read(most, timeout=timeout)
    except Exception as error:
        # what the layer below raises has the same names here
        kind = getattr(httpx2, type(error).__name__, None)
        if isinstance(kind, type) and issubclass(kind, httpx2.TransportError):
            raise kind(str(error)) from error
        raise
    if not piece:
        raise httpx2.RemoteProtocolError("peer closed connection without sending complete message body")
    return piece
