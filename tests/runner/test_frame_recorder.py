"""The recorder between players and game: what it passes on, what it keeps, and what it does not let anybody do."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus
from websockets.frames import Frame, Opcode

import coworld_runner.web
from coworld_runner.web import http_requests
from coworld_runner.web.recorder.kept_frames import KeptFrames, tick_of
from coworld_runner.web.recorder.socket_messages import MOST_OF_MESSAGE, MessageReader

TOKENS = ("one", "two")
READER = "reader's"


def test_messages_are_found_however_their_bytes_are_cut() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        sent: list[tuple[bool, bytes]] = []
        stream = b""
        for _ in range(rng.randint(1, 8)):
            is_text = rng.random() < 0.5
            content = rng.randbytes(rng.choice([0, 1, 125, 126, 1000, 65_536, 70_000]))
            sent.append((is_text, content))
            cuts = sorted(rng.choices(range(len(content) + 1), k=rng.randint(0, 3)))
            parts = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
            for number, part in enumerate(parts):
                code = Opcode.CONT if number else Opcode.TEXT if is_text else Opcode.BINARY
                masked = rng.random() < 0.5
                stream += Frame(code, part, fin=number == len(parts) - 1).serialize(mask=masked)
                if rng.random() < 0.3:
                    stream += Frame(Opcode.PING, b"still there?").serialize(mask=masked)
        reader, found, place = MessageReader(), list[tuple[bool, bytes | None, int]](), 0
        while place < len(stream):
            size = rng.choice([1, 2, 7, 100, 5000])
            found += reader.feed(stream[place : place + size])
            place += size
        assert found == [(is_text, content, len(content)) for is_text, content in sent], seed


def test_a_message_that_is_too_long_is_only_counted_and_not_held() -> None:
    reader = MessageReader()
    chunk = bytes(1 << 20)
    head = Frame(Opcode.TEXT, b"").serialize(mask=False)[:1] + b"\x7f" + (3 * MOST_OF_MESSAGE).to_bytes(8, "big")
    found = reader.feed(head)
    for _ in range(3 * MOST_OF_MESSAGE // len(chunk)):
        found += reader.feed(chunk)
        assert reader.held < 100
    found += reader.feed(Frame(Opcode.TEXT, b"next").serialize(mask=True))
    assert found == [(True, None, 3 * MOST_OF_MESSAGE), (True, b"next", 4)]
    # A control frame has at most 125 bytes; one that says more is not waited for
    reader.feed(b"\x89\x7f" + (1 << 60).to_bytes(8, "big") + chunk)
    assert reader.held < 100


@pytest.mark.parametrize(
    ("text", "tick"),
    [
        ('{"type":"observe","tick":7,"observation":{"tick":9}}', 7),
        ('{"observation":{"tick":9},"tick":7}', 7),
        ('{"observation":{"tick":9}}', None),
        ('{"text":"\\"tick\\": 5"}', None),
        ('{"a":"\\\\","tick":5}', 5),
        ('{"tick":-1}', None),
        ('{"tick":1.5}', None),
        ('{"tick":true}', None),
        ('{"tick":"4"}', None),
        ('{"tick":123456789012345678901234567890}', None),
        ('[{"tick":4}]', None),
        ('not json, "tick":4', None),
        ('  {"tick" : 4}', 4),
        ("{" * 100_000 + '"tick":4', None),
    ],
)
def test_the_tick_is_the_one_that_the_message_tells(text: str, tick: int | None) -> None:
    assert tick_of(text) == tick


def test_seats_that_fall_behind_or_go_back_are_out_of_sync() -> None:
    def ended(*told: tuple[int, int]) -> list[int]:
        frames = KeptFrames(3)
        for seat, tick in told:
            frames.add(seat, 0.0, "to_player", True, b'{"tick":%d}' % tick, 10)
        frames.finish()
        return json.loads(frames.take().splitlines()[-1])["out_of_sync"]

    assert ended() == []
    assert ended((0, 4), (1, 4), (2, 4)) == []
    assert ended((0, 4), (1, 3), (2, 4)) == [1]
    assert ended((0, 4), (2, 4)) == [1]
    assert ended((0, 4), (1, 4), (0, 3), (0, 4), (2, 4)) == [0]


@dataclass
class Recorded:
    """A recorder that runs before a game, in a process of its own."""

    port: int
    frames_port: int
    process: subprocess.Popen[bytes]
    lines: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def memory(self) -> int:
        """Bytes that the process has in memory; 0 where that cannot be seen."""
        if sys.platform != "linux":
            return 0
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def seat(self, slot: int, token: str | None = None, **options: Any) -> connect:
        query = f"slot={slot}&token={TOKENS[slot] if token is None else token}"
        return connect(f"ws://127.0.0.1:{self.port}/player?{query}", proxy=None, **options)

    def reader(self, token: str = READER.replace("'", "%27")) -> connect:
        address = f"ws://127.0.0.1:{self.frames_port}/frames?token={token}"
        return connect(address, proxy=None, ping_interval=None, max_size=None)

    async def end(self, reader: ClientConnection) -> list[dict[str, Any]]:
        """Ask for the end, and return all frames, without their times, and the end."""
        await reader.send("end")
        async for message in reader:
            assert isinstance(message, str)
            self.lines += [json.loads(line) for line in message.splitlines()]
        for line in self.lines:
            line.pop("time", None)
        return self.lines


def start(game: int) -> Recorded:
    """Start a recorder before the game at a port."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    numbers = [listener.fileno() for listener in listeners]
    place = coworld_runner.web.__path__[0]
    code = f"""if True:
        import socket, sys
        sys.path.insert(0, {place!r})
        from recorder.frame_relay import FrameRelay
        listeners = [socket.socket(fileno=number) for number in {numbers}]
        FrameRelay(("127.0.0.1", {game}), {TOKENS}, {READER!r}).run(*listeners)
    """
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", code], pass_fds=numbers)
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return Recorded(ports[0], ports[1], process)


