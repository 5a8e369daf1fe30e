"""A game's stream for viewers costs the runner little, whatever the game sends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from anyio.abc import ByteStream
from support.fake_server import serve_streams
from support.raw_game import PING, UPGRADE, frame, raw_game

from coworld_core.episode.events import BaseEvent, GameProgressed, Notice
from coworld_core.episode.outcome import Exit
from coworld_runner.episode import contract_probes
from coworld_runner.episode.contract_probes import first_message, get_status, watch_global
from coworld_runner.episode.episode_watch import Watch
from coworld_runner.web import paced_websockets
from coworld_runner.web.game_socket import connect_to_game, receive
from coworld_runner.web.paced_websockets import PacedClient

MIB = 1 << 20
SMALL = b'{"type": "state", "tick": 3}'


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
    async with raw_game(UPGRADE, long, long, frame(SMALL), pause=0.3) as address:
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
    async with raw_game(UPGRADE, *sent) as address:
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
    async with raw_game(UPGRADE, frame(b"", PING) * 20_000) as address, anyio.create_task_group() as group:
        group.start_soon(others)
        await watched(address, lambda _, __: False)
        group.cancel_scope.cancel()
    assert sum(turns) > 4000
    assert max(turns) <= 2048
    assert sorted(turns)[len(turns) // 2] <= 128


async def test_a_first_message_that_is_too_long_is_the_games_fault() -> None:
    async with raw_game(UPGRADE, frame(b"x" * (5 * MIB))) as address:
        seen = await first_message(address, "/global", timeout=10)
        replay = await first_message(address, "/replay?uri=x", timeout=10, limited=False)
    assert (seen.ok, seen.reached) == (False, True)
    assert seen.detail == "/global sent a message of more than 4194304 bytes"
    assert replay.ok, "a replay may be one message of any size"


async def test_the_size_of_a_message_is_in_bytes() -> None:
    async with (
        raw_game(UPGRADE, frame("äöü".encode())) as address,
        connect_to_game(address, "/global", close_timeout=0.1) as socket,
    ):
        assert await receive(socket) == 6


async def progress(
    states: list[bytes], seats: dict[int, Exit | None], seconds: Iterable[float] = ()
) -> list[BaseEvent]:
    """What is told of a game with three seats that sends these states and then a last one, of tick 99."""
    told: list[BaseEvent] = []
    over = anyio.Event()

    def publish(event: BaseEvent) -> None:
        told.append(event)
        if isinstance(event, GameProgressed) and event.tick == 99:
            over.set()

    def player(_: str, slot: int) -> str:
        return f"Player {slot} (p)"

    ledger = SimpleNamespace(
        seats={slot: SimpleNamespace(end=end) for slot, end in seats.items()},
        who=player,
        seconds=iter(seconds).__next__,
        publish=publish,
        warn=told.append,
    )
    setup = SimpleNamespace(plan=SimpleNamespace(seats=(None, None, None)), options=None)
    async with raw_game(UPGRADE, *map(frame, [*states, b'{"tick": 99}']), pause=0.01) as address:
        game = SimpleNamespace(endpoint=lambda: SimpleNamespace(here=address))
        watch = Watch(cast("Any", setup), cast("Any", ledger), cast("Any", game), (), tuple)
        async with anyio.create_task_group() as group:
            group.start_soon(watch.progress)
            await over.wait()
            group.cancel_scope.cancel()
    return told[:-1]


@pytest.fixture
def all_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """No state is dropped for coming too soon after another."""
    monkeypatch.setattr(contract_probes, "_STATE_SECONDS", 0.0)


@pytest.mark.usefixtures("all_states")
async def test_only_known_slots_are_named_each_once_in_a_while() -> None:
    # Seat 0 has ended, and there is no player in seat 2
    state = {"tick": 1, "waited": 6, "scores": [0] * 10_000, "waiting_for": [1, 2, 0, *[0, 1] * 10_000]}
    seats = {0: Exit(reason="exited", code=0), 1: None}
    told = await progress([json.dumps(state).encode()] * 3, seats, (1.0, 1.5, 9.0))
    named = [event.message for event in told if isinstance(event, Notice)]
    assert named == ["Waiting for player 1 (p): nothing sent for 6 s."] * 2
    assert all(event.scores == () for event in told if isinstance(event, GameProgressed))


HUGE = "9" * 400


@pytest.mark.usefixtures("all_states")
@pytest.mark.parametrize(
    "state",
    [
        "[" * 100_000,
        f'{{"tick": {HUGE}, "max_ticks": {HUGE}, "scores": [{HUGE}, {HUGE}, {HUGE}]}}',
        '{"tick": true, "max_ticks": -1, "scores": [1e999, NaN, 1]}',
        '{"tick": -1, "max_ticks": 0, "scores": [' + "1," * 50_000 + "1]}",
        '{"tick": "\\ud800", "scores": {"0": 1}, "waiting_for": 1, "waited": []}',
        "9" * 5000,
        '"\\ud800"',
    ],
    ids=["nesting", "huge", "no-numbers", "many", "other-types", "number", "surrogate"],
)
async def test_numbers_that_are_none_are_not_told(state: str) -> None:
    assert await progress([state.encode()], {0: None}) == []


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
