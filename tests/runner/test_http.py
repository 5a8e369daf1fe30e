"""One exchange with a server: its answer whole, or a reason."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from support.fake_server import serve_bytes

from coworld_runner.web.http_requests import NotHttpError, exchange


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
    async with serve_bytes(place, answer), exchange(lambda: anyio.connect_unix(place), "GET", "/", host="x") as got:
        assert await got.read() == body


@pytest.mark.parametrize(("method", "lengths"), [("GET", 0), ("HEAD", 0), ("POST", 1)])
async def test_get_request_has_no_body_and_no_content_length(place: Path, method: str, lengths: int) -> None:
    async with (
        serve_bytes(place, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as asked,
        exchange(lambda: anyio.connect_unix(place), method, "/healthz", host="x") as answer,
    ):
        assert answer.status == 200
    head, _, body = asked[0].partition(b"\r\n\r\n")
    assert (head.lower().count(b"content-length"), b"transfer-encoding" in head.lower(), body) == (lengths, False, b"")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"+OK POP3\r\n\r\n", "not HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "both Content-Length and Transfer-Encoding",
        ),
    ],
)
async def test_response_that_is_not_http_is_reported(place: Path, answer: bytes, reason: str) -> None:
    async with serve_bytes(place, answer):
        with pytest.raises(NotHttpError, match=reason):
            async with exchange(lambda: anyio.connect_unix(place), "GET", "/", host="x"):
                pytest.fail("that was no answer")