@asynccontextmanager
async def recording(play: Callable[[ServerConnection], Any], **options: Any) -> AsyncGenerator[Recorded]:
    async with serve(play, "127.0.0.1", 0, **options) as server:
        recorded = start(next(iter(server.sockets)).getsockname()[1])
        try:
            with anyio.fail_after(60):
                answer = await http_requests.get_page(f"127.0.0.1:{recorded.frames_port}", "/healthz")
                assert answer.status == 200
                yield recorded
        finally:
            recorded.process.kill()
            recorded.process.wait()


async def echo(connection: ServerConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for message in connection:
            await connection.send(message)


async def test_messages_pass_unchanged_and_are_kept_with_seat_direction_and_tick() -> None:
    long = "x" * 200_000
    async with recording(echo) as recorded, recorded.reader() as reader:
        async with recorded.seat(0) as first, recorded.seat(1) as second:
            # The server offers compression, and the recorder has not let it be asked for
            assert first.response is not None
            assert "Sec-WebSocket-Extensions" not in first.response.headers
            await first.send('{"tick":4}')
            assert await first.recv() == '{"tick":4}'
            await second.send(b"\0\xff")
            assert await second.recv() == b"\0\xff"
            await second.send([long, "yz"])
            assert await second.recv() == long + "yz"
            latency = await (await first.ping())
            assert latency >= 0
            await first.close(4321, "enough")
        lines = await recorded.end(reader)
        assert recorded.process.wait(10) == 0
    encoded = {"base64": base64.b64encode(b"\0\xff").decode()}
    both = ("to_game", "to_player")
    assert [line for line in lines if line.get("seat") == 0] == [
        {"tick": 4, "seat": 0, "direction": direction, "text": '{"tick":4}'} for direction in both
    ]
    assert [line for line in lines if line.get("seat") == 1] == [
        {"tick": None, "seat": 1, "direction": direction, **content}
        for content in (encoded, {"text": long + "yz"})
        for direction in both
    ]
    assert lines[-1] == {"end": "over", "complete": True, "out_of_sync": [1]}


async def test_close_codes_and_refusals_pass() -> None:
    async def play(connection: ServerConnection) -> None:
        await connection.close(4002, "no more")

    def refuse(connection: ServerConnection, request: Any) -> Any:
        return connection.respond(403, "not you\n") if "slot=1" in request.path else None

    async with recording(play, process_request=refuse) as recorded:
        async with recorded.seat(0) as seat:
            with pytest.raises(ConnectionClosed) as closed:
                await seat.recv()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4002, "no more")
        with pytest.raises(InvalidStatus) as refused:
            async with recorded.seat(1):
                pass
        assert refused.value.response.status_code == 403


