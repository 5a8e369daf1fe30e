"""The index over workspaces: it follows the folders, is never the truth, and reads what it can."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
import resource
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from coworld_core.episode.events import RunFinished, RunStarted
from coworld_core.episode.outcome import Fault
from coworld_core.episode.record import EpisodeRecord, EpisodeRow, ImageRecord, SlotRecord, SlotRow
from coworld_core.errors import UsageError, WorkspaceError
from coworld_core.evaluation.evaluation_files import report_rows
from coworld_core.evaluation.scrimmage import ScrimmagePlan
from coworld_core.records.run_filter import RunFilter
from coworld_core.rules.play import Frame
from coworld_core.rules.replay import ReplayHeader, ReplayWriter
from coworld_runner.records import index_store, run_query
from coworld_runner.records.index_store import IndexStore
from coworld_runner.records.local_runs import LocalRuns
from coworld_runner.records.run_export import ParquetTable
from coworld_runner.records.run_reader import read_run
from coworld_runner.runs.run_labels import change_labels

ADA = SlotRow(name="ada")
NOW = dt.datetime(2026, 11, 26, 12, tzinfo=dt.UTC)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No places are known but those of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return iter(())


def opened(tmp_path: Path) -> LocalRuns:
    return LocalRuns(tmp_path / "results", index=tmp_path / "index.sqlite3")


def leave_episode(place: Path, run_id: str = "abcdef0123", **values: Any) -> Path:
    """The workspace of an episode that is over."""
    place.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {
        "run_id": run_id,
        "coworld": "nim",
        "version": "1",
        "backend": "process",
        "variant": "quick",
        "seed": 2**70,
        "started_at": NOW,
        "ended_at": NOW,
        "seconds": 1.5,
        "status": "completed",
        "scores": (3.0, 1.0),
        "slots": tuple(
            SlotRecord(slot=slot, name=name, image=ImageRecord(image=f"./{name}.py", digest=f"sha256:{name}"))
            for slot, name in enumerate(("ada", "bob"))
        ),
    }
    record = EpisodeRecord(**{**told, **values})
    started = RunStarted(what="episode", seq=1, run_id=run_id, time=NOW, coworld="nim")
    (place / "events.ndjson").write_text(started.model_dump_json() + "\n")
    (place / "episode.json").write_text(record.model_dump_json())
    return place


def row(index: int, **values: Any) -> EpisodeRow:
    told: dict[str, Any] = {
        "index": index,
        "key": f"episode-{index:04d}",
        "run_id": f"r{index}",
        "workspace": f"episode-{index:04d}",
        "variant": "quick",
        "seed": index,
        "status": "completed",
        "ok": True,
        "seconds": 1.0,
        "slots": (SlotRow(name="ada"), SlotRow(name="bob")),
        "scores": (float(index), 0.0),
    }
    return EpisodeRow(**{**told, **values})


def leave_rows(place: Path, *rows: EpisodeRow, over: bool = True) -> Path:
    """The workspace of a run of many; rows are appended if it is there."""
    place.mkdir(parents=True, exist_ok=True)
    started = RunStarted(what="batch", seq=1, run_id="feed0123", time=NOW, coworld="nim", variant="quick")
    ended = [RunFinished(status="completed", ok=True, seconds=9.0, seq=2, run_id="feed0123")] if over else []
    (place / "events.ndjson").write_text("".join(one.model_dump_json() + "\n" for one in (started, *ended)))
    with (place / "episodes.jsonl").open("a") as file:
        file.writelines(one.model_dump_json() + "\n" for one in rows)
    return place


def test_runs_are_found_by_what_is_known_of_them(tmp_path: Path) -> None:
    results = tmp_path / "results"
    fault = Fault(party="player", slot=1, error_type="player_timeout", message="It was late.", time=NOW)
    leave_episode(results / "one", episode_tags={"exp": "a"})
    leave_episode(results / "two", "ffff0123", faults=(fault,), scores=(), started_at=NOW - dt.timedelta(days=3))
    leave_rows(results / "many", row(1), row(2, status="failed", ok=False, error_type="crash", party="game"))
    change_labels(results / "many", {"exp": "ab"})

    def found(**asked: Any) -> set[str]:
        return {run.path.name for run in runs.runs(RunFilter(**asked))}

    with opened(tmp_path) as runs:
        assert (runs.refreshed.new, runs.refreshed.episodes, runs.notices) == (3, 4, [])
        assert found() == {"one", "two", "many"}
        assert found(game="n*", kind="batch") == {"many"}
        assert found(labels={"exp": "a*"}) == {"one", "many"}
        assert found(labels={"exp": "a"}) == {"one"}
        assert found(fault="*") == {"two", "many"}
        assert found(fault="player") == found(fault="player_*") == {"two"}
        assert found(player="ada", min_score=3) == {"one"}
        assert found(player="bob", min_score=3) == set()
        assert found(digest="ada") == found(digest="sha256:ada") == {"one", "two"}
        assert found(since=NOW) == {"one", "many"}
        assert found(until=NOW) == {"two"}
        one = runs.find("one").run
        assert (one.scores, one.players, one.labels, one.ok) == ((3.0, 1.0), ("ada", "bob"), {"exp": "a"}, True)
        assert runs.find(results / "many" / "2").episode == runs.find(f"{results}/many/episode-0002").episode
        assert [episode.key for episode in runs.episodes(RunFilter(fault="crash"))] == ["episode-0002"]
        assert runs.episodes(RunFilter(fault="crash")).to_records()[1]["name"] == "bob"
        for word, code in (("nothing", "no_such_run"), (f"{results}/many/9", "no_such_episode")):
            with pytest.raises(UsageError) as caught:
                runs.find(word)
            assert caught.value.code == code


def test_the_index_follows_the_folders_and_reads_only_what_has_changed(tmp_path: Path) -> None:
    results = tmp_path / "results"
    many = leave_rows(results / "many", row(1), over=False)
    leave_episode(results / "gone")
    with opened(tmp_path) as runs:
        assert runs.refreshed.new == 2
    with (many / "episodes.jsonl").open("a") as file:
        file.write(row(2).model_dump_json() + "\n" + row(3).model_dump_json()[:40])
    for path in sorted((results / "gone").iterdir()):
        path.unlink()
    (results / "gone").rmdir()
    with opened(tmp_path) as runs:
        assert (runs.refreshed.changed, runs.refreshed.gone, runs.refreshed.episodes) == (1, 1, 1)
        assert runs.find("many").run.status == "lost"
        assert runs.refresh().changed == 0
    (many / "episodes.jsonl").unlink()
    leave_rows(many, row(7, scores=(9.0, 9.0)), row(8), row(9))  # Another run, whose file is longer
    with opened(tmp_path) as runs:
        assert [episode.number for episode in runs.episodes()] == [7, 8, 9]
        assert runs.find("many").run.status == "completed"
    (many / "episodes.jsonl").write_text(f"{row(1).model_dump_json()}\nno row\n{row(2).model_dump_json()}\n")
    with opened(tmp_path) as runs:
        assert [episode.number for episode in runs.episodes()] == [1, 2]
        assert "no row" in runs.find("many").run.problem


def test_a_run_that_is_going_on_is_seen_to_end_however_it_ends(tmp_path: Path) -> None:
    many = leave_rows(tmp_path / "results" / "many", row(1), over=False)
    with opened(tmp_path) as runs, (many / "events.ndjson").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        runs.refresh()
        assert runs.find("many").run.status == "lost"
        os.utime(many / "events.ndjson")
        runs.refresh()
        assert runs.find("many").run.status == "running"
        with pytest.raises(WorkspaceError) as caught:
            runs.remove(many)
        assert caught.value.code == "workspace_busy"
        fcntl.flock(file, fcntl.LOCK_UN)
        runs.refresh()
        assert runs.find("many").run.status == "lost"


def test_a_damage_that_only_a_search_meets_is_mended_too(tmp_path: Path) -> None:
    leave_rows(tmp_path / "results" / "many", *(row(index) for index in range(1, 2000)))
    index = tmp_path / "index.sqlite3"
    with opened(tmp_path) as runs:
        (root,) = runs.connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'seat'").fetchone()
    with index.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 4096)
    with opened(tmp_path) as runs:
        assert runs.notices == []
        assert len(runs.episodes(RunFilter(player="ada"))) == 1999
        assert "made anew" in runs.notices[0]


@pytest.mark.parametrize("how", ["torn", "older", "newer", "no database"])
def test_an_index_that_is_of_no_use_is_made_anew_and_that_is_said(tmp_path: Path, how: str) -> None:
    leave_episode(tmp_path / "results" / "one")
    index = tmp_path / "index.sqlite3"
    with opened(tmp_path):
        pass
    if how == "torn":
        data = bytearray(index.read_bytes())
        data[100:] = b"\xff" * (len(data) - 100)
        index.write_bytes(data)
    elif how == "no database":
        index.write_bytes(b"something else" * 100)
    else:
        connection = sqlite3.connect(index)
        connection.execute(f"PRAGMA user_version = {index_store.VERSION + (1 if how == 'newer' else 41)}")
        connection.close()
    with opened(tmp_path) as runs:
        assert len(runs.runs()) == 1
        assert [notice for notice in runs.notices if "made anew" in notice], runs.notices
    with opened(tmp_path) as runs:
        assert runs.notices == []


def test_two_programs_index_at_once(tmp_path: Path) -> None:
    leave_rows(tmp_path / "results" / "many", row(1))
    with opened(tmp_path) as one, opened(tmp_path) as other:
        leave_rows(tmp_path / "results" / "many", row(2))
        leave_episode(tmp_path / "results" / "new")
        for runs in (one, other, one):
            runs.refresh()
            assert sorted(episode.key for episode in runs.episodes()) == ["", "episode-0001", "episode-0002"]


def test_an_index_that_cannot_be_written_is_kept_in_memory(tmp_path: Path) -> None:
    leave_episode(tmp_path / "results" / "one")
    (tmp_path / "file").write_text("")
    with LocalRuns(tmp_path / "results", index=tmp_path / "file" / "index.sqlite3") as runs:
        assert len(runs.runs()) == 1
        assert "cannot be used" in runs.notices[0]
    with IndexStore(tmp_path / "fresh" / "index.sqlite3") as store:
        assert store.notices == []


def test_a_workspace_of_a_later_version_is_listed_with_what_can_be_read(tmp_path: Path) -> None:
    later = leave_episode(tmp_path / "results" / "later")
    document = json.loads((later / "episode.json").read_bytes()) | {"schema_version": 2, "seconds": "PT3S"}
    (later / "episode.json").write_text(json.dumps(document))
    torn = leave_episode(tmp_path / "results" / "torn")
    (torn / "episode.json").write_text('{"coworld": "ni')
    (tmp_path / "results" / "other").mkdir()
    (tmp_path / "results" / "other" / "events.ndjson").write_text('{"kind": "click"}\n')
    with opened(tmp_path) as runs:
        assert {run.path.name for run in runs.runs()} == {"later", "torn"}
        found = runs.find("later").run
        assert (found.coworld, found.status, found.started_at) == ("nim", "completed", NOW)
        assert "schema version 2" in found.problem
        assert runs.find("torn").run.problem


def test_a_measurement_has_what_came_out_unless_its_report_cannot_be_read(tmp_path: Path) -> None:
    place = leave_rows(tmp_path / "results" / "many", row(1))
    plan = ScrimmagePlan(
        coworld="nim", version="1", variant="quick", slot_count=2, seed=1, seeded=True, max_blocks=1, player=ADA
    )
    (place / "plan.json").write_bytes(plan.to_document())
    with opened(tmp_path) as runs:
        assert [run.outcome for run in runs.runs()] == [""]
    report = report_rows(plan, [])
    (place / "report.json").write_bytes(report.to_document())
    with opened(tmp_path) as runs:
        assert [(run.kind, run.outcome) for run in runs.runs()] == [("scrimmage", report.headline)]
        assert runs.query("SELECT outcome FROM runs").rows == ((report.headline,),)
    (place / "report.json").write_text("{}")
    with opened(tmp_path) as runs:
        assert [(run.outcome, run.problem) for run in runs.runs()] == [("", "")]
    # One that is resumed has a report of its beginning, and nothing has come out yet
    resumed = leave_rows(tmp_path / "resumed", row(1), over=False)
    (resumed / "plan.json").write_bytes(plan.to_document())
    (resumed / "report.json").write_bytes(report.to_document())
    with (resumed / "events.ndjson").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        going_on = read_run(resumed)
    interrupted = read_run(resumed)
    assert going_on is not None
    assert interrupted is not None
    assert (going_on.status, going_on.outcome) == ("running", "")
    assert (interrupted.status, interrupted.outcome) == ("lost", report.headline)


def test_labels_are_changed_in_the_folder_and_for_one_episode_alone(tmp_path: Path) -> None:
    many = leave_rows(tmp_path / "results" / "many", row(1, episode_tags={"exp": "a"}), row(2))
    one = leave_episode(tmp_path / "results" / "one", episode_tags={"exp": "a"})
    with opened(tmp_path) as runs:
        assert [episode.key for episode in runs.episodes(RunFilter(labels={"exp": "a"}))] == ["", "episode-0001"][::-1]
        assert runs.label(many, {"team": "red"}).run.labels == {"team": "red"}
        changed = runs.label(many / "2", {"team": None, "note": "odd"}).episode
        assert changed is not None
        assert changed.labels == {"note": "odd"}
        assert runs.label(one, {"exp": None}).run.labels == {}
        assert [episode.key for episode in runs.episodes(RunFilter(labels={"team": "*"}))] == ["episode-0001"]
        told = sorted(runs.query("SELECT key, name, value FROM labels").rows)
        assert told == [("episode-0001", "exp", "a"), ("episode-0001", "team", "red"), ("episode-0002", "note", "odd")]
        with pytest.raises(UsageError, match="NAME=VALUE"):
            runs.label(many, {"team": "a\nb"})
    (tmp_path / "index.sqlite3").unlink()
    with opened(tmp_path) as runs:
        assert sorted(runs.query("SELECT key, name, value FROM labels").rows) == told


def test_only_what_runs_have_written_is_removed(tmp_path: Path) -> None:
    results = tmp_path / "results"
    mine, foreign = leave_episode(results / "mine"), leave_episode(results / "foreign", "ffff0123")
    many = leave_rows(results / "many", row(1))
    change_labels(mine, {"exp": "a"})
    (foreign / "thesis.txt").write_text("mine")
    (results / "latest").symlink_to("mine")
    with opened(tmp_path) as runs:
        assert runs.remove(results / "latest").path == mine
        assert not mine.exists()
        assert not (results / "latest").is_symlink()
        with pytest.raises(WorkspaceError, match=r"thesis\.txt"):
            runs.remove("ffff01")
        assert len(list(foreign.iterdir())) == 3
        with pytest.raises(UsageError) as caught:
            runs.remove(many / "1")
        assert caught.value.code == "part_of_a_run"
        assert {run.path.name for run in runs.runs()} == {"foreign", "many"}


def leave_replays(tmp_path: Path) -> Path:
    many = leave_rows(tmp_path / "results" / "many", row(1), row(2), row(3, workspace=""), row(4))
    header = ReplayHeader(rules="Game", version="1", config={}, seed=1, seats=2, names=["ada", "bob"])
    writer = ReplayWriter(header)
    for tick in range(3):
        frame = Frame(tick=tick, to_act=(0, 1) if tick < 2 else (), drawing="")
        writer.add(frame, {0: {"take": tick}, 1: None} if tick else None)
    for index, data in ((1, writer.finish(reason="over", results={"scores": [2, 1]})), (4, b"theirs")):
        (many / f"episode-000{index}").mkdir()
        (many / f"episode-000{index}" / "replay").write_bytes(data)
    (many / "episode-0001" / "events.json").write_text('[{"tick": 1, "kind": "acted", "agent": 0, "seconds": 0.5}]')
    return many


def test_a_table_that_cannot_be_begun_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.parquet")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with (
            pytest.raises(OSError, match="File too large"),
            ParquetTable(tmp_path / "seats.parquet", {"run": "string"}),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*"))


def test_runs_are_exported_as_parquet_and_asked_in_sql(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    many, out = leave_replays(tmp_path), tmp_path / "out"
    with opened(tmp_path) as runs:
        done = runs.export(out)
        assert done.rows == {"episodes": 4, "seats": 8, "turns": 4, "samples": 0, "events": 3}
        (notice,) = done.notices
        assert "1 only the row is kept" in notice.replace("of ", "")
        assert "another format" in notice
        turns = parquet.read_table(done.path("turns")).to_pylist()
        last = [turn for turn in turns if turn["done"]]
        assert [
            (turn["run"], turn["key"], turn["tick"], turn["seat"], turn["action"], turn["reward"]) for turn in last
        ] == [
            (str(many), "episode-0001", 1, 0, '{"take":2}', 2.0),
            (str(many), "episode-0001", 1, 1, None, 1.0),
        ]
        with pytest.raises(UsageError) as caught:
            runs.export(out)
        assert caught.value.code == "file_exists"
        assert sorted(path.name for path in out.iterdir()) == [f"{name}.parquet" for name in sorted(done.rows)]
        asked = (
            "SELECT e.number, sum(t.reward) AS gained FROM turns t JOIN episodes e USING (run, key) "
            "JOIN parquet.seats s USING (run, key) WHERE e.started_at >= '2026-11-26T12:00:00+00:00' "
            "AND s.slot = t.seat GROUP BY e.number"
        )
        answer = runs.query(asked, parquet=[out])
        assert (answer.columns, answer.to_records()) == (("number", "gained"), [{"number": 1, "gained": 3.0}])


def test_samples_are_exported_as_far_as_they_go(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    many = leave_replays(tmp_path)
    header = {"format": "coworld.samples/1", "episode": "e", "names": ["a", "b"]}
    turn = {"tick": 0, "time": 1.5, "seat": 1, "observation": {"b": 1, "a": [None]}, "action": "x", "acted": False}
    end = {"end": "over", "complete": True, "scores": [0, 2]}
    for name, lines in (("1", [header, turn, end]), ("2", [header, {**turn, "legal": ["x"]}, {}])):
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (many / f"episode-000{name}").mkdir(exist_ok=True)
        (many / f"episode-000{name}" / "samples.ndjson").write_text(text)
    with opened(tmp_path) as runs:
        done = runs.export(tmp_path / "out", tables=("samples",))
    assert done.rows == {"samples": 2}
    assert done.notices == ("Samples are not complete: of 1 the file is damaged, and they end there.",)
    whole, cut = parquet.read_table(done.path("samples")).to_pylist()
    assert whole.pop("time") == dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=dt.UTC)
    assert whole == {
        "run": str(many),
        "key": "episode-0001",
        "tick": 0,
        "seat": 1,
        "name": "b",
        "observation": '{"a":[null],"b":1}',
        "legal": None,
        "action": '"x"',
        "acted": False,
        "by": None,
        "score": None,
        "reward": 2.0,
        "done": True,
    }
    (many / "episode-0002" / "samples.ndjson").write_text(f"{json.dumps(header)}\n{json.dumps(turn)}\n")
    with opened(tmp_path) as runs:
        again = runs.export(tmp_path / "again", tables=("samples",))
    assert (again.rows, again.notices) == (
        {"samples": 2},
        ("Samples are not complete: of 1 they end before the game did.",),
    )
    assert (cut["key"], cut["legal"], cut["reward"], cut["done"]) == ("episode-0002", '["x"]', None, False)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[LocalRuns]:
    """Two runs, with a Parquet file in the working directory and a text that no query may read."""
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    leave_episode(tmp_path / "results" / "one", episode_tags={"exp": "a"})
    leave_rows(tmp_path / "results" / "many", row(1), row(2, status="failed", ok=False, error_type="crash"))
    values = {
        "x": [42, None],
        "l": [["a"], None],
        "o": [{"b": 1}, None],
        "t": [NOW, None],
        "n": arrow.array([2**64 - 1, 0], arrow.uint64()),
    }
    parquet.write_table(arrow.table(values), tmp_path / "here" / "mine.parquet")
    parquet.write_table(arrow.table({"x": [1]}), tmp_path / "here" / "Runs.parquet")
    (tmp_path / "here" / "secret.csv").write_text("a,b\n1,2\n")
    with opened(tmp_path) as runs:
        yield runs


def files_of(place: Path) -> dict[str, bytes]:
    """Every file, but for the marks that readers of an index leave in its shared memory."""
    return {
        str(path): path.read_bytes() for path in place.rglob("*") if path.is_file() and path.suffix != ".sqlite3-shm"
    }


_ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
_HOSTILE = f"""

