"""Large bodies, which are read past the HTTP parser: every byte once, and the same failures as anywhere."""

from __future__ import annotations

import hashlib
import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.streams.tls
import httpx2
import pytest
from support.certificates import self_signed
from support.fake_server import Ask, Say, serve, serve_file, serve_streams

from coworld_client import Backoff
from coworld_client.errors import ApiConnectionError, ApiTimeoutError
from coworld_client.transfers.files import download, each
from coworld_client.transport._connection import Connection

MIB = 1 << 20
CONTENT = random.Random(7).randbytes(5 * MIB + 12_345)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def large_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coworld_client.transport._bodies._LARGE", MIB)


class Watched(httpx2.AsyncHTTPTransport):
    """The network, telling how much of a body was read past the parser."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.past_parser = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        response.extensions["network_stream"] = _Counted(self, response.extensions["network_stream"])
        return response


class _Counted:
    def __init__(self, transport: Watched, stream: Any) -> None:
        self._transport = transport
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        piece = await self._stream.read(max_bytes, timeout)
        self._transport.past_parser += len(piece)
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@asynccontextmanager
async def connected(
    url: str, *, timeout: float = 20, transport: httpx2.AsyncBaseTransport | None = None
) -> AsyncGenerator[Connection]:
    backoff = Backoff(base=0.001, cap=0.002)
    async with Connection(url, timeout=timeout, backoff=backoff, transport=transport) as connection:
        yield connection


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


Answer = Callable[[anyio.abc.ByteStream], Any]


@asynccontextmanager
async def raw_server(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    """A server of which each connection reads one request and then does as told."""

    async def attend(stream: anyio.abc.ByteStream) -> None:
        asked = b""
        while b"\r\n\r\n" not in asked:
            asked += await stream.receive()
        await answer(stream)

    async with serve_streams(attend, tls=tls) as address:
        yield f"{'http' if tls is None else 'https'}://{address}"


def head(*lines: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", 'ETag: "1"', *lines, "", ""]).encode()


LENGTH = f"Content-Length: {len(CONTENT)}"


@pytest.mark.parametrize("with_head", [0, 1, 65_000, 1 << 16, (1 << 16) + 1, 1 << 18, 3 * MIB, len(CONTENT)])
async def test_body_received_with_the_headers_is_kept(tmp_path: Path, with_head: int) -> None:
    async def answer(stream: anyio.abc.ByteStream) -> None:
        await stream.send(head(LENGTH) + CONTENT[:with_head])
        for start in range(with_head, len(CONTENT), 100_001):
            await stream.send(CONTENT[start : start + 100_001])

    transport = Watched()
    async with raw_server(answer) as url, connected(url, transport=transport) as connection:
        got = await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256, size=len(CONTENT))
    assert got.received == len(CONTENT)
    assert (tmp_path / "x").read_bytes() == CONTENT
    # Otherwise this would test nothing
    assert transport.past_parser > MIB


async def test_bytes_after_the_body_are_ignored(tmp_path: Path) -> None:
    async def answer(stream: anyio.abc.ByteStream) -> None:
        await stream.send(head(LENGTH) + CONTENT + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmore")
        await stream.receive()

    async with raw_server(answer) as url, connected(url) as connection:
        await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
    assert (tmp_path / "x").read_bytes() == CONTENT


async def test_small_body_keeps_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coworld_client.transport._bodies._LARGE", len(CONTENT))
    connections = 0

    async def answer(stream: anyio.abc.ByteStream) -> None:
        nonlocal connections
        connections += 1
        while True:
            await stream.send(head(LENGTH) + CONTENT)
            await stream.receive()

    transport = Watched()
    async with raw_server(answer) as url, connected(url, transport=transport) as connection:
        for name in ("x", "y"):
            await download(connection, "/v2/x", tmp_path / name, sha256=SHA256)
        assert (connections, transport.past_parser) == (1, 0)
        monkeypatch.setattr("coworld_client.transport._bodies._LARGE", MIB)
        await download(connection, "/v2/x", tmp_path / "z", sha256=SHA256)
        await download(connection, "/v2/x", tmp_path / "z", sha256=SHA256)
    assert connections == 2
    assert transport.past_parser > MIB


@pytest.mark.parametrize("lines", [["Transfer-Encoding: chunked"], []])
async def test_a_body_without_a_length(tmp_path: Path, lines: list[str]) -> None:
    async def answer(stream: anyio.abc.ByteStream) -> None:
        await stream.send(head(*lines))
        for start in range(0, len(CONTENT), 100_001):
            piece = CONTENT[start : start + 100_001]
            await stream.send(b"%x\r\n%b\r\n" % (len(piece), piece) if lines else piece)
        if lines:
            await stream.send(b"0\r\n\r\n")

    transport = Watched()
    async with raw_server(answer) as url, connected(url, transport=transport) as connection:
        await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert transport.past_parser == 0


async def test_over_tls(tmp_path: Path) -> None:
    server, client = contexts(tmp_path)

    async def answer(stream: anyio.abc.ByteStream) -> None:
        await stream.send(head(LENGTH) + CONTENT)

    transport = Watched(verify=client)
    async with raw_server(answer, tls=server) as url, connected(url, transport=transport) as connection:
        await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert transport.past_parser > MIB


@pytest.mark.parametrize("cuts", [[2 * MIB], [3 * MIB, 1, 1_500_000], [len(CONTENT) - 1]])
async def test_broken_large_download_resumes(tmp_path: Path, cuts: list[int]) -> None:
    async with serve(serve_file(CONTENT, cuts=cuts)) as server, connected(server.url) as connection:
        await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
        assert len(server.asked) == len(cuts) + 1
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == CONTENT


async def test_truncated_body_is_reported(tmp_path: Path) -> None:
    async def answer(stream: anyio.abc.ByteStream) -> None:
        await stream.send(head(LENGTH) + CONTENT[: 3 * MIB])

    async with raw_server(answer) as url, connected(url) as connection:
        with pytest.raises(ApiConnectionError) as caught:
            await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
    assert caught.value.context["received"] == 3 * MIB
    assert "x" not in names(tmp_path)


async def test_stalled_large_download_times_out(tmp_path: Path) -> None:
    async def answer(stream: anyio.abc.ByteStream) -> None:
        await stream.send(head(LENGTH) + CONTENT[: 3 * MIB])
        await stream.receive()

    async with raw_server(answer) as url, connected(url, timeout=0.3) as connection:
        with pytest.raises(ApiTimeoutError):
            await download(connection, "/v2/x", tmp_path / "x")
    assert "x" not in names(tmp_path)


async def test_cancelled_large_download_resumes_later(tmp_path: Path) -> None:
    arrived = anyio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        yield CONTENT[: 4 * MIB]
        await anyio.sleep_forever()

    async def handler(ask: Ask) -> Say:
        if "range" not in ask.headers:
            return Say(200, stuck(), {"ETag": '"1"', "Content-Length": str(len(CONTENT))})
        return await serve_file(CONTENT)(ask)

    async with serve(handler) as server, connected(server.url) as connection:
        async with anyio.create_task_group() as group:

            def told(_done: int, _total: int | None) -> None:
                arrived.set()

            async def interrupted() -> None:
                await download(connection, "/v2/x", tmp_path / "x", on_progress=told)

            group.start_soon(interrupted)
            await arrived.wait()
            group.cancel_scope.cancel()
        got = await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
    assert got.resumed
    assert got.received < len(CONTENT) - MIB
    assert names(tmp_path) == ["x"]


async def test_many_at_once_and_the_calls_after_them(tmp_path: Path) -> None:
    async with serve(serve_file(CONTENT)) as server, connected(server.url) as connection:

        async def fetch(number: int) -> None:
            await download(connection, f"/v2/{number}", tmp_path / str(number), sha256=SHA256)

        assert not [one for one in await each(range(8), fetch, concurrency=4) if one is not None]
        reply = await connection.call("GET", "/v2/x")
    assert reply.content == CONTENT
    assert len(names(tmp_path)) == 8


def contexts(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS for a server at 127.0.0.1, and for a client that trusts it and nobody else."""
    pem, private = self_signed()
    both = directory.parent / f"{directory.name}.pem"
    both.write_bytes(pem + private)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(both)
    both.unlink()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=pem.decode())
    return server, client
