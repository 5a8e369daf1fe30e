"""Workspaces are fresh or refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.trees import dug

from coworld_core.errors import WorkspaceError
from coworld_runner.runs.workspace import artifact_records, atomic_write, point_latest, prepare_workspace


def test_a_new_directory_and_its_parents_are_made(tmp_path: Path) -> None:
    layout = prepare_workspace(tmp_path / "a" / "b")
    assert layout.logs.is_dir()
    assert layout.workspace.is_absolute()


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    assert prepare_workspace(tmp_path).workspace == tmp_path


def test_results_of_another_run_are_never_in_the_way(tmp_path: Path) -> None:
    old = tmp_path / "results.json"
    old.write_text('{"scores": [1, 2]}')
    with pytest.raises(WorkspaceError) as refused:
        prepare_workspace(tmp_path)
    assert refused.value.code == "workspace_not_empty"
    assert refused.value.hint is not None
    assert "--overwrite" in refused.value.hint
    assert old.read_text() == '{"scores": [1, 2]}'


def test_overwrite_empties_what_an_episode_wrote(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("{}")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "game.stdout.log").write_text("old")
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (tmp_path / "link").symlink_to(outside)
    layout = prepare_workspace(tmp_path, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs"]
    assert list(layout.logs.iterdir()) == []
    assert (outside / "kept").exists(), "a link was followed"


@pytest.mark.slow
def test_overwrite_empties_whatever_a_program_has_left(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with dug(tmp_path / "logs"):
        assert list(prepare_workspace(tmp_path, overwrite=True).logs.iterdir()) == []


def test_overwrite_does_not_empty_somebody_elses_directory(tmp_path: Path) -> None:
    precious = tmp_path / "thesis.tex"
    precious.write_text("years of work")
    with pytest.raises(WorkspaceError) as refused:
        prepare_workspace(tmp_path, overwrite=True)
    assert refused.value.code == "workspace_foreign"
    assert precious.exists()


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_file_is_no_directory(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError) as refused:
        prepare_workspace(tmp_path / where)
    assert refused.value.code == "workspace_not_a_directory"


def test_a_place_without_permission_is_said_to_be_so(tmp_path: Path) -> None:
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
