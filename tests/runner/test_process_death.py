"""Nothing outlives a runner that is killed, at whatever moment and by whatever signal."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import psutil
import pytest
from support.waiting import live_on, wait_until

from coworld_core.episode.events import BaseEvent
from coworld_core.ids import new_run_id
from coworld_runner.backend import UnitSpec
from coworld_runner.backends import ProcessBackend
from coworld_runner.runs.scratch import make_scratch, scratch_root
from coworld_runner.testing.conformance import SUBJECT

pytestmark = pytest.mark.slow

DEADLINE = 30

RUNNER = """
import sys
from pathlib import Path
import anyio
from coworld_runner.backend import UnitSpec
from coworld_runner.backends import ProcessBackend
from coworld_runner.runs.scratch import make_scratch

async def main(run_id, subject):
    with make_scratch(run_id) as scratch:
        directory = scratch.directory("unit")
        def spec(name):
            return UnitSpec(
                run_id=run_id, name=name, component="player", image="image",
                argv=("python", subject, "child:child", "daemon:daemon", "stubborn", "write:up:", "hang"),
                environment=lambda placement: {"SUBJECT_DIR": placement.directory}, directory=scratch.directory(name),
            )
        async with ProcessBackend(default_context=Path("/")) as backend:
            async with backend.units([spec("one"), spec("two")], publish=lambda event: None):
                print("up", flush=True)
                await anyio.sleep_forever()

anyio.run(main, *sys.argv[1:])
"""


SHIMS = 2 if sys.platform == "linux" else 1


def labelled(run_id: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("COWORLD_RUN_ID") == run_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


@contextmanager
def runner(run_id: str) -> Generator[subprocess.Popen[bytes], None, None]:
    command = [sys.executable, "-c", RUNNER, run_id, str(SUBJECT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def everything_up(run_id: str) -> bool:
    # of each unit its shims, a subject, a child and a daemon
    up = all((scratch_root() / run_id / name / "up").exists() for name in ("one", "two"))
    return up and len(labelled(run_id)) == 2 * (SHIMS + 3)


def until_ended(run_id: str) -> None:
    wait_until(lambda: not labelled(run_id), seconds=DEADLINE, what="the end of all processes")


async def clean(run_id: str) -> None:
    async with ProcessBackend() as backend:
        reaped = await backend.reap(await backend.find(run_id))
        assert all(item.removed for item in reaped)
        assert await backend.find(run_id) == ()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_a_runner_that_is_killed_takes_everything_along(number: signal.Signals) -> None:
    run_id = new_run_id()
    with runner(run_id) as process:
        wait_until(lambda: everything_up(run_id), seconds=DEADLINE, what="units that are up")
        process.send_signal(number)
    until_ended(run_id)
    await clean(run_id)


async def test_a_runner_whose_whole_session_is_killed_takes_everything_along() -> None:
    run_id = new_run_id()
    with runner(run_id) as process:
        wait_until(lambda: everything_up(run_id), seconds=DEADLINE, what="units that are up")
        os.killpg(process.pid, signal.SIGKILL)
    until_ended(run_id)
    await clean(run_id)


async def test_runner_killed_at_any_moment_leaves_nothing() -> None:
    moments = random.Random(20261121)
    for _ in range(15):
        run_id = new_run_id()
        with runner(run_id) as process:
            # not before there is anything: then at any time in the next moments, in the middle of a start or after
            wait_until((scratch_root() / run_id).exists, seconds=DEADLINE, what="a run", every=0.005)
            live_on(process, moments.uniform(0, 0.15))
            process.kill()
        until_ended(run_id)
        await clean(run_id)


def test_units_live_and_end_under_an_event_loop_in_any_thread(tmp_path: Path) -> None:
    # as in a notebook or a server; signal handlers and child watchers would want the main thread
    run_id = new_run_id()
    spec = UnitSpec(run_id=run_id, name="unit", component="game", image="image", argv=("sleep", "1000"))
    reasons: list[str] = []

    async def main() -> None:
        async with (
            ProcessBackend(default_context=tmp_path) as backend,
            backend.units([spec], publish=_ignore) as (unit,),
        ):
            assert len(labelled(run_id)) == SHIMS + 1
            reasons.append((await unit.stop()).reason)

    with make_scratch(run_id):
        thread = threading.Thread(target=anyio.run, args=(main,))
        thread.start()
        thread.join(DEADLINE)
    assert reasons == ["stopped"]
    assert labelled(run_id) == []


def _ignore(_event: BaseEvent) -> None:
    pass