COPY (SELECT 1) TO 'mine.parquet' (FORMAT parquet)
EXPLAIN ANALYZE COPY (SELECT 1) TO 'mine.parquet' (FORMAT parquet, USE_TMP_FILE false)
EXPLAIN ANALYZE COPY (SELECT 1) TO 'mine.parquet' (FORMAT csv)
SELECT 1 INTO OUTFILE 'new'
ATTACH 'new' AS new
ATTACH DATABASE 'file:mine.parquet?mode=rwc' AS new
ATTACH '{{index}}' AS again
DETACH parquet
VACUUM
VACUUM INTO 'new'
VACUUM main INTO 'mine.parquet'
PRAGMA writable_schema = ON
PRAGMA journal_mode = DELETE
PRAGMA data_version
PRAGMA temp_store_directory = '.'
SELECT * FROM pragma_database_list
SELECT * FROM pragma_table_info('run')
SELECT * FROM dbstat
CREATE TABLE new (x)
CREATE TABLE new AS SELECT * FROM runs
CREATE TEMP TABLE new (x)
CREATE TEMPORARY VIEW new AS SELECT 1
CREATE VIEW new AS SELECT 1
CREATE TRIGGER new AFTER DELETE ON run BEGIN SELECT 1; END
CREATE TEMP TRIGGER new AFTER DELETE ON run BEGIN SELECT 1; END
CREATE INDEX new ON run (kind)
CREATE VIRTUAL TABLE new USING fts5(x)
CREATE VIRTUAL TABLE temp.new USING rtree(a, b, c)
INSERT INTO run (id) VALUES (7)
INSERT INTO mine (x) VALUES (7)
INSERT INTO run (id) VALUES (7) RETURNING *
UPDATE run SET status = 'completed'
UPDATE sqlite_master SET sql = ''
UPDATE runs SET status = 'completed'
DELETE FROM run
DELETE FROM runs
REPLACE INTO run (id) VALUES (7)
WITH x AS (SELECT 7) INSERT INTO run (id) SELECT * FROM x
WITH x AS (SELECT 7) DELETE FROM label RETURNING name
EXPLAIN DELETE FROM run
EXPLAIN QUERY PLAN DROP TABLE run
DROP TABLE run
DROP VIEW runs
DROP INDEX run_begun
ALTER TABLE run ADD COLUMN x
ALTER TABLE run RENAME TO new
REINDEX
ANALYZE
BEGIN
BEGIN IMMEDIATE
COMMIT
ROLLBACK
SAVEPOINT new
RELEASE new
SELECT load_extension('new')
SELECT sqlite_log(1, 'said')
SELECT fts3_tokenizer('simple')
SELECT readfile('secret.csv')
SELECT writefile('new', 'text')
SELECT edit('text', 'sh')
SELECT * FROM read_text('secret.csv')
SELECT * FROM 'secret.csv'
SELECT 1; DROP TABLE run
SELECT 1; SELECT 2
; DELETE FROM run
-- only a look
/* only a look */ DELETE FROM run
SELECT zeroblob(1100000)
SELECT length(replace(hex(zeroblob(500000)), '0', '00'))
{_ENDLESS}SELECT x FROM n
{_ENDLESS}SELECT zeroblob(100000) FROM n
SELECT ?
SELECT '\0'
SELECT '\udcff'
SELECT CAST(x'ff' AS TEXT)
SELECT * FROM elsewhere
SELEC 1
"""


def test_a_query_that_does_more_than_read_is_refused_and_leaves_everything_as_it_is(
    asked: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_query, "_MOST", 1 << 20)
    before, rows = files_of(tmp_path), list(asked.connection.iterdump())
    wrong: dict[str, object] = {}
    for sql in _HOSTILE.format(index=tmp_path / "index.sqlite3").splitlines():
        try:
            wrong[sql] = asked.query(sql, parquet=["."]).rows[:3]
        except UsageError as error:
            if error.code not in ("query_refused", "bad_query") or not error.hint:
                wrong[sql] = error.to_dict()
        if files_of(tmp_path) != before or list(asked.connection.iterdump()) != rows:
            wrong[sql] = "has changed something"
    assert wrong == {}


_HARMLESS: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("SELECT count(*) FROM runs;", [(2,)]),
    ("-- a remark\nVALUES (1), (2) -- another", [(1,), (2,)]),
    ("SELECT kind, episodes, faulted, started_at FROM runs WHERE NOT ok", []),
    ("SELECT kind, status, ok FROM runs WHERE coworld LIKE 'N%' AND kind GLOB 'b*'", [("batch", "completed", 1)]),
    ("SELECT kind, sum(ok) FROM episodes GROUP BY kind HAVING count(*) > 1", [("batch", 1)]),
    ("SELECT DISTINCT e.coworld, s.name FROM episodes e NATURAL JOIN seats s ORDER BY 2 LIMIT 1", [("nim", "ada")]),
    ("SELECT name, rank() OVER (ORDER BY max(score) DESC) FROM seats GROUP BY name", [("ada", 1), ("bob", 2)]),
    ("WITH x AS (SELECT name AS n FROM labels) SELECT upper(n) || '!', replace(n, 'e', '') FROM x", [("EXP!", "xp")]),
    (_ENDLESS + "SELECT sum(x) FROM (SELECT x FROM n LIMIT 10)", [(55,)]),
    ("SELECT group_concat(value) FROM json_each('[1, 2]') UNION SELECT json_extract('[3]', '$[0]')", [(3,), ("1,2",)]),
    ("SELECT fullkey FROM json_tree('[0]') EXCEPT SELECT '$'", [("$[0]",)]),
    ("SELECT strftime('%H', started_at), started_at > '2026-11-25' FROM runs WHERE kind = 'episode'", [("12", 1)]),
    ("SELECT x, json_extract(l, '$[0]'), json_extract(o, '$.b'), t, n FROM Mine LIMIT 1",
     [(42, "a", 1, NOW.isoformat(), str(2**64 - 1))]),
    ("SELECT r.x, m.x FROM parquet.runs AS r, parquet.mine AS m WHERE m.l IS NULL", [(1, None)]),
    ("SELECT x'00ff', typeof(x'00'), round(1.5), abs(-1), coalesce(NULL, 1), CASE 1 WHEN 1 THEN 2 END",
     [("00ff", "blob", 2.0, 1, 1, 2)]),
    ("SELECT (SELECT count(*) FROM sqlite_master) > 3 WHERE EXISTS (SELECT 1 FROM run) AND 1 IN (1, 2)", [(1,)]),
]  # fmt: skip


def test_a_query_that_reads_is_answered(asked: LocalRuns) -> None:
    for sql, rows in _HARMLESS:
        assert list(asked.query(sql, parquet=["."]).rows) == rows, sql
    assert asked.query("EXPLAIN QUERY PLAN SELECT * FROM seats").columns[-1] == "detail"


def test_an_endless_query_ends_by_ctrl_c(asked: LocalRuns) -> None:
    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            asked.query(_ENDLESS + "SELECT count(*) FROM n")
    finally:
        signal.signal(signal.SIGVTALRM, before)
    assert asked.query("SELECT count(*) FROM runs").rows == ((2,),)


def test_a_query_for_a_column_that_there_is_not_is_told_those_that_there_are(asked: LocalRuns) -> None:
    with pytest.raises(UsageError) as caught:
        asked.query("SELECT game FROM seats JOIN mine ON 1", parquet=["mine.parquet"])
    assert caught.value.hint == (
        "The columns of seats are run, key, slot, name, player_id, image, digest, score. "
        "The columns of mine are x, l, o, t, n."
    )
    (mine := Path("mine.parquet")).write_bytes(mine.read_bytes()[:-9])
    for sql, code in (("SELECT 1", None), ("SELECT * FROM mine", "bad_parquet")):
        with pytest.raises(UsageError) if code else nullcontext() as caught:
            asked.query(sql, parquet=[mine])
        assert caught is None or caught.value.code == code


def test_what_commands_left_is_found_from_anywhere(tmp_path: Path) -> None:
    from coworld_runner.records.known_places import known_places, remember_directory

    leave_episode(tmp_path / "far" / "run")
    leave_episode(tmp_path / "here" / "game" / "results" / "run", "ffff0123")
    leave_episode(tmp_path / "here" / "game" / "results" / "certification" / "run", "eeee0123")
    with LocalRuns(index=tmp_path / "index.sqlite3") as runs:
        assert len(runs.runs()) == 2
        remember_directory(tmp_path / "far" / "run")
        remember_directory(tmp_path / "far" / "run")
        assert known_places() == [tmp_path / "far" / "run"]
        runs.refresh()
        assert len(runs.runs()) == 3
