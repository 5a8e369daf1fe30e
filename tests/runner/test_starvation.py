"""Whether units got a processor in time: what is read of a game's tick, and what is made of waiting."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from support.waiting import wait_until

from coworld_core.episode.outcome import Exit
from coworld_core.episode.record import StarvationRecord
from coworld_runner.backend import Endpoint
from coworld_runner.episode.starvation import (
    RunInterval,
    StarvationMeter,
    TickWindow,
    _Track,  # pyright: ignore[reportPrivateUsage]
    spare_share,
    tick_seconds,
    together,
)
from coworld_runner.web.own_connections import note_own

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("config", "schema", "seconds"),
    [
        ({"tick_rate": 20}, {}, 0.05),
        ({"ticks_per_second": 4.0}, {}, 0.25),
        ({}, {"properties": {"ticks_per_second": {"default": 10}}}, 0.1),
        ({"seconds_per_move": 5}, {"properties": {"seconds_per_move": {"default": 30}}}, 5.0),
        # What is no rate is passed over
        ({"tick_rate": 0, "hz": True}, {"properties": []}, None),
        ({"tick_rate": "fast"}, {"properties": {"tick_rate": 7}}, None),
    ],
)
def test_a_games_tick(config: dict[str, Any], schema: dict[str, Any], seconds: float | None) -> None:
    assert tick_seconds(config, schema) == seconds


def test_waiting_is_relative_to_spare_time() -> None:
    assert spare_share(0.1, 0.02, 0.04) == pytest.approx(0.5)
    # It ran and waited all through the tick
    assert spare_share(0.1, 0.02, 0.08) == pytest.approx(1.0)
    # It would have been late without waiting, too
    assert spare_share(0.1, 0.1, 0.05) == 0.0


def test_a_window_holds_one_tick() -> None:
    window = TickWindow(0.1)
    assert window.last(5.0) == []
    window.take(10.0, 10.1, ran=SECOND // 100, waited=SECOND // 20)
    assert together(window.last(10.1)) == pytest.approx((0.01, 0.05))
    # Half of the first stretch is gone
    window.take(10.1, 10.15, ran=0, waited=SECOND // 100)
    assert together(window.last(10.15)) == pytest.approx((0.005, 0.035))
    window.take(10.15, 10.25, ran=0, waited=0)
    assert together(window.last(10.25)) == (0.0, 0.0)
    # What is told late has been waited for before the last look, so most of it is not of this tick
    window.take(10.25, 10.26, ran=0, waited=SECOND)
    assert together(window.last(10.26)) == pytest.approx((0.0, 0.1))


@pytest.mark.parametrize(
    ("stretches", "ran", "waited"),
    [
        # Both wait at one time, then one after the other
        ([RunInterval(0, 6, 0, 1), RunInterval(0, 6, 0, 1)], 0, 6),
        ([RunInterval(0, 3, 0, 1), RunInterval(3, 6, 0, 1)], 0, 6),
        ([RunInterval(0, 4, 0, 1), RunInterval(3, 6, 0, 1)], 0, 6),
        # Who waits while the other runs has lost nothing by it
        ([RunInterval(0, 4, 1, 0), RunInterval(2, 6, 0, 1)], 4, 2),
        # Parts of a stretch; threads that run or wait at one time
        ([RunInterval(0, 4, 0.5, 0.25), RunInterval(0, 4, 0.25, 0.5)], 3, 1),
        ([RunInterval(0, 4, 3, 5)], 4, 0),
        ([], 0, 0),
    ],
)
def test_simultaneous_waiting_counts_once(stretches: list[RunInterval], ran: float, waited: float) -> None:
    assert together(stretches) == pytest.approx((ran, waited))


_WORKS = """
import os, socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as held:
    held.sendall(b"GET /player")
    print("there", flush=True)
    os.sched_setaffinity(0, {int(sys.argv[2])})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True:
        pass
"""
_HOGS = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint('there', flush=True)\nwhile True: pass"


@contextlib.contextmanager
def _program(*command: str) -> Generator[subprocess.Popen[bytes]]:
    """Run a program that says when it is there."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", *command], **pipes) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"there\n"
            yield program
        finally:
            program.kill()


