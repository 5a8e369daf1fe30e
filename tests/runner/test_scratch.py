"""A run's directory: made, locked while its runner lives, removed, found again after a crash."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coworld_core.errors import EnvironmentFault
from coworld_core.ids import new_run_id
from coworld_runner.scratch import find_scratch, open_scratch, reap_scratch, run_is_alive, scratch_root


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return scratch_root()


def test_it_is_there_and_alive_inside_and_gone_outside() -> None:
    run_id = new_run_id()
    with open_scratch(run_id) as scratch:
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


def test_it_is_gone_after_an_error_too() -> None:
    run_id = new_run_id()
    with pytest.raises(ZeroDivisionError), open_scratch(run_id):
        _ = 1 / 0
    assert find_scratch(run_id) == ()


def test_what_took_its_own_rights_away_is_removed_all_the_same() -> None:
    run_id = new_run_id()
    with open_scratch(run_id) as scratch:
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
    with open_scratch(new_run_id()) as scratch:
        (scratch.directory("game") / "link").symlink_to(outside)
        (scratch.path / "link").symlink_to(outside)
    assert (outside / "kept").exists()


def test_a_killed_runner_leaves_a_dead_directory_that_is_reaped(tmp_path: Path) -> None:
    run_id = new_run_id()
    code = (
        "import sys, tempfile, signal\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "from coworld_runner.scratch import open_scratch\n"
        "with open_scratch(sys.argv[2]) as scratch:\n"
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


def test_a_root_that_is_not_ours_is_refused(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root.symlink_to(elsewhere)
    with pytest.raises(EnvironmentFault) as refused, open_scratch(new_run_id()):
        pass
    assert refused.value.code == "scratch_unsafe"
    assert list(elsewhere.iterdir()) == []
