"""Workspaces are fresh or refused."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from coworld_core.episode.events import ArtifactCollected, RunStarted
from coworld_core.episode.record import BatchSummary, EpisodeRecord, EpisodeRow, ImageRecord, UnitRecord
from coworld_core.errors import WorkspaceError
from coworld_core.files.locks import is_free, lock
from coworld_core.hints import hint_fields
from coworld_runner.runs.workspace import (
    artifact_records,
    atomic_write,
    open_workspace,
    point_latest,
    prepare_workspace,
    remove_workspace,
)


def event(what: str, run_id: str = "r1", workspace: Path = Path()) -> str:
    """The first line of a run's events."""
    started = RunStarted(what=what, seq=1, run_id=run_id, workspace=str(workspace))  # pyright: ignore[reportArgumentType]
    return started.model_dump_json() + "\n"


def write(directory: Path, files: Mapping[str, str]) -> None:
    """Write files, by their names relative to a directory, which is made."""
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def an_episode(directory: Path) -> Path:
    """The workspace of an episode that has left all it can leave, without its record."""
    collected = [
        ArtifactCollected(seq=2, run_id="r1", name=name, size=1) for name in ("map.txt", "logs/game/turns.log")
    ]
    events = event("episode", workspace=directory) + "".join(line.model_dump_json() + "\n" for line in collected)
    names = ("replay", "replay.html", "policy_artifact_11.zip", ".results.json.0123456789ab.part", "map.txt")
    logs = ("game.stdout.log", "policy_agent_11.log", "replay.stderr.log", "https-proxy.log", "game/turns.log")
    contents = dict.fromkeys((*names, *(f"logs/{name}" for name in logs)), "x")
    write(
        directory, {"events.ndjson": events, "config.json": "{}", "results.json": "{}", "events.json": "[]"} | contents
    )
    return directory


def several_episodes(directory: Path) -> Path:
    """The workspace of a run that was killed: one of its episodes has a row, one has begun, and one is about to."""
    row = EpisodeRow(
        index=1, run_id="r1", workspace="episode-0001", status="completed", ok=True, seconds=1, key="episode-0001"
    )
    rows = row.model_dump_json() + "\n"
    write(directory, {"events.ndjson": event("batch", workspace=directory), "episodes.jsonl": rows})
    an_episode(directory / "episode-0001")
    an_episode(directory / "block-0001.1-1")
    (directory / "episode-0002").mkdir()
    return directory


def snapshot(directory: Path) -> dict[str, str]:
    """Everything below a directory; of a file its content, and of a link its target."""
    return {
        str(path.relative_to(directory)): str(path.readlink())
        if path.is_symlink()
        else path.read_text()
        if path.is_file()
        else "/"
        for path in sorted(directory.rglob("*"))
    }


def opened(path: Path, **more: Any) -> dict[str, str]:
    """Open a workspace, and return what is in it then."""
    with open_workspace(path, **more) as (layout, _):
        return snapshot(layout.workspace)


FRESH = {"events.ndjson": "", "logs": "/"}


def refused(path: Path) -> WorkspaceError:
    """Overwrite a directory that is refused, and in which nothing may change."""
    before = snapshot(path)
    with pytest.raises(WorkspaceError) as error:
        opened(path, overwrite=True)
    assert snapshot(path) == before
    return error.value


def test_a_new_directory_and_its_parents_are_made(tmp_path: Path) -> None:
    layout = prepare_workspace(tmp_path / "a" / "b")
    assert layout.logs.is_dir()
    assert layout.workspace.is_absolute()
    assert opened(tmp_path / "c" / "d") == FRESH


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert prepare_workspace(tmp_path / "one").workspace == tmp_path / "one"
    assert opened(tmp_path / "two") == FRESH
    # What a run leaves that could not begin is nothing either
    assert opened(tmp_path / "two") == FRESH


@pytest.mark.parametrize("open_it", [prepare_workspace, opened])
def test_results_of_another_run_are_never_in_the_way(tmp_path: Path, open_it: Callable[[Path], object]) -> None:
    old = tmp_path / "results.json"
    old.write_text('{"scores": [1, 2]}')
    with pytest.raises(WorkspaceError) as refused:
        open_it(tmp_path)
    assert refused.value.code == "workspace_not_empty"
    assert refused.value.hint is not None
    assert hint_fields(refused.value.hint)["hint_code"] == "fresh_workspace"
    assert snapshot(tmp_path) == {"results.json": '{"scores": [1, 2]}'}


