"""The event bus: numbers without gaps, listeners that fail, the log on disk."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from io import FileIO
from pathlib import Path

import pytest

from coworld_core.episode.events import BaseEvent, Notice, PhaseStarted, read_events
from coworld_runner.runs._append_log import AppendedFile
from coworld_runner.runs.event_bus import EventBus, EventLog


def notice(text: str) -> Notice:
    return Notice(message=text)


def test_numbers_have_no_gaps_and_carry_the_run() -> None:
    seen: list[BaseEvent] = []
    bus = EventBus("r1", seen.append)
    for index in range(5):
        bus.publish(notice(str(index)))
    assert [event.seq for event in seen] == [1, 2, 3, 4, 5]
    assert {event.run_id for event in seen} == {"r1"}
    assert [event.time for event in seen] == sorted(event.time for event in seen)
    assert tuple(seen) == bus.history


async def test_the_log_is_the_stream(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    with AppendedFile(path) as file:
        bus = EventBus("r1", EventLog(file))
        bus.publish(PhaseStarted(phase="prepare"))
        bus.publish(notice("ünïcode\nand a second line"))
        # Readable while the run goes on
        assert len(path.read_text().splitlines()) == 2
    assert read_events(path) == bus.history


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_log_not_the_run(tmp_path: Path) -> None:
    heard: list[BaseEvent] = []
    path = tmp_path / "events.ndjson"
    with AppendedFile(path) as file, FileIO("/dev/full", "w") as full:
        os.dup2(full.fileno(), file.fileno())
        bus = EventBus("r1", EventLog(file), heard.append)
        bus.publish(notice("lost"))
        bus.publish(notice("not tried again"))
    assert [event.message for event in heard if isinstance(event, Notice)] == [
        "lost",
        f"{path} is not complete: {os.strerror(errno.ENOSPC)}.",
        "not tried again",
    ]
    assert tuple(heard) == bus.history


def test_full_disk_leaves_no_partial_event(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the end of the disk."""
    path = tmp_path / "events.ndjson"
    code = """if True:
        import resource, signal, sys
        from pathlib import Path
        from coworld_core.episode.events import Notice
        from coworld_runner.runs._append_log import AppendedFile
        from coworld_runner.runs.event_bus import EventBus, EventLog
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with AppendedFile(Path(sys.argv[1])) as file:
            bus = EventBus("r1", EventLog(file))
            for number in range(20):
                bus.publish(Notice(message=str(number)))
            print(bus.history[-1].seq)
    """
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout == "21\n", "one more, which says that the log is not complete"
    assert path.read_bytes().endswith(b"\n")
    events = read_events(path)
    assert 1 < len(events) < 20
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
