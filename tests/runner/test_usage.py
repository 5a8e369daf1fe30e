"""What a unit takes of a disk: whatever it does to have that look like less."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from coworld_runner.collector.usage import FreeRoom, disk_usage, too_much
from coworld_runner.runs._trees import remove_tree

BLOCK = 4096


def test_files_links_and_directories(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * BLOCK)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "b").write_bytes(b"x" * BLOCK * 2)
    os.link(tmp_path / "a", tmp_path / "deep" / "again")
    (tmp_path / "link").symlink_to("/usr")
    used, entries = disk_usage([str(tmp_path)])
    assert 3 * BLOCK <= used < 6 * BLOCK
    assert entries == 6
    assert disk_usage([str(tmp_path / "none")]) == (0, 0)


def test_deep_directories_are_counted(tmp_path: Path) -> None:
    """Deeper than a program may call itself, and longer than a path may be."""
    here = tmp_path / "here"
    here.mkdir()
    top = os.open(here, os.O_RDONLY)
    try:
        for _ in range(1500):
            os.mkdir("deeper", dir_fd=top)
            below = os.open("deeper", os.O_RDONLY, dir_fd=top)
            os.close(top)
            top = below
        file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=top)
        os.ftruncate(file, 1 << 30)
        os.close(file)
    finally:
        os.close(top)
    used, entries = disk_usage([str(here)])
    assert entries == 1501
    assert used >= 1 << 30
    assert remove_tree(here) == "", "nobody else can"


def test_preallocated_and_unlinked_files_are_counted(tmp_path: Path) -> None:
    # the test runner has such files open too
    before = disk_usage([str(tmp_path)], processes=[os.getpid()])
    with (tmp_path / "reserved").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 20)
        (tmp_path / "reserved").unlink()
        assert disk_usage([str(tmp_path)]) == (0, 0)
        used, entries = disk_usage([str(tmp_path)], processes=[os.getpid()])
        assert used - before[0] >= 1 << 20
        assert entries - before[1] == 1


def test_measuring_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "file").touch()
    opened: list[object] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *args, **more: opened.append(args) or real(*args, **more))
    used = disk_usage([str(tmp_path)], most_entries=20)
    assert used[1] == 21
    assert len(opened) == 2
    assert too_much(used, None, 20) == "21 files and directories or more, 20 allowed"
    assert too_much(used, None, None) == too_much(used, 1 << 20, 21) == ""
    assert too_much((7, 1), 6, None) == "7 bytes on disk, 6 allowed"


def test_sudden_disk_use_is_detected(tmp_path: Path) -> None:
    # a disk that nobody else fills, or empties, just now
    places = [str(tmp_path / "none"), "/dev/shm"]
    limited, unlimited = FreeRoom(places, 4 << 20, None), FreeRoom(places, None, None)
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        os.posix_fallocate(file.fileno(), 0, 16 << 20)
        assert limited.fell()
        assert not unlimited.fell()
        limited.note()
        assert not limited.fell()