def test_a_run_that_can_be_resumed_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "episodes.jsonl").touch()
    with pytest.raises(WorkspaceError) as refused:
        opened(tmp_path, marker="episodes.jsonl")
    assert hint_fields(refused.value.hint or "")["hint_code"] == "resume_or_fresh"
    assert opened(tmp_path, marker="episodes.jsonl", resume=True)


def test_overwrite_removes_what_an_episode_wrote(tmp_path: Path) -> None:
    assert opened(an_episode(tmp_path), overwrite=True) == FRESH


def test_overwrite_removes_what_several_episodes_wrote(tmp_path: Path) -> None:
    several_episodes(tmp_path / "run")
    assert opened(tmp_path / "run", overwrite=True) == FRESH
    (several_episodes(tmp_path / "run") / "events.ndjson").unlink()
    error = refused(tmp_path / "run")
    assert error.context["foreign"] == ["block-0001.1-1/"]


def test_overwrite_removes_a_run_that_was_moved(tmp_path: Path) -> None:
    several_episodes(tmp_path / "run").rename(tmp_path / "moved")
    assert opened(tmp_path / "moved", overwrite=True) == FRESH


@pytest.mark.parametrize("of", ["an episode", "an episode of its own", "a run of many"])
def test_overwrite_spares_another_run_that_was_copied_into_one_of_many(tmp_path: Path, of: str) -> None:
    run, other = several_episodes(tmp_path / "run"), tmp_path / "other"
    if of == "a run of many":
        several_episodes(other)
    else:
        an_episode(other if of == "an episode" else run / "episode-0001")
    shutil.copytree(run / "episode-0001" if of == "an episode of its own" else other, run / "kept")
    assert refused(run).context["foreign"] == ["kept/"]
    with pytest.raises(WorkspaceError) as error:
        remove_workspace(run)
    assert error.value.context["foreign"] == ["kept/"]
    shutil.rmtree(run / "kept")
    remove_workspace(run)
    assert not run.exists()


def test_overwrite_spares_what_has_the_name_of_a_summary(tmp_path: Path) -> None:
    write(several_episodes(tmp_path), {"summary.json": '{"mine": 1}'})
    assert refused(tmp_path).context["foreign"] == ["summary.json"]
    summary = BatchSummary(
        coworld="c", version="1", backend="process", variant="v", status="completed", planned=1, completed=1, faulted=0,
        seconds=1,
    )  # fmt: skip
    write(tmp_path, {"summary.json": summary.model_dump_json()})
    assert opened(tmp_path, overwrite=True) == FRESH


def test_overwrite_removes_what_a_certification_wrote(tmp_path: Path) -> None:
    write(tmp_path, {"events.ndjson": event("certification"), "certification.json": "{}", "certification.html": "<p>"})
    (tmp_path / "logs" / "replay-zlib").mkdir(parents=True)
    (tmp_path / "logs" / "replay-zlib" / "replay.stderr.log").write_text("x")
    an_episode(tmp_path / "episode")
    assert opened(tmp_path, overwrite=True) == FRESH


def test_a_record_alone_shows_that_an_episode_was_here(tmp_path: Path) -> None:
    an_episode(tmp_path)
    for name in ("events.ndjson", "map.txt", "logs/game/turns.log"):
        (tmp_path / name).unlink()
    now = dt.datetime.now(dt.UTC)
    record = EpisodeRecord(
        run_id="r1",
        coworld="c",
        version="1",
        backend="process",
        variant="v",
        status="completed",
        started_at=now,
        ended_at=now,
        seconds=1,
        game=UnitRecord(image=ImageRecord(image="i")),
    )
    (tmp_path / "episode.json").write_text(record.model_dump_json())
    assert opened(tmp_path, overwrite=True) == FRESH


