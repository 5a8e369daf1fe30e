"""A record knows its workspace, and so the files of its episode."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from support.formats import files

from coworld_core import EpisodeRecord, UsageError, read_record

WRITTEN = files("good/episode.json")[0].read_bytes()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The directory of an episode with a replay and some logs."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "episode.json").write_bytes(WRITTEN)
    (tmp_path / "replay").write_bytes(b"\x00replay")
    (tmp_path / "logs/game.stdout.log").write_text("tick 1\n")
    (tmp_path / "logs/game.stderr.log").write_bytes(b"late \xff\n")
    (tmp_path / "logs/policy_agent_1.log").write_text("I play.\n")
    return tmp_path


@pytest.mark.parametrize("name", ["", "episode.json"])
def test_a_record_read_from_a_path_finds_its_files(workspace: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(workspace.parent)
    record = read_record(Path(workspace.name) / name)
    monkeypatch.chdir("/")
    assert record.workspace == record.layout.workspace == workspace
    assert record.replay.read_bytes() == b"\x00replay"
    assert record.game_log == "tick 1\nlate \N{REPLACEMENT CHARACTER}\n"
    assert record.player_log(1) == "I play.\n"


READS: list[Callable[[EpisodeRecord], object]] = [
    lambda record: record.replay,
    lambda record: record.game_log,
    lambda record: record.player_log(0),
]


@pytest.mark.parametrize("read", READS)
def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path, read: Callable[[EpisodeRecord], object]) -> None:
    (tmp_path / "episode.json").write_bytes(WRITTEN)
    with pytest.raises(UsageError, match="There is no file /") as caught:
        read(read_record(tmp_path))
    assert caught.value.code == "file_not_found"


@pytest.mark.parametrize("read", [*READS, lambda record: record.layout])
def test_a_record_from_elsewhere_knows_no_files(read: Callable[[EpisodeRecord], object]) -> None:
    for source in (WRITTEN, json.loads(WRITTEN)):
        record = read_record(source)
        assert record.workspace is None
        with pytest.raises(UsageError) as caught:
            read(record)
        assert caught.value.code == "workspace_unknown"


def test_the_workspace_is_neither_written_nor_compared(workspace: Path) -> None:
    record, other = read_record(workspace), read_record(WRITTEN)
    assert record == other
    assert record != other.model_copy(update={"seconds": other.seconds + 1})
    assert record.model_dump() == other.model_dump()
    assert str(workspace) not in record.model_dump_json() + repr(record)
    assert "workspace" not in EpisodeRecord.model_json_schema()["properties"]


def test_a_copy_knows_the_workspace_too(workspace: Path) -> None:
    record = read_record(workspace)
    copies = [record.model_copy(update={"warnings": ("late",)}), pickle.loads(pickle.dumps(record))]
    assert [copy.workspace for copy in copies] == [workspace, workspace]
    assert record.in_workspace(None).workspace is None
    with pytest.raises(ValueError, match="frozen"):
        record.seconds = 1.0  # pyright: ignore[reportAttributeAccessIssue]
