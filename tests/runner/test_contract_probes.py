"""The checks of a running game, one row for each way in which a game may answer them."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from anyio.abc import ByteStream
from support.fake_server import serve_streams
from support.raw_game import CLOSE, UPGRADE, frame, raw_game

from coworld_runner.episode import contract_probes
from coworld_runner.episode.contract_probes import (
    OLDER,
    ProbeResult,
    first_message,
    get_status,
    probe_page,
    probe_refusal,
    probe_seat,
    watch_global,
)

MIB = 1 << 20
HELLO = frame(b'{"type": "observation"}')
TOO_LONG = bytes((0x81, 127)) + (1 << 60).to_bytes(8, "big")
"""The head of a message of 2**60 bytes."""
PAINT = "\x1b]0;bye\x07\x9b2J\u202e".encode()
"""What a terminal obeys."""


def status(line: str, body: bytes = b"") -> bytes:
    return f"HTTP/1.1 {line}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def close(code: int, reason: bytes = b"") -> bytes:
    return frame(struct.pack(">H", code) + reason, CLOSE)


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not come is not waited for; no row that is answered depends on it."""
    monkeypatch.setattr(contract_probes, "_REFUSAL_WAIT", 0.5)


def judge(seen: ProbeResult, ok: bool, says: str, **more: bool) -> None:
    assert (seen.ok, seen.reached, seen.thrown_out) == (ok, more.get("reached", True), more.get("thrown_out", False))
    assert says in seen.detail
    assert seen.detail.isprintable()


NOT_REACHED = {"reached": False}
THROWN_OUT = {"thrown_out": True}


# What is sent, what happens then, whether it is right, the words for it
@pytest.mark.parametrize(
    ("sent", "then", "ok", "says", "more"),
    [
        ((status("403 Forbidden"),), "stays", True, "HTTP 403", {}),
        ((status("401 Unauthorized"),), "stays", True, "HTTP 401", {}),
        ((status("500 Internal Server Error"),), "stays", False, "HTTP 500; it must be 401 or 403", {}),
        ((), "closes", True, "handshake refused", NOT_REACHED),
        ((UPGRADE, close(1008)), "closes", True, "closed without a message", {}),
        ((UPGRADE, HELLO), "stays", False, "sent a message to a wrong token", {}),
        # Too long to be read, and a message all the same
        ((UPGRADE, TOO_LONG), "stays", False, "sent a message to a wrong token", {}),
        ((UPGRADE,), "stays", False, "stayed open", {}),
    ],
)
async def test_wrong_token_must_be_refused(sent: Any, then: str, ok: bool, says: str, more: dict[str, bool]) -> None:
    async with raw_game(*sent, then=then) as address:
        judge(await probe_refusal(address, 0, "bad", why="a_wrong_token"), ok, says, **more)


async def test_a_port_where_nothing_listens_refuses_nobody() -> None:
    async with raw_game() as address:
        pass
    judge(await probe_refusal(address, 0, "bad", why="a_wrong_token"), False, "nothing listens", **NOT_REACHED)


