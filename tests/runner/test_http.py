"""One exchange with a server: its answer whole, or a reason."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from support.fake_server import serve_bytes

from coworld_runner._http import NotHttpError, exchange


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a socket may be; its path must be short."""
    return tmp_path / "server.sock"


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more", b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", b"hello"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
async def test_an_answer_is_read_to_its_end(place: Path, answer: bytes, body: bytes) -> None:
    async with serve_bytes(place, answer), exchange(lambda: anyio.connect_unix(place), "GET", "/") as got:
        assert await got.read() == body


async def test_a_body_can_be_sent_as_it_comes(place: Path) -> None:
    async def parts() -> AsyncGenerator[bytes, None]:
        for part in (b"one", b"", b"two"):
            yield part

    async with (
        serve_bytes(place, b"HTTP/1.1 204 No Content\r\n\r\n") as asked,
        exchange(lambda: anyio.connect_unix(place), "POST", "/", content=parts()) as answer,
    ):
        assert answer.status == 204
    assert asked[0].endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


@pytest.mark.parametrize(("method", "lengths"), [("GET", 0), ("HEAD", 0), ("POST", 1)])
async def test_get_request_has_no_body_and_no_content_length(place: Path, method: str, lengths: int) -> None:
    async with (
        serve_bytes(place, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as asked,
        exchange(lambda: anyio.connect_unix(place), method, "/healthz") as answer,
    ):
        assert answer.status == 200
    head, _, body = asked[0].partition(b"\r\n\r\n")
    assert (head.lower().count(b"content-length"), b"transfer-encoding" in head.lower(), body) == (lengths, False, b"")


async def test_response_that_is_not_http_is_reported(place: Path) -> None:
    async with serve_bytes(place, b"+OK POP3\r\n\r\n"):
        with pytest.raises(NotHttpError):
            async with exchange(lambda: anyio.connect_unix(place), "GET", "/"):
                pytest.fail("that was no answer")