def test_a_run_killed_while_it_overwrote_can_be_repeated_at_any_point(tmp_path: Path) -> None:
    """One more file is removed in each round, until all are."""

    def dead_after(removed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        count = itertools.count()
        unlink = os.unlink

        def failing(*given: Any, **more: Any) -> None:
            if next(count) == removed:
                raise KeyboardInterrupt
            unlink(*given, **more)

        monkeypatch.setattr(os, "unlink", failing)

    removed = 0
    for removed in itertools.count():
        place = tmp_path / str(removed)
        write(place, {"events.ndjson": event("batch", workspace=place), "episodes.jsonl": "{}\n", "plan.json": "{}"})
        (place / "plan.json").unlink()
        an_episode(place / "episode-0001")
        with pytest.MonkeyPatch.context() as patched:
            dead_after(removed, patched)
            try:
                opened(place, overwrite=True)
                break
            except KeyboardInterrupt:
                pass
        assert opened(place, overwrite=True) == FRESH
    assert removed > 10


def test_overwrite_spares_a_source_tree_with_logs(tmp_path: Path) -> None:
    write(tmp_path, {"thesis.py": "years = 4\n", "logs/monday.log": "late\n"})
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    error = refused(tmp_path)
    assert error.code == "workspace_foreign"
    assert "contains files that no run has written: thesis.py, .git/ and logs/monday.log. Nothing was removed." in str(
        error
    )
    assert error.context["count"] == 3


def test_overwrite_spares_a_source_tree_with_a_config(tmp_path: Path) -> None:
    write(tmp_path, {"config.json": '{"tokens": ["mine"]}', "src/main.py": "run()\n", "results.json": "{}"})
    write(tmp_path, {"notes.md": "a", "z.md": "b"})
    error = refused(tmp_path)
    assert error.code == "workspace_foreign"
    assert "config.json, notes.md, results.json and 2 more" in str(error)


def test_overwrite_spares_what_looks_like_a_record(tmp_path: Path) -> None:
    write(
        tmp_path, {"episode.json": '{"title": "Pilot"}', "events.ndjson": '{"kind": "click"}\n', "summary.json": "{}"}
    )
    assert refused(tmp_path).context["count"] == 3


FOREIGN: dict[str, Callable[[Path], object]] = {
    "notes.txt": lambda place: (place / "notes.txt").write_text("mine"),
    "logs/notes.txt": lambda place: (place / "logs" / "notes.txt").write_text("mine"),
    "logs/game/notes.txt": lambda place: (place / "logs" / "game" / "notes.txt").write_text("mine"),
    "logs/old/": lambda place: (place / "logs" / "old").mkdir(),
    "plan.json": lambda place: (place / "plan.json").write_text("mine"),
    "episode-0001/": lambda place: an_episode(place / "episode-0001"),
    "replay": lambda place: ((place / "replay").unlink(), (place / "replay").symlink_to("/etc/hostname")),
    "logs/game.stdout.log": lambda place: (
        (place / "logs" / "game.stdout.log").unlink(),
        (place / "logs" / "game.stdout.log").symlink_to("/etc/hostname"),
    ),
    "results.json/": lambda place: ((place / "results.json").unlink(), (place / "results.json").mkdir()),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_overwrite_removes_nothing_where_something_foreign_is(tmp_path: Path, name: str) -> None:
    FOREIGN[name](an_episode(tmp_path))
    error = refused(tmp_path)
    assert error.code == "workspace_foreign"
    assert error.context["foreign"] == [name]


def test_overwrite_names_what_is_foreign_in_an_episodes_directory(tmp_path: Path) -> None:
    write(tmp_path, {"events.ndjson": event("batch", workspace=tmp_path)})
    (an_episode(tmp_path / "episode-0001") / "notes.txt").write_text("mine")
    write(tmp_path, {"analysis/plot.py": "draw()"})
    assert refused(tmp_path).context["foreign"] == ["analysis/", "episode-0001/notes.txt"]


def test_overwrite_leaves_logs_alone_that_are_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    an_episode(tmp_path / "run")
    (tmp_path / "run" / "logs").rename(elsewhere)
    (tmp_path / "run" / "logs").symlink_to(elsewhere)
    before = snapshot(elsewhere)
    assert refused(tmp_path / "run").context["foreign"] == ["logs"]
    assert snapshot(elsewhere) == before


@pytest.mark.parametrize("below", ["", "sub"])
@pytest.mark.parametrize("place", ["cwd", "home"])
def test_the_current_and_the_home_directory_are_never_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, below: str
) -> None:
    (an_episode(tmp_path / "run") / below).mkdir(exist_ok=True)
    if place == "cwd":
        monkeypatch.chdir(tmp_path / "run" / below)
    else:
        monkeypatch.setenv("HOME", str(tmp_path / "run" / below))
    error = refused(tmp_path / "run")
    assert error.code == "workspace_foreign"
    assert "which is never emptied" in str(error)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with open_workspace(tmp_path / "run") as (layout, _):
        layout.events.write_text(event("episode"))
        for more in ({}, {"overwrite": True}, {"resume": "events.ndjson"}):
            with pytest.raises(WorkspaceError, match="Another run is writing to") as error:
                opened(tmp_path / "run", **more)
            assert error.value.code == "workspace_busy"
        assert layout.events.read_text() == event("episode")
    assert opened(tmp_path / "run", overwrite=True) == FRESH


def test_an_episode_of_a_living_run_is_not_overwritten(tmp_path: Path) -> None:
    with open_workspace(tmp_path / "run") as (layout, _):
        an_episode(layout.workspace / "episode-0001")
        with pytest.raises(WorkspaceError, match=r"Another run is writing to .*/run[: .]"):
            opened(layout.workspace / "episode-0001", overwrite=True)
        assert (layout.workspace / "episode-0001" / "results.json").exists()
    assert opened(tmp_path / "run" / "episode-0001", overwrite=True) == FRESH


def test_a_run_in_another_process_keeps_its_workspace_until_it_dies(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from coworld_runner.runs.workspace import open_workspace\n"
        "with open_workspace(Path(sys.argv[1])) as (layout, _):\n"
        "    layout.events.write_text(sys.argv[2])\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "run"), event("episode")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        for overwrite in (False, True):
            with pytest.raises(WorkspaceError, match="Another run is writing to") as error:
                opened(tmp_path / "run", overwrite=overwrite)
            assert error.value.code == "workspace_busy"
            if sys.platform == "linux":
                assert re.search(rf"process {other.pid} \(.*\), which began at \d{{4}}-", str(error.value))
        assert snapshot(tmp_path / "run") == {"events.ndjson": event("episode"), "logs": "/"}
        # A run of several episodes that is asked to make room, while one of them is opened on its own
        write(tmp_path, {"events.ndjson": event("batch")})
        with pytest.raises(WorkspaceError, match=r"Another run is writing to .*/run: "):
            opened(tmp_path, overwrite=True)
    finally:
        other.kill()
        other.communicate()
    assert opened(tmp_path / "run", overwrite=True) == FRESH


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_file_is_refused_as_a_workspace(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError) as refused:
        prepare_workspace(tmp_path / where)
    assert refused.value.code == "workspace_not_a_directory"


def test_unwritable_workspace_is_reported(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from coworld_runner.runs.workspace import prepare_workspace\n"
        "from coworld_core.errors import WorkspaceError\n"
        "import os\n"
        "if os.getuid() == 0:\n    os.setgid(65534); os.setuid(65534)\n"
        "try:\n    prepare_workspace(Path(sys.argv[1]) / 'new')\n"
        "except WorkspaceError as error:\n    print(error.code)\n"
    )
    for parent in (tmp_path, *tmp_path.parents):
        if parent.owner() != "root" or not os.access(parent, os.X_OK) or parent == parent.parent:
            break
        parent.chmod(parent.stat().st_mode | 0o011)
    done = subprocess.run([sys.executable, "-c", code, str(closed)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "workspace_unwritable", done.stderr


def test_latest_points_at_the_newest_and_never_replaces_a_directory(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        point_latest(tmp_path, tmp_path / name)
    assert (tmp_path / "latest").readlink() == Path("two")
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()
    point_latest(tmp_path, tmp_path / "one")
    assert not (tmp_path / "latest").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "latest"}


def test_atomic_write_leaves_nothing_half_done(tmp_path: Path) -> None:
    target = tmp_path / "episode.json"
    atomic_write(target, b"whole")
    (tmp_path / "directory").mkdir()
    with pytest.raises(WorkspaceError):
        atomic_write(tmp_path / "directory", b"cannot be")
    assert target.read_bytes() == b"whole"
    assert {path.name for path in tmp_path.iterdir()} == {"episode.json", "directory"}


def test_artifacts_are_listed_with_digests_and_without_links(tmp_path: Path) -> None:
    layout = prepare_workspace(tmp_path / "w")
    layout.results.write_bytes(b"{}")
    layout.record.write_text("not itself")
    (layout.workspace / "link").symlink_to("/etc/passwd")
    (layout.workspace / ".hidden.part").write_text("unfinished")
    (record,) = artifact_records(layout)
    assert record.path == "results.json"
    assert record.size == 2
    assert record.sha256 == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_a_file_is_not_taken_as_locked_because_others_look(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.touch()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            is_free(file)

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(500):
            with file.open("r+b") as opened:
                assert lock(opened.fileno())
                assert not is_free(file)
    finally:
        done.set()
        for looker in lookers:
            looker.join()
    assert is_free(file)
