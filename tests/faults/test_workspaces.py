"""Places that evidence cannot go to: refused or told by type, and what was there before stays as it was."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from support.arena import Arena

from coworld_core.episode.events import read_events
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import read_record, read_summary
from coworld_core.errors import EnvironmentFault
from coworld_runner.backend import Limits
from coworld_runner.episode.batch import run_batch
from coworld_runner.episode.single import EpisodeOptions, run_episode
from coworld_runner.runs.scratch import Scratch, scratch_root

pytestmark = pytest.mark.slow

MIB = 1 << 20


def fingerprint(directory: Path) -> dict[str, str]:
    """Every file below a directory, by its content."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


async def test_the_record_is_there_before_what_was_left_is_removed(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, remove = arena.workspace(), Scratch.remove
    seen: list[bool] = []

    def not_quite(scratch: Scratch, within: float) -> str:
        seen.append(read_record(workspace).ok)
        return remove(scratch, within) or "somebody else has it"

    monkeypatch.setattr(Scratch, "remove", not_quite)
    record = await run_episode(arena.plan(), backend=arena.backend, workspace=workspace, run_id=arena.new_run())
    assert seen == [True]
    assert record.ok
    assert read_record(workspace) == record
    (leak,) = record.leaks
    assert leak.what == f"directory {scratch_root() / record.run_id}"
    assert leak.reason == "somebody else has it"


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system with room for four mebibytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root")
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(mount)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield mount
    subprocess.run(["umount", "--lazy", str(mount)], check=True)


async def test_replay_larger_than_the_disk_is_reported(arena: Arena, small_disk: Path) -> None:
    """The scores stand; the replay is missing by the machine's fault, and nothing half-written passes for it."""
    found = await arena.play(arena.plan("big-replay", size=16 * MIB), workspace=small_disk / "run")
    assert found.record.status == "completed"
    assert found.record.scores == (0.0, 1.0)
    (fault,) = found.record.faults
    assert (fault.party, fault.error_type) == ("platform", "artifact_transport_error")
    assert "room" in fault.message or "space" in fault.message
    assert not found.layout.replay.exists()


async def test_a_flood_on_a_full_disk(arena: Arena, small_disk: Path) -> None:
    """Logs are cut where the disk ends; the run goes on as far as it can, and its record says how far that was."""
    earlier = await arena.play(arena.plan(), workspace=small_disk / "earlier")
    before = fingerprint(earlier.layout.workspace)
    limits = Limits(log_bytes=64 * MIB)
    plan = arena.plan("floods-log", size=32 * MIB)
    options = EpisodeOptions(timeout_seconds=60, game_limits=limits)
    workspace = small_disk / "flooded"
    record = await run_episode(
        plan, backend=arena.backend, workspace=workspace, options=options, run_id=arena.new_run()
    )
    layout = EpisodeLayout(workspace)
    assert read_record(layout.record) == record
    assert not record.ok
    assert {(fault.party, fault.error_type) for fault in record.faults} == {("platform", "artifact_transport_error")}
    assert any("is not complete: No space left on device" in warning for warning in record.warnings)
    assert record.status == "failed"
    assert not layout.results.exists()
    # As many events as there was room for, all of them whole
    events = read_events(layout.events)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert list(workspace.rglob(".*")) == []
    assert fingerprint(earlier.layout.workspace) == before


def fill(path: Path) -> None:
    """Write a file as large as the disk allows."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as filler:
        while filler.write(b"\0" * 4096):
            pass
    assert os.statvfs(path).f_bavail == 0


async def test_full_disk_at_start_is_reported(arena: Arena, small_disk: Path) -> None:
    earlier = await arena.play(arena.plan(), workspace=small_disk / "earlier")
    before = fingerprint(earlier.layout.workspace)
    fill(small_disk / "filler")
    with pytest.raises(EnvironmentFault) as full:
        await arena.play(arena.plan(), workspace=small_disk / "run")
    assert full.value.code == "disk_full"
    assert fingerprint(earlier.layout.workspace) == before


async def test_a_batch_on_a_disk_that_fills_up_keeps_what_it_had(arena: Arena, small_disk: Path) -> None:
    with pytest.raises(EnvironmentFault) as full:
        await run_batch(
            arena.plan("floods-log", size=3 * MIB),
            episodes=4,
            backend=arena.backend,
            workspace=small_disk / "batch",
            options=EpisodeOptions(timeout_seconds=60),
        )
    assert full.value.code == "disk_full"
    first = fingerprint(small_disk / "batch/episode-0001")
    assert {"results.json", "replay", "episode.json"} <= set(first)
    summary = read_summary(small_disk / "batch")
    assert summary.status == "failed"
    assert summary.episodes[0].ok
    for row in summary.episodes:
        record = read_record(small_disk / "batch" / row.workspace)
        assert record.ok is row.ok
