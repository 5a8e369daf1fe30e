"""An odd directory among the runs costs its own row, with what is wrong with it, and nothing else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.odd_runs import ODD_RUNS, leave_odd_runs

from coworld_core.documents.records import read_lines
from coworld_core.errors import CoworldError, UsageError, WorkspaceError
from coworld_core.files.regular import open_regular, read_regular, regular_lines
from coworld_core.records.run_filter import RunFilter
from coworld_runner.control.event_tail import EventTail
from coworld_runner.control.local_controller import LocalController
from coworld_runner.records.local_runs import LocalRuns

_NO_RUNS = frozenset({"deep-log", "huge-digits"})
"""Logs of other programs, as far as can be seen."""
_ALL_IS_WELL = frozenset(
    {"huge-seed", "huge-slot", "missing-keys-log", "pipe-record", "pipe-rows", "pipe-tournament", "endless-record"}
    | {
        "missing-keys-rules",
        "last-year-seconds",
        "pipe-labels",
        "deep-plan",
        "huge-seconds-row",
        "endless-seconds-row",
        "huge-scores-row",
    }
)
"""What is odd there is none of what a run has, or its place stays empty."""


def files_of(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    leave_odd_runs(tmp_path / "results")
    yield tmp_path / "results"
    monkeypatch.undo()
    time.tzset()


async def test_an_odd_run_costs_its_own_row(results: Path, tmp_path: Path) -> None:
    index = tmp_path / "index.sqlite3"
    with LocalRuns(results, index=index) as runs:
        found = {run.path.name: run for run in runs.runs()}
        assert ODD_RUNS.keys() - found.keys() == _NO_RUNS
        assert {name for name, run in found.items() if not run.problem} == _ALL_IS_WELL
        assert "started_at is not a time" in found["first-year-record"].problem
        assert "coworld is not a text" in found["half-a-character-coworld"].problem
        assert "not a regular file" in found["pipe-log"].problem
        assert "1 GiB" in found["sparse-record"].problem
        told = [
            *runs.runs(),
            *runs.episodes(),
            *runs.episodes(RunFilter(fault="*", player="\ud800", labels={"a": "*"})),
        ]
        assert json.dumps([one.to_json() for one in told], ensure_ascii=False, allow_nan=False).encode()
        assert len(runs.query("SELECT * FROM runs").rows) == len(found)
    async with LocalController(results, index=index) as controller:
        assert len(await controller.recent(limit=None)) == len(found)
        for name in found:
            episode = await controller.episode(results / name)
            assert (await episode.info()).ended
            with suppress(CoworldError):
                _ = [event async for event in episode.events()]
            with pytest.raises(UsageError, match="ended"):
                await episode.terminate(hard=True)


def test_odd_runs_are_removed_or_kept_with_a_reason(results: Path, tmp_path: Path) -> None:
    with LocalRuns(results, index=tmp_path / "index.sqlite3") as runs:
        for name in ODD_RUNS.keys() - _NO_RUNS:
            before = files_of(results / name)
            try:
                runs.remove(results / name)
                assert not (results / name).exists()
            except WorkspaceError:
                assert files_of(results / name) == before
        assert not (results / "first-year-log").exists()
        assert runs.find(results / "pipe-log")


def test_runs_are_found_from_a_directory_that_was_removed(results: Path, tmp_path: Path) -> None:
    with LocalRuns(results, index=tmp_path / "index.sqlite3"):
        pass
    here = Path.cwd()
    (gone := tmp_path / "gone").mkdir()
    os.chdir(gone)
    try:
        gone.rmdir()
        with LocalRuns(index=tmp_path / "index.sqlite3") as runs:
            assert runs.runs()
    finally:
        os.chdir(here)


def test_only_regular_files_are_read_and_only_so_much_of_them(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one\ntwo\nthree")
    os.mkfifo(tmp_path / "pipe")
    assert read_regular(tmp_path / "file", most=13) == b"one\ntwo\nthree"
    assert list(regular_lines(tmp_path / "file", position=4, longest=5)) == [b"two\n", b"three"]
    for path, most, why in (
        (tmp_path / "file", 12, "13 bytes"),
        (tmp_path / "pipe", 12, "regular"),
        (Path("/dev/zero"), 12, "regular"),
        (tmp_path, 12, "directory"),
        (tmp_path / "none", 12, "No such file"),
        (tmp_path / "a\0b", 12, "null"),
    ):
        with pytest.raises(OSError, match=why):
            open_regular(path, most=most)
    with pytest.raises(OSError, match="at most 4 bytes"):
        list(regular_lines(tmp_path / "file", longest=4))
    for read in (
        lambda: list(read_lines(tmp_path / "pipe", what="rows", name="pipe")),
        EventTail(tmp_path / "pipe").more,
    ):
        with pytest.raises(UsageError) as caught:
            read()
        assert caught.value.code == "record_unreadable"
