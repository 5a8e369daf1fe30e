"""Read the body of an answer in pieces as large as the network gives."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

import httpx2

__all__ = ["body_pieces", "whole_number"]

_LARGE = 16 << 20
"""Body size in bytes above which speed matters more than keeping the connection for the next call."""
_PIECE = 1 << 18
"""Bytes read at a time; asyncio reads no more at once."""


class _Stream(Protocol):
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes: ...


@asynccontextmanager
async def body_pieces(response: httpx2.Response) -> AsyncGenerator[AsyncIterator[bytes]]:
    """The bytes of a body as they come over the wire, without decoding.

    The HTTP library copies every byte several times, 64 KiB at a time, which is most of the cost of a large download.
    When the body is large and its length is declared, the rest of it is therefore read directly from the library's
    network stream, and the connection is not reused.

    Args:
        response: The open answer.

    Raises:
        httpx2.TransportError: While iterating, if the connection broke off or was silent for too long.
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
                # The parser returns all it has buffered with the first piece, so the rest is still on the wire
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
    """The declared length of a large HTTP/1.1 body that is not chunked; None for any other."""
    if response.http_version != "HTTP/1.1" or "transfer-encoding" in response.headers:
        return None
    length = whole_number(response.headers.get("content-length"))
    return length if length is not None and length > _LARGE else None


def whole_number(text: str | None) -> int | None:
    """Parse a decimal number in a header; None for anything else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else None


async def _read(stream: _Stream, most: int, timeout: float | None) -> bytes:
    try:
        piece = await stream.read(most, timeout=timeout)
    except Exception as error:
        # Errors of the layer below have the same names as httpx2's
        kind = getattr(httpx2, type(error).__name__, None)
        if isinstance(kind, type) and issubclass(kind, httpx2.TransportError):
            raise kind(str(error)) from error
        raise
    if not piece:
        raise httpx2.RemoteProtocolError("peer closed connection without sending complete message body")
    return piece
