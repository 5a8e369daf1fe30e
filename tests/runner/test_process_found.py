"""Finding and reaping local processes by their label."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coworld_core.ids import new_run_id
from coworld_runner.backend import Found, Reaped
from coworld_runner.backends import ProcessBackend
from coworld_runner.backends.process import _found as _process_found
from coworld_runner.backends.process._cgroup import new_group, remove_group
from coworld_runner.runs.scratch import make_scratch, scratch_root
from coworld_runner.testing import private_scratch

SLEEP = "print('up', flush=True); import signal; signal.pause()"


@contextmanager
def stray(code: str = SLEEP, **environment: str) -> Generator[subprocess.Popen[bytes], None, None]:
    """A process with a label, made by nobody we know."""
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **environment}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"up\n"
            yield process
        finally:
            process.kill()


async def find(run_id: str | None = None) -> tuple[Found, ...]:
    async with ProcessBackend() as backend:
        return tuple(item for item in await backend.find(run_id) if item.kind == "process")


async def reap(found: tuple[Found, ...], *, force: bool = False) -> tuple[Reaped, ...]:
    async with ProcessBackend() as backend:
        return await backend.reap(found, force=force)


async def test_a_process_of_a_dead_run_is_found_and_killed() -> None:
    run_id = new_run_id()
    with stray(COWORLD_RUN_ID=run_id, COWORLD_UNIT="player-3") as process:
        found = await find(run_id)
        assert [(item.id, item.name, item.run_id, item.alive) for item in found] == [
            (str(process.pid), "player-3", run_id, False)
        ]
        assert found[0].age_seconds is not None
        assert str(process.pid) in {item.id for item in await find()}
        assert [item.removed for item in await reap(found)] == [True]
        assert process.wait() == -9
        assert await find(run_id) == ()


async def test_process_without_a_label_is_ignored() -> None:
    with stray(COWORLD_UNIT="player-3", COWORLD_RUN_ID="") as process:
        assert str(process.pid) not in {item.id for item in await find()}


async def test_a_run_under_another_directory_for_temporary_files_is_alive(tmp_path: Path) -> None:
    run_id = new_run_id()
    with make_scratch(run_id) as scratch, stray(COWORLD_RUN_ID=run_id, COWORLD_SCRATCH=str(scratch.path)):
        with private_scratch(tmp_path):
            assert scratch_root() != scratch.path.parent
            found = await find(run_id)
            assert [item.alive for item in found] == [True]
            assert [(item.removed, item.reason) for item in await reap(found)] == [
                (False, "its runner is still running")
            ]
        with private_scratch(tmp_path):
            assert [item.removed for item in await reap(found, force=True)] == [True]


async def test_reused_process_id_is_left_alone() -> None:
    run_id = new_run_id()
    with stray(COWORLD_RUN_ID=run_id) as process:
        stale = Found(kind="process", id=str(process.pid), name="unit", run_id=new_run_id(), alive=False)
        assert [item.removed for item in await reap((stale,))] == [True]
        assert process.poll() is None
        assert len(await find(run_id)) == 1


async def test_reaping_never_ends_itself_nor_what_it_runs_in() -> None:
    run_id = new_run_id()
    code = """
import anyio, os, subprocess, sys
from coworld_runner.backends import ProcessBackend

async def main():
    async with ProcessBackend() as backend:
        found = [item for item in await backend.find(sys.argv[1]) if item.kind == "process"]
        for item in await backend.reap(found, force=True):
            print(item.found.id, item.removed, item.reason)

print(os.getppid(), os.getpid(), flush=True)
anyio.run(main)
"""
    outer = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {code!r}, {run_id!r}]))"
    with stray(COWORLD_RUN_ID=run_id) as victim:
        result = subprocess.run(  # noqa: ASYNC221
            [sys.executable, "-c", outer],
            env={**os.environ, "COWORLD_RUN_ID": run_id},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        first, *lines = result.stdout.splitlines()
        own = set(first.split())
        said = {line.split(" ", 2)[0]: line.split(" ", 2)[1:] for line in lines}
        assert said.keys() == own | {str(victim.pid)}
        for pid in own:
            assert said[pid] == ["False", "it is this process or one of its ancestors"]
        assert said[str(victim.pid)][0] == "True"
        assert victim.wait() == -9


async def test_another_users_processes_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = new_run_id()
    with stray(COWORLD_RUN_ID=run_id, COWORLD_UNIT="unit"):
        assert len(await find(run_id)) == 1
        other = os.getuid() + 1
        monkeypatch.setattr(_process_found, "user", lambda: other)
        assert await find(run_id) == ()


@contextmanager
def bare(group: Path) -> Generator[subprocess.Popen[bytes], None, None]:
    """A process without any environment, in a control group."""
    group.mkdir()
    with subprocess.Popen(["/bin/sleep", "1000"], env={}) as process:
        try:
            (group / "cgroup.procs").write_text(str(process.pid))
            yield process
        finally:
            process.kill()


needs_groups = pytest.mark.skipif(not new_group("run", "unit"), reason="this user can make no control group")


@needs_groups
async def test_a_process_without_any_environment_is_known_by_its_control_group() -> None:
    run_id = new_run_id()
    group = Path(new_group(run_id, "player-3"))
    with bare(group) as process:
        found = await find(run_id)
        assert [(item.id, item.name, item.alive) for item in found] == [(str(process.pid), "player-3", False)]
        assert [item.removed for item in await reap(found)] == [True]
        assert process.wait() == -9
    assert await reap(()) == ()
    assert not group.exists()  # noqa: ASYNC240


@needs_groups
async def test_a_bare_process_of_a_living_run_is_left_alone(tmp_path: Path) -> None:
    """Others of its run say where its runner's lock is."""
    run_id = new_run_id()
    group = Path(new_group(run_id, "player-3"))
    with (
        make_scratch(run_id) as scratch,
        stray(COWORLD_RUN_ID=run_id, COWORLD_SCRATCH=str(scratch.path)),
        bare(group),
        private_scratch(tmp_path),
    ):
        assert [item.alive for item in await find(run_id)] == [True, True]
    remove_group(group)
