"""A game's stream for viewers costs the runner little, whatever the game sends."""

from __future__ import annotations

import binascii
import hashlib
import json
import re
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from anyio.abc import ByteStream
from support.fake_server import serve_streams

from coworld_core.episode.events import BaseEvent, GameProgressed, Notice
from coworld_core.episode.outcome import Exit
from coworld_runner.episode import contract_probes
from coworld_runner.episode.contract_probes import first_message, get_status, watch_global
from coworld_runner.episode.episode_watch import Watch
from coworld_runner.web import paced_websockets
from coworld_runner.web.game_socket import game_socket, hear
from coworld_runner.web.paced_websockets import PacedClient

MIB = 1 << 20
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, PING = 1, 9
SMALL = b'{"type": "state", "tick": 3}'


def frame(payload: bytes, kind: int = TEXT) -> bytes:
    """A frame as servers send it."""
    size = len(payload)
    if size < 126:
        return bytes((0x80 | kind, size)) + payload
    if size < 1 << 16:
        return bytes((0x80 | kind, 126)) + struct.pack(">H", size) + payload
    return bytes((0x80 | kind, 127)) + struct.pack(">Q", size) + payload


@asynccontextmanager
async def sending(*pieces: bytes, pause: float = 0.0) -> AsyncGenerator[str]:
    """A game that sends the same bytes to each viewer, and then nothing more; yields its address."""

    async def attend(stream: ByteStream) -> None:
        async with stream:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += await stream.receive()
            match = re.search(rb"sec-websocket-key: (\S+)", head, re.IGNORECASE)
            assert match is not None
            accept = binascii.b2a_base64(hashlib.sha1(match[1] + MAGIC).digest(), newline=False)
            try:
                await stream.send(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
                )
                for piece in pieces:
                    await stream.send(piece)
                    await anyio.sleep(pause)
                while True:
                    await stream.receive()
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                return

    async with serve_streams(attend) as address:
        yield address


async def watched(
    address: str, until: Callable[[list[dict[str, Any]], list[str]], bool]
) -> tuple[list[Any], list[str]]:
    """Watch a game until enough was seen, or its stream is left."""
    states, excess = list[dict[str, Any]](), list[str]()
    with anyio.CancelScope() as scope:

        def enough(to: list[Any], seen: Any) -> None:
            to.append(seen)
            if until(states, excess):
                scope.cancel()

        await watch_global(address, lambda state: enough(states, state), lambda words: enough(excess, words))
    return states, excess


async def test_a_long_state_is_not_parsed_and_told_once() -> None:
    long = frame(json.dumps({"waiting_for": [1] * 200_000, "waited": 9}).encode())
    async with sending(long, long, frame(SMALL), pause=0.3) as address:
        states, excess = await watched(address, lambda states, _: bool(states))
    assert states == [{"type": "state", "tick": 3}]
    assert len(excess) == 1
    assert excess[0].startswith("a state of 600")


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ([frame(b"x" * (5 * MIB))], "a message of more than 4194304 bytes"),
        ([frame(b"", PING) * 20_000], "pings without a pause"),
        ([frame(b"{}") * 4000], "more than 100 messages a second"),
        ([frame(b"1" * 100_000)] * 40, "more than 1048576 bytes a second"),
    ],
    ids=["long", "pings", "many", "much"],
)
async def test_a_stream_that_is_too_much_is_left(sent: list[bytes], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # So small that the busiest machine reads that much in a second
    monkeypatch.setattr(contract_probes, "_STREAM_BYTES", MIB)
    monkeypatch.setattr(contract_probes, "_STREAM_MESSAGES", 100)
    monkeypatch.setattr(paced_websockets, "_CONTROL_FRAMES", 100)
    async with sending(*sent) as address:
        _, excess = await watched(address, lambda _, excess: told in excess)
    assert excess[-1] == told


async def test_frames_do_not_hold_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task gets its turn after a few thousand frames at most, and soon after a hundred."""
    turns: list[int] = [0]
    original = PacedClient.process_event

    def counted(self: PacedClient, event: Any) -> None:
        turns[-1] += 1
        original(self, event)

    async def others() -> None:
        while True:
            await anyio.lowlevel.checkpoint()
            if turns[-1]:
                turns.append(0)

    monkeypatch.setattr(PacedClient, "process_event", counted)
    async with sending(frame(b"", PING) * 20_000) as address, anyio.create_task_group() as group:
        group.start_soon(others)
        await watched(address, lambda _, __: False)
        group.cancel_scope.cancel()
    assert sum(turns) > 4000
    assert max(turns) <= 2048
    assert sorted(turns)[len(turns) // 2] <= 128


async def test_a_first_message_that_is_too_long_is_the_games_fault() -> None:
    async with sending(frame(b"x" * (5 * MIB))) as address:
        seen = await first_message(address, "/global", timeout=10)
        replay = await first_message(address, "/replay?uri=x", timeout=10, limited=False)
    assert (seen.ok, seen.reached) == (False, True)
    assert seen.detail == "/global sent a message of more than 4194304 bytes"
    assert replay.ok, "a replay may be one message of any size"


async def test_the_size_of_a_message_is_in_bytes() -> None:
    async with sending(frame("äöü".encode())) as address, game_socket(address, "/global", close_timeout=0.1) as socket:
        assert await hear(socket) == 6


async def test_only_known_slots_are_named_each_once_in_a_while() -> None:
    told: list[BaseEvent] = []

    def player(_: str, slot: int) -> str:
        return f"Player {slot} (p)"

    seconds = iter((1.0, 1.5, 9.0))
    ledger = SimpleNamespace(
        seats={0: SimpleNamespace(end=Exit(reason="exited", code=0)), 1: SimpleNamespace(end=None)},
        who=player,
        seconds=lambda: next(seconds),
        publish=told.append,
    )
    setup = SimpleNamespace(plan=SimpleNamespace(seats=(None, None, None)), options=None)
    # Seat 0 has ended, and there is no player in seat 2
    state = {"tick": 1, "waited": 6, "scores": [0] * 10_000, "waiting_for": [1, 2, 0, *[0, 1] * 10_000]}
    async with sending(*[frame(json.dumps(state).encode())] * 3, pause=0.3) as address:
        game = SimpleNamespace(endpoint=lambda: SimpleNamespace(here=address))
        watch = Watch(cast("Any", setup), cast("Any", ledger), cast("Any", game), (), tuple)
        async with anyio.create_task_group() as group:
            group.start_soon(watch.progress)
            while sum(isinstance(event, GameProgressed) for event in told) < 3:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    named = [event.message for event in told if isinstance(event, Notice)]
    assert named == ["Waiting for player 1 (p): nothing sent for 6 s."] * 2
    assert all(event.scores == () for event in told if isinstance(event, GameProgressed))


async def test_a_body_in_tiny_chunks_is_read_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    async def attend(stream: ByteStream) -> None:
        async with stream:
            await stream.receive()
            try:
                await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 200_000)
            except anyio.BrokenResourceError:
                return

    from anyio._backends._asyncio import SocketStream

    original = SocketStream.receive

    async def receive(self: SocketStream, max_bytes: int = 65536) -> bytes:
        data = await original(self, max_bytes)
        if data.startswith((b"HTTP", b"1\r\n", b"x\r\n", b"\r\n", b"\n")):
            reads.append(len(data))
        return data

    async with serve_streams(attend) as address:
        monkeypatch.setattr(SocketStream, "receive", receive)
        assert await get_status(address, "/healthz") == 200
    assert max(reads) <= 4096
