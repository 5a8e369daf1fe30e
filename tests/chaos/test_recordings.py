"""Runners that record, killed with SIGKILL: what they had written can be read, and the same of it is exported.

The moments are random, so the seed is printed; `COWORLD_CHAOS_SEED` repeats a run as far as the machine does.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import anyio
import pytest
from support.cli_kit import start_script
from support.full import FULL
from support.killing import kill_amid

from coworld_core import iter_frames, iter_samples
from coworld_core.episode.events import read_events
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.ids import new_run_id
from coworld_core.records.samples import recording_end
from coworld_runner import LocalRuns
from coworld_runner.backends.process.process_backend import ProcessBackend
from coworld_runner.runs.reaper import sweep_run

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("COWORLD_CHAOS_SEED", str(time.time_ns() % 1_000_000)))
KILLS = 50 if FULL else 4
LARGEST = 50_000
"""Bytes of a recording after which a runner is killed at the latest: a third of a whole one."""


@pytest.mark.timeout(1800)
def test_no_recording_is_unreadable(tmp_path: Path) -> None:
    print(f"COWORLD_CHAOS_SEED={SEED}")
    chance = random.Random(SEED)
    counts: dict[Path, int] = {}
    for number in range(KILLS):
        kind = ("samples", "frames")[number % 2]
        workspace = tmp_path / f"run-{number:02d}"
        layout, run_id = EpisodeLayout(workspace), new_run_id()
        file = layout.samples if kind == "samples" else layout.frames
        size = chance.randrange(LARGEST)
        orders = json.dumps({"workspace": str(workspace), "record": kind, "run_id": run_id})
        log = tmp_path / f"{number}.log"
        kill_amid(
            start_script(Path(__file__).with_name("_recorded.py"), orders, log=log),
            lambda: file.exists() and file.stat().st_size > size,  # noqa: B023
            rest=0.01 * chance.random(),
            log=log,
        )
        read = list(iter_samples(workspace)) if kind == "samples" else list(iter_frames(workspace))
        lines = file.read_bytes().split(b"\n")
        end = recording_end(file)
        assert len(read) == sum(b'"time"' in line for line in lines[:-1])
        assert end is None or end.count == len(read)
        assert read_events(layout.events)
        counts[workspace] = len(read) if kind == "samples" else 0
        anyio.run(clean, run_id)
    with LocalRuns(tmp_path, index=tmp_path / "index.sqlite3") as runs:
        done = runs.export(tmp_path / "out", tables=("samples", "events"))
    assert sum(counts.values()) > 0
    assert done.rows["samples"] == sum(counts.values())


async def clean(run_id: str) -> None:
    """Remove what a killed runner has left besides its evidence."""
    async with ProcessBackend() as backend:
        await sweep_run(backend, run_id)