async def test_pages_pass_and_only_the_tokens_of_seats_make_frames() -> None:
    def page(connection: ServerConnection, request: Any) -> Any:
        return None if request.path.startswith("/player") else connection.respond(200, f"page {request.path}\n")

    async with recording(echo, process_request=page) as recorded, recorded.reader() as reader:
        answer = await http_requests.get_page(f"127.0.0.1:{recorded.port}", "/client/player?slot=0")
        assert (answer.status, answer.empty) == (200, False)
        # A game may let in whom it likes; that is not seat 1
        async with recorded.seat(1, token="guessed") as stranger:
            await stranger.send("I am seat 1")
            assert await stranger.recv() == "I am seat 1"
        lines = await recorded.end(reader)
    assert lines == [{"end": "over", "complete": True, "out_of_sync": []}]


async def test_frames_are_for_one_reader_who_knows_the_token() -> None:
    async with recording(echo) as recorded:
        for token in ("", "guessed", "%ff"):
            with pytest.raises(InvalidStatus):
                async with recorded.reader(token):
                    pass
        async with recorded.reader() as reader:
            with pytest.raises(InvalidStatus):
                async with recorded.reader():
                    pass
            assert (await recorded.end(reader))[-1]["complete"]


@pytest.mark.parametrize("politely", [True, False])
async def test_a_reader_that_goes_away_ends_the_recording_and_not_the_game(politely: bool) -> None:
    async with recording(echo) as recorded, recorded.seat(0) as seat:
        async with recorded.reader() as reader:
            await seat.send("before")
            assert await seat.recv() == "before"
            if politely:
                await reader.close()
            reader.transport.abort()
        for number in range(100):
            await seat.send(str(number))
            assert await seat.recv() == str(number)
        assert recorded.process.poll() is None


async def test_nobody_holds_up_the_others() -> None:
    """A player that reads nothing, one whose request never ends, and strangers at the reader's port."""
    sent = 0

    async def play(connection: ServerConnection) -> None:
        nonlocal sent
        if connection.request is not None and "slot=0" in connection.request.path:
            while True:
                await connection.send("x" * 100_000)
                sent += 1
        await echo(connection)

    async with recording(play) as recorded, AsyncExitStack() as stack:
        deaf = await stack.enter_async_context(recorded.seat(0, max_queue=1, close_timeout=0))
        stack.callback(deaf.transport.abort)
        for port in (recorded.port, recorded.frames_port):
            for _ in range(5):
                half = await anyio.connect_tcp("127.0.0.1", port)
                stack.push_async_callback(half.aclose)
                await half.send(b"GET /frames HTTP/1.1\r\nHost: ")
        async with recorded.seat(1) as seat:
            for number in range(200):
                await seat.send(str(number))
                assert await seat.recv() == str(number)
        # Its messages wait in the game, and not in the recorder
        assert recorded.memory() < 120 << 20
        assert sent < 1000


async def test_a_game_that_is_gone_closes_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    recorded = start(port)
    try:
        with anyio.fail_after(60), pytest.raises((OSError, EOFError, InvalidMessage)):
            async with recorded.seat(0):
                pass
        assert recorded.process.poll() is None
    finally:
        recorded.process.kill()
        recorded.process.wait()
