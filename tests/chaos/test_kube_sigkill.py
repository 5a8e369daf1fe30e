"""Runners on a cluster killed with SIGKILL at random moments: what is left is found by its label and removed.

The moments are random, so the seed is printed; `COWORLD_CHAOS_SEED` repeats a run as far as the machine does.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from support.arena import make_backend
from support.kube import labelled, namespace_for_tests
from support.misfit_kit import ensure_image, marked_processes, new_mark
from support.waiting import live_on, wait_until

from coworld_core.ids import new_run_id
from coworld_runner.runs.reaper import sweep
from coworld_runner.runs.scratch import scratch_root

pytestmark = [pytest.mark.kubernetes]

SEED = int(os.environ.get("COWORLD_CHAOS_SEED", str(time.time_ns() % 1_000_000)))
KILLS = 20
AT_ONCE = 4
LONGEST = 12.0
"""Seconds: a run of these is over by then on an idle machine."""


@pytest.fixture
def namespace() -> Generator[str]:
    with namespace_for_tests() as name:
        yield name


def start(workspace: Path, run_id: str, image: str, mark: str) -> subprocess.Popen[bytes]:
    """Start a runner, which plays one short episode."""
    import json

    orders = {
        "backend": "kubernetes",
        "image": image,
        "mark": mark,
        "workspace": str(workspace),
        "run_id": run_id,
        "players": ("well", "well"),
        "config": {"play_seconds": 1.0},
    }
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("_victim.py")), json.dumps(orders)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.timeout(1500)
async def test_a_killed_runner_can_be_cleaned_up_after(namespace: str, tmp_path: Path) -> None:
    print(f"COWORLD_CHAOS_SEED={SEED}")
    chance = random.Random(SEED)
    image, mark = ensure_image(), new_mark()
    limit = anyio.CapacityLimiter(AT_ONCE)
    phases: Counter[str] = Counter()

    async def one(index: int, seconds: float) -> None:
        async with limit:
            run_id, workspace = new_run_id(), tmp_path / f"victim-{index}"
            victim = await anyio.to_thread.run_sync(start, workspace, run_id, image, mark)
            try:
                events = workspace / "events.ndjson"
                await anyio.to_thread.run_sync(lambda: wait_until(events.exists, seconds=240, what="a run"))
                await anyio.to_thread.run_sync(live_on, victim, seconds)
            finally:
                victim.kill()
                await anyio.to_thread.run_sync(victim.wait)
            phases[events.read_text().rpartition('"phase":"')[2].partition('"')[0]] += 1
            swept = await sweep([make_backend("kubernetes")], run_id=run_id, apply=True)
            assert swept.ok, swept
            assert all(item.run_id == run_id for item in swept.found)
            assert await anyio.to_thread.run_sync(labelled, namespace, run_id) == []

    async with anyio.create_task_group() as group:
        for index in range(KILLS):
            group.start_soon(one, index, LONGEST * (index + chance.random()) / KILLS)
    print(f"killed {KILLS} in {dict(phases)}")
    assert len(phases) >= 2, "the moments were not spread over the episode"
    # Looks at images are nobody's run: all at once is how they are cleaned up
    swept = await sweep([make_backend("kubernetes"), make_backend("process")], apply=True)
    assert swept.ok, swept
    assert [item.run_id for item in swept.found if not item.run_id.startswith("image-")] == []
    assert labelled(namespace) == []
    await anyio.to_thread.run_sync(
        lambda: wait_until(lambda: not marked_processes(mark), seconds=180, what="no process of theirs")
    )
    assert list(scratch_root().iterdir()) == []
