"""A real transport with chosen faults: calls are refused, lost, answered with an error, cut short or slowed down."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import anyio
import httpx2

__all__ = ["Asked", "Fault", "FaultKind", "FlakyTransport"]

FaultKind = Literal["refused", "lost", "status", "truncated", "garbled", "slow", "stuck"]


@dataclass
class Fault:
    """A fault, with the calls that it affects and how often.

    ============  =====================================================================
    `refused`   no connection; the server never sees the call
    `lost`      the server handles the call, but its answer is lost
    `status`    the call is answered with `status`; the server never sees it
    `truncated` the answer breaks off half-way
    `garbled`   the answer's encoding is broken
    `slow`      the answer comes byte by byte, `pause` seconds apart
    `stuck`     the call is never answered
    ============  =====================================================================
    """

    kind: FaultKind
    times: int = 1
    method: str = ".*"
    path: str = ".*"
    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b'{"detail": "not now"}'
    pause: float = 0.05

    def meets(self, request: httpx2.Request) -> bool:
        return (
            self.times > 0
            and re.fullmatch(self.method, request.method) is not None
            and re.search(self.path, request.url.path) is not None
        )


@dataclass(frozen=True)
class Asked:
    """A call as sent."""

    method: str
    url: str
    headers: httpx2.Headers
    body: bytes


class FlakyTransport(httpx2.AsyncBaseTransport):
    """The network, with faults.

    Args:
        faults: A call gets the first fault that matches it and is not used up; other calls go through.
    """

    def __init__(self, *faults: Fault, inner: httpx2.AsyncBaseTransport | None = None) -> None:
        self.faults = list(faults)
        self.asked: list[Asked] = []
        self._inner = inner or httpx2.AsyncHTTPTransport(verify=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(Asked(request.method, str(request.url), request.headers, await request.aread()))
        fault = next((fault for fault in self.faults if fault.meets(request)), None)
        if fault is None:
            return await self._inner.handle_async_request(request)
        fault.times -= 1
        match fault.kind:
            case "refused":
                raise httpx2.ConnectError("All connection attempts failed", request=request)
            case "status":
                return httpx2.Response(fault.status, headers=dict(fault.headers), content=fault.body, request=request)
            case "stuck":
                await anyio.sleep_forever()
            case _:
                pass
        response = await self._inner.handle_async_request(request)
        if fault.kind == "lost":
            await response.aclose()
            raise httpx2.ReadError("Connection reset by peer", request=request)
        headers = httpx2.Headers(
            [(key, value) for key, value in response.headers.raw if key.lower() != b"content-length"]
        )
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if fault.kind == "garbled":
            headers["content-encoding"] = "gzip"
        return httpx2.Response(
            response.status_code, headers=headers, stream=_Spoilt(response.stream, fault), request=request
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Spoilt(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, fault: Fault) -> None:
        self._stream = stream
        self._fault = fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = b"".join([chunk async for chunk in self._stream])
        match self._fault.kind:
            case "truncated":
                yield content[: len(content) // 2]
                raise httpx2.RemoteProtocolError("peer closed connection without sending complete message body")
            case "slow":
                for index in range(len(content)):
                    await anyio.sleep(self._fault.pause)
                    yield content[index : index + 1]
            case _:
                yield content

    async def aclose(self) -> None:
        await self._stream.aclose()