@pytest.fixture
def opened() -> Generator[Callable[[Any], Any]]:
    """Closes what is passed to it at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda thing: stack.enter_context(contextlib.closing(thing))


def test_a_unit_that_is_kept_from_the_processor_is_named(tmp_path: Path, opened: Callable[[Any], Any]) -> None:
    """A program that works whenever it may, on a processor that somebody else has."""
    processor = str(min(os.sched_getaffinity(0)))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        pid = stack.enter_context(_program(_WORKS, address.rpartition(":")[2], processor)).pid
        game: Any = _Stub("game", (os.getpid(),), address, tmp_path)
        player: Any = _Stub("player-0", (pid,), address, tmp_path)
        meter = opened(StarvationMeter(game, [player], tick=0.05))
        # Nobody knows by when its answers are due, so none can be said to be late
        unpaced = opened(StarvationMeter(game, [player], tick=None))
        assert meter.read() is None
        stack.enter_context(_program(_HOGS, processor))

        def starved() -> StarvationRecord | None:
            meter.look()
            unpaced.look()
            seen = meter.read()
            return seen if seen is not None and seen.starved else None

        seen = wait_until(starved, seconds=100, what="a starved unit", every=0.01)
        assert (unpaced.read(), unpaced.missing()) == (None, ())
        assert (seen.unit, seen.tick_seconds, seen.threshold) == ("player-0", 0.05, 0.9)
        assert seen.waited_share >= 0.9
        # What comes after the results is no play
        (tmp_path / "results.json").write_text("{}")
        os.utime(tmp_path / "results.json", (0, 0))
        over = meter.read()
        assert over is not None
        assert (over.starved, over.waited_share, over.unit) == (False, 0.0, None)


_STARTS = """
import os, signal, socket, sys, time
os.sched_setaffinity(0, {int(sys.argv[2])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
print("there", flush=True)
sys.stdin.readline()
until = time.monotonic() + 0.5
while time.monotonic() < until:
    pass
# from here on it has the processor as soon as anybody
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as held:
    held.sendall(b"GET /player")
    print("there", flush=True)
    signal.pause()
"""


def test_a_player_that_was_kept_waiting_until_it_connected_has_lost_nothing(
    tmp_path: Path, opened: Callable[[Any], Any]
) -> None:
    processor = str(min(os.sched_getaffinity(0)))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        hog = stack.enter_context(_program(_HOGS, processor))
        program = stack.enter_context(_program(_STARTS, address.rpartition(":")[2], processor))
        # A game of its own, so that what the test does is nobody's waiting
        idle = stack.enter_context(_program("print('there', flush=True)\nimport signal; signal.pause()"))
        game: Any = _Stub("game", (idle.pid,), address, tmp_path)
        player: Any = _Stub("player-0", (program.pid,), address, tmp_path)
        meter = opened(StarvationMeter(game, [player], tick=0.3))
        meter.look()
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(b"go\n")
        program.stdin.flush()
        assert program.stdout.readline() == b"there\n"
        hog.kill()
        while meter.read() is None:
            meter.look()
        end = time.monotonic() + 0.4

        def played() -> bool:
            meter.look()
            return time.monotonic() > end

        wait_until(played, what="a tick of play, and some looks more", every=0.01)
        seen = meter.read()
        assert seen is not None
        assert not seen.starved, seen


@dataclass
class _Stub:
    """As much of a unit as is looked at."""

    name: str
    pids: tuple[int, ...]
    address: str
    directory: Path
    exit: Exit | None = None
    slot: int | None = None

    @property
    def spec(self) -> Any:
        return self

    def processes(self) -> tuple[int, ...]:
        return self.pids

    def endpoint(self) -> Endpoint:
        return Endpoint(here=self.address, there=self.address)


def test_units_that_cannot_be_seen_are_not_judged(tmp_path: Path, opened: Callable[[Any], Any]) -> None:
    units: list[Any] = [_Stub(name, (), "127.0.0.1:1", tmp_path) for name in ("game", "player-0")]
    meter = opened(StarvationMeter(units[0], units[1:], tick=0.05))
    meter.look()
    assert meter.read() is None
    # And nobody is where only people play
    alone = opened(StarvationMeter(units[0], [], tick=0.05))
    alone.look()
    assert alone.read() is None


def test_a_player_that_ended_before_it_could_be_seen_is_missing(tmp_path: Path, opened: Callable[[Any], Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        ended = Exit(reason="exited", code=0)
        players: list[Any] = [
            _Stub("player-0", (), address, tmp_path, exit=ended),
            _Stub("player-1", (), address, tmp_path),
        ]
        for pids, missing in (((os.getpid(),), ("player-0",)), ((), ())):
            # Where not even the game can be seen, as on another machine, nobody is said to be missing
            game: Any = _Stub("game", pids, address, tmp_path)
            meter = opened(StarvationMeter(game, players, tick=None))
            meter.look()
            assert tuple(unit.name for unit in meter.missing()) == missing
            # The other one still runs, so it may yet connect
            assert [connected for _, connected in meter.connected()] == [False if missing else None, None]


def test_a_player_whose_connection_may_have_been_too_short_to_be_seen_is_not_missing(
    tmp_path: Path, opened: Callable[[Any], Any]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ended = Exit(reason="exited", code=0)
        player: Any = _Stub("player-0", (), f"127.0.0.1:{port}", tmp_path, exit=ended)
        game: Any = _Stub("game", (os.getpid(),), f"127.0.0.1:{port}", tmp_path)
        meter = opened(StarvationMeter(game, [player], tick=None))
        meter.look()

        def connect(say: bytes, *, own: bool = False) -> None:
            with socket.create_connection(("127.0.0.1", port)) as asking:
                # One of our own from that port to another game says nothing about this one
                note_own(asking.getsockname()[1], port if own else port + 1)
                asking.sendall(say)
                with server.accept()[0] as asked:
                    assert not say or asked.recv(100)

        # Neither says that a player was there
        connect(b"")
        connect(b"GET /healthz", own=True)
        assert meter.missing() == (player,)
        connect(b"GET /player")
        wait_until(lambda: not meter.missing(), what="the kernel's report of a closed connection")
        assert [connected for _, connected in meter.connected()] == [None]


def test_multi_core_player_is_named_as_the_cause(tmp_path: Path) -> None:
    players = [_Track(cast("Any", _Stub(f"player-{slot}", (), "", tmp_path, slot=slot)), 0.1) for slot in range(5)]
    # Of 10 ms: waits for half of them, runs on one, runs on two, wants three and gets half of one, waits with three
    did = ((1, 5), (10, 0), (20, 0), (5, 25), (1, 30))
    for player, (ran, waited) in zip(players, did, strict=True):
        for look in range(20):
            since = 1 + look / 100
            player.window.take(since, since + 0.01, ran=ran * SECOND // 1000, waited=waited * SECOND // 1000)
    starved, *_ = players
    starved.note(1.2, starved.window.last(1.2), 0.1, players)
    assert starved.worst(2.0) == (pytest.approx(0.05 / 0.09), (2, 3))
    assert starved.worst(1.0) == (0.0, ())


def test_who_burns_the_processors_is_found_late_and_does_not_count_as_starved(tmp_path: Path) -> None:
    burning, honest = (
        _Track(cast("Any", _Stub(f"player-{slot}", (), "", tmp_path, slot=slot)), 0.1) for slot in range(2)
    )
    for look in range(40):
        since, now = 1 + look / 100, 1.01 + look / 100
        # The honest one waits all the time, at first for processes that are not known yet
        honest.window.take(since, now, ran=0, waited=SECOND // 100)
        ran, waited = (SECOND // 100, 23 * SECOND // 100) if look >= 20 else (0, SECOND // 100)
        burning.window.take(since, now, ran=ran, waited=waited, longest=SECOND // 100)
        honest.note(now, honest.window.last(now), 0.1, (burning, honest))
        if look == 19:
            assert honest.worst(2.0) == (pytest.approx(1.0), ())
        elif look > 30:
            burning.note(now, burning.window.last(now), 0.1, (burning, honest))
    assert honest.worst(2.0) == (pytest.approx(1.0), (0,))
    assert burning.worst(2.0) == (0.0, ())