@pytest.mark.parametrize(
    ("sent", "then", "ok", "says", "more"),
    [
        ((UPGRADE, HELLO), "stays", True, "let in", {}),
        ((UPGRADE,), "stays", True, "let in", {}),
        ((UPGRADE, close(1011)), "closes", True, "with code 1011", THROWN_OUT),
        ((UPGRADE, close(1000)), "closes", True, "with code 1000", THROWN_OUT),
        ((UPGRADE,), "closes", True, "without a close frame", THROWN_OUT),
        ((UPGRADE,), "resets", True, "without a close frame", THROWN_OUT),
        ((UPGRADE, close(1008)), "closes", False, "with code 1008", {}),
        ((status("403 Forbidden"),), "stays", False, "with HTTP 403", {}),
        ((), "closes", False, "could not be reached", NOT_REACHED),
        ((), "stays", False, "without an answer", {}),
    ],
)
async def test_a_seats_owner_must_be_let_in(
    sent: Any, then: str, ok: bool, says: str, more: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    if says == "without an answer":
        monkeypatch.setattr(contract_probes, "_HTTP_TIMEOUT", 0.5)
    async with raw_game(*sent, then=then) as address:
        judge(await probe_seat(address, 0, "good"), ok, says, **more)


@pytest.mark.parametrize(
    ("sent", "then", "ok", "says", "more"),
    [
        ((UPGRADE, HELLO), "stays", True, "23 bytes", {}),
        ((UPGRADE, frame(b"x" * (2 * MIB))), "stays", True, "2097152 bytes", {}),
        ((UPGRADE, frame(b"")), "stays", False, "sent an empty message", {}),
        ((UPGRADE,), "stays", False, "sent no message within 0.5 s", {}),
        ((), "stays", False, "sent no message within 0.5 s", {}),
        ((), "closes", False, "could not be read", NOT_REACHED),
        ((UPGRADE, close(1011, PAINT)), "closes", False, "could not be read", NOT_REACHED),
        ((PAINT + b"\0\r\n\r\n", b"\0\r\n"), "repeats", False, "sent no message within 0.5 s", {}),
        ((b"HTTP/1.1 101 OK\r\n", b"X: %s\r\n" % (b"x" * 4000)), "repeats", False, "sent no message within 0.5 s", {}),
    ],
)
async def test_a_viewer_must_hear_something(sent: Any, then: str, ok: bool, says: str, more: dict[str, bool]) -> None:
    async with raw_game(*sent, then=then) as address:
        # Long where an answer comes: a busy machine may take its time to bring it
        judge(await first_message(address, "/global", timeout=0.5 if "within" in says else 20), ok, says, **more)


@pytest.mark.parametrize(
    ("sent", "then", "ok", "says", "more"),
    [
        ((status("200 OK", b"<!doctype html>"),), "stays", True, "HTTP 200", {}),
        ((status("404 Not Found"),), "stays", False, "HTTP 404", {}),
        ((), "closes", False, "did not answer", NOT_REACHED),
        ((PAINT + b"\r\n\r\n",), "closes", False, "did not answer", NOT_REACHED),
    ],
)
async def test_a_page_must_be_there(sent: Any, then: str, ok: bool, says: str, more: dict[str, bool]) -> None:
    async with raw_game(*sent, then=then) as address:
        judge((await probe_page(address, "player"))[1], ok, says, **more)


async def test_pages_of_the_first_generations_are_found() -> None:
    async with raw_game(status("404 Not Found"), older=status("200 OK", b"page")) as address:
        dialect, seen = await probe_page(address, "player")
    assert dialect is OLDER
    judge(seen, True, "HTTP 200")


async def test_no_more_of_an_endless_answer_is_read_than_is_needed() -> None:
    async with raw_game(b"HTTP/1.1 200 OK\r\n\r\n", b"and so on\n" * 1000, then="repeats") as address:
        assert await get_status(address, "/healthz") == 200


async def test_nothing_but_the_game_is_asked_wherever_it_points_to() -> None:
    asked: list[bytes] = []

    async def elsewhere(stream: ByteStream) -> None:
        async with stream:
            asked.append(await stream.receive())

    async with serve_streams(elsewhere) as other:
        for scheme in ("http", "ws"):
            location = f"302 Found\r\nLocation: {scheme}://{other}/?what=was+not+to+get+out"
            async with raw_game(status(location)) as address:
                judge((await probe_page(address, "player"))[1], False, "HTTP 302")
                judge(await probe_refusal(address, 0, "bad", why="a_wrong_token"), False, "HTTP 302")
                judge(await probe_seat(address, 0, "good"), False, "HTTP 302")
                judge(await first_message(address, "/global", timeout=20), False, "HTTP 302", **NOT_REACHED)
                await watch_global(address, lambda state: None, lambda words: None)
                assert await get_status(address, "/healthz") == 302
    assert asked == []
