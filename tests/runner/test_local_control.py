"""Runs of other processes: whose they are, what their logs gain, and which of them are not stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from coworld_core.episode.events import RunFinished, RunStarted
from coworld_core.errors import CoworldError
from coworld_runner.control.event_tail import EventTail
from coworld_runner.control.local_episode import LocalEpisode, read_info
from coworld_runner.control.run_stopping import stop_run
from coworld_runner.runs import lock_holder
from coworld_runner.runs.lock_holder import find_holder, process_identity

_HOLDS = """
import fcntl, sys
files = [open(path, "r+b") for path in sys.argv[1:]]
for file in files:
    fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(*logs: Path) -> Generator[subprocess.Popen[bytes]]:
    """Another process that has logs locked, as one that writes to them."""
    words = [sys.executable, "-c", _HOLDS, *map(str, logs)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.stdin.close()


def leave(place: Path, run_id: str = "abcdef0123") -> Path:
    """The log of a run that has begun."""
    place.mkdir(parents=True)
    log = place / "events.ndjson"
    started = RunStarted(what="episode", seq=1, run_id=run_id, backend="process", players=("ada", "bob"))
    log.write_text(started.model_dump_json() + "\n")
    return log


def begin_again(log: Path, process: subprocess.Popen[bytes], later: float = 0) -> None:
    """Let a log say that a process has resumed its run, or another one with its number that began later."""
    identity = process_identity(process.pid)
    assert identity is not None
    event = RunStarted(
        what="episode",
        run_id="abcdef0123",
        backend="process",
        pid=identity[0],
        process_start=identity[1] + later,
    )
    with log.open("a") as file:
        file.write(event.model_dump_json() + "\n")


async def test_a_process_that_has_only_locked_the_log_is_not_stopped(tmp_path: Path) -> None:
    log = leave(tmp_path / "one")
    for later in (None, 0.01):
        for hard in (False, True):
            with holding(log) as process:
                if later is not None:
                    begin_again(log, process, later)
                with pytest.raises(CoworldError) as caught:
                    await stop_run(log.parent, hard=hard)
                assert caught.value.code == "locked_by_another"
                assert f"process {process.pid} ({sys.executable}" in caught.value.message
                assert process.poll() is None
    for hard, signal_number in ((False, signal.SIGINT), (True, signal.SIGKILL)):
        with holding(log) as process:
            begin_again(log, process)
            await stop_run(log.parent, hard=hard)
            assert process.wait() == -signal_number


def test_the_process_that_has_a_file_locked_is_found_with_all_that_it_has(tmp_path: Path) -> None:
    one, other, free = (leave(tmp_path / name) for name in ("one", "other", "free"))
    with holding(one, other) as process:
        holder = find_holder(one)
        assert holder is not None
        assert (holder.process, set(holder.locked)) == (psutil.Process(process.pid), {one, other})
        assert find_holder(free) is None
        # A file with the same number on another file system would not be it
        assert find_holder(tmp_path / "missing") is None
    assert find_holder(one) is None


async def test_a_process_that_plays_other_runs_is_not_stopped(tmp_path: Path) -> None:
    one, other = leave(tmp_path / "one"), leave(tmp_path / "other")
    for hard in (False, True):
        with holding(one, other) as process:
            with pytest.raises(CoworldError) as caught:
                await stop_run(one.parent, hard=hard)
            assert caught.value.code == "several_runs"
            assert str(other.parent) in caught.value.message
            assert process.poll() is None


async def test_a_run_whose_process_cannot_be_seen_is_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = leave(tmp_path / "one")
    monkeypatch.setattr(lock_holder, "_LOCKS", Path(os.devnull))
    with holding(log):
        with pytest.raises(CoworldError) as caught:
            await stop_run(log.parent)
        assert caught.value.code == "run_elsewhere"
    # It has ended meanwhile
    await stop_run(log.parent)


async def test_a_run_is_running_while_its_log_is_locked_and_lost_without_an_end(tmp_path: Path) -> None:
    log = leave(tmp_path / "one")
    episode = LocalEpisode("abcdef0123", log.parent)
    with holding(log):
        assert (await episode.info()).state == "running"
        assert [(seat.name, seat.score) for seat in await episode.seats()] == [("ada", None), ("bob", None)]
    assert (await episode.result()).state == "lost"
    with log.open("a") as file:
        file.write(
            RunFinished(seq=2, run_id="abcdef0123", status="failed", ok=False, seconds=1).model_dump_json() + "\n"
        )
    assert (await episode.result()).state == "failed"
    assert [(event.cursor, event.state) async for event in episode.events(after="1")] == [("2", "failed")]


async def test_a_run_that_another_has_replaced_or_removed_is_said_to_be_gone(tmp_path: Path) -> None:
    log = leave(tmp_path / "one", run_id="another")
    episode = LocalEpisode("abcdef0123", log.parent)
    assert [event async for event in episode.events()] == []
    for _ in range(2):
        with pytest.raises(CoworldError) as caught:
            await episode.info()
        assert caught.value.code == "no_such_run"
        log.unlink(missing_ok=True)
    assert read_info(log.parent) is None


def test_a_line_that_is_cut_off_and_written_again_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "events.ndjson"
    tail = EventTail(log)
    assert tail.more() == []
    log.write_bytes(b'{"a": 1}\n{"b"')
    assert tail.more() == [b'{"a": 1}']
    assert tail.more() == []
    # A run that is resumed cuts off what a killed one has left
    log.write_bytes(b'{"a": 1}\n')
    assert tail.more() == []
    log.write_bytes(b'{"a": 1}\n{"c": "' + b"x" * (3 << 20) + b'"}\n{"d": 1}\n')
    long, last = tail.more()
    assert (len(long), last) == ((3 << 20) + 9, b'{"d": 1}')
    assert tail.more() == []
