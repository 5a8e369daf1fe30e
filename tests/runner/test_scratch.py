"""A run's directory: made, locked while its runner lives, removed, found again after a crash."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from coworld_core.errors import EnvironmentFault
from coworld_core.ids import new_run_id
from coworld_runner.runs.reaper import sweep
from coworld_runner.runs.scratch import (
    find_scratch,
    make_scratch,
    open_scratch,
    reap_scratch,
    run_is_alive,
    scratch_root,
)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return scratch_root()


def test_scratch_exists_only_inside_its_block() -> None:
    run_id = new_run_id()
    with make_scratch(run_id) as scratch:
        directory = scratch.directory("game", shared=True)
        (directory / "deep").mkdir()
        (directory / "deep" / "file").write_text("x")
        assert directory.stat().st_mode & 0o777 == 0o777
        assert scratch.path.stat().st_mode & 0o777 == 0o700
        assert run_is_alive(run_id)
        assert [item.alive for item in find_scratch(run_id)] == [True]
        (left,) = reap_scratch(find_scratch(run_id))
        assert not left.removed
        assert directory.exists()
    assert not scratch.path.exists()
    assert not run_is_alive(run_id)
    assert find_scratch(run_id) == ()


def test_scratch_is_removed_after_an_error() -> None:
    run_id = new_run_id()
    with pytest.raises(ZeroDivisionError), make_scratch(run_id):
        _ = 1 / 0
    assert find_scratch(run_id) == ()


def test_unreadable_directories_are_removed() -> None:
    run_id = new_run_id()
    with make_scratch(run_id) as scratch:
        closed = scratch.directory("game") / "closed"
        closed.mkdir()
        (closed / "file").write_text("x")
        closed.chmod(0o500)
        closed.parent.chmod(0o500)
    assert find_scratch(run_id) == ()


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    with make_scratch(new_run_id()) as scratch:
        (scratch.directory("game") / "link").symlink_to(outside)
        (scratch.path / "link").symlink_to(outside)
    assert (outside / "kept").exists()


def test_a_killed_runner_leaves_a_dead_directory_that_is_reaped(tmp_path: Path) -> None:
    run_id = new_run_id()
    code = (
        "import sys, tempfile, signal\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "from coworld_runner.runs.scratch import make_scratch\n"
        "with make_scratch(sys.argv[2]) as scratch:\n"
        "    scratch.directory('game')\n"
        "    print('ready', flush=True)\n"
        "    signal.pause()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), run_id], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == b"ready\n"
        assert run_is_alive(run_id)
        process.send_signal(signal.SIGKILL)
    (found,) = find_scratch(run_id)
    assert not found.alive
    (reaped,) = reap_scratch([found])
    assert reaped.removed
    assert find_scratch(run_id) == ()


def test_files_of_the_players_of_a_killed_evaluation_are_found(tmp_path: Path) -> None:
    code = """
import sys, anyio
from coworld_runner.evaluation.worker_pool import WorkerPool
from coworld_runner.package.resolver import resolve_package
async def main():
    async with WorkerPool(await resolve_package(sys.argv[1])):
        print("ready", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    nim, place = Path(__file__).parents[2] / "examples/nim", {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code, str(nim)], stdout=subprocess.PIPE, env=place) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    swept = anyio.run(lambda: sweep([], apply=True))
    assert [(item.found.alive, item.removed) for item in swept.reaped] == [(False, True)]
    assert list(tmp_path.iterdir()) == [scratch_root()]
    assert list(scratch_root().iterdir()) == []


def test_all_temporary_directories_are_of_a_kind_that_is_found() -> None:
    made = re.compile(r"(?:mkdtemp|TemporaryDirectory)\((?!.*\bdir=)")
    files = [file for file in Path(__file__).parents[2].glob("coworld_*/src/**/*.py") if made.search(file.read_text())]
    assert [file.name for file in files] == ["_spool.py"], "use open_scratch, which a killed process leaves to `clean`"


@pytest.mark.parametrize("how", ["link", "owner", "mode"])
def test_a_root_that_is_not_ours_is_refused_and_left_alone(root: Path, tmp_path: Path, how: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "dead").mkdir(parents=True)
    if how == "link":
        root.symlink_to(elsewhere)
    else:
        root.mkdir()
        (root / "dead").symlink_to(elsewhere)
    if how == "owner":
        if os.getuid() != 0:
            pytest.skip("needs root, to give a directory away")
        os.chown(root, 12345, 12345)
    if how == "mode":
        root.chmod(0o777)
    with pytest.raises(EnvironmentFault) as refused, make_scratch(new_run_id()):
        pass
    assert refused.value.code == "scratch_unsafe"
    assert str(root) in refused.value.message
    swept = anyio.run(lambda: sweep([], apply=True))
    assert (swept.found, swept.reaped) == ((), ())
    assert str(root) in swept.unavailable[0]
    assert (elsewhere / "dead").is_dir()


def test_a_stranger_who_takes_the_name_does_not_keep_a_user_from_playing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "runtime"
    private.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(private))
    assert scratch_root() == root
    root.symlink_to(tmp_path / "elsewhere")
    run_id = new_run_id()
    with make_scratch(run_id) as scratch:
        assert scratch.path == private / root.name / run_id
        root.unlink()
        assert scratch_root() == scratch.path.parent, "it has moved while it was in use"
        assert run_is_alive(run_id)
        swept = anyio.run(lambda: sweep([], run_id=run_id))
        assert [(item.id, item.alive) for item in swept.found] == [(str(scratch.path), True)]


async def test_removal_does_not_block_the_event_loop() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        async with open_scratch(new_run_id()) as scratch:
            for number in range(100):
                (scratch.path / f"{number}").mkdir()
            before = turns
        assert turns > before
        assert not scratch.path.exists()
        group.cancel_scope.cancel()


async def test_slow_removal_is_left_for_the_reaper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coworld_runner.runs.scratch.REMOVE_SECONDS", 0.0)
    told: list[str] = []
    run_id = new_run_id()
    with anyio.CancelScope() as scope:
        async with open_scratch(run_id, on_leak=lambda path, reason: told.append(f"{path}: {reason}")) as scratch:
            (scratch.path / "game").mkdir()
            scope.cancel()
    assert told == [f"{scratch.path}: {scratch.path}/…: not all of it could be removed within 0 s"]
    assert [item.alive for item in find_scratch(run_id)] == [False]
    assert [item.removed for item in reap_scratch(find_scratch(run_id))] == [True]
