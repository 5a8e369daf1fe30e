"""`coworld runs`: what was played here, at the terminal."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.cli_kit import command, coworld
from support.odd_runs import leave_odd_runs

from coworld_runner.records.run_export import EXPORTED

pytestmark = pytest.mark.slow

NIM = Path(__file__).parents[2] / "examples" / "nim"


def test_what_was_played_and_labelled_is_listed_shown_labelled_again_exported_and_removed(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    one, many = tmp_path / "one", tmp_path / "many"
    where = ("--root", tmp_path, "--index", tmp_path / "index.sqlite3")
    recorded = coworld("run", NIM, "--backend", "process", "-o", one, "--label", "exp=a", "--record", "samples")
    assert recorded.status == 0
    assert str(one / "samples.ndjson") in recorded.stdout.replace("\n", "")
    measured = ("compare", "counter", "random-taker", "-m", NIM, "--max-blocks", "20", "-o", many)
    assert coworld(*measured, "--label", "exp=b", "--label", "note=two words").status == 0

    listed = coworld("runs", "list", *where)
    assert listed.status == 0, listed.stderr
    assert "  Counter is better than Random Taker, after 15 blocks  " in listed.stdout
    assert [line.split()[3:5] for line in listed.stdout.splitlines()[1:]] == [["compare", "nim"], ["episode", "nim"]]
    found = coworld("runs", "list", "--label", "exp=b", "--json", *where).json
    assert [(run["path"], run["labels"]) for run in found["runs"]] == [(str(many), {"exp": "b", "note": "two words"})]
    assert found["runs"][0]["outcome"] == "Counter is better than Random Taker, after 15 blocks."
    episodes = coworld("runs", "list", "--label", "note", "--episodes", "--limit", "1", "--json", *where).json
    assert (len(episodes["episodes"]), episodes["more"]) == (1, True)
    assert episodes["episodes"][0]["labels"] == {"exp": "b", "note": "two words"}

    assert coworld("runs", "label", one, "exp=", "kept=yes", *where).stdout == "kept=yes\n"
    assert "kept=yes" in coworld("runs", "show", one, *where).stdout
    exported = coworld("runs", "export", tmp_path / "out", "--label", "kept", "--json", *where).json
    assert (exported["tables"]["seats"]["rows"], exported["tables"]["turns"]["rows"] > 2) == (2, True)
    again = ("runs", "export", tmp_path / "again", "--label", "kept", "--json", *where)
    only = coworld(*again, *(word for table in EXPORTED for word in ("--table", table))).json
    assert only["tables"].keys() == EXPORTED.keys()
    assert only["tables"]["samples"]["rows"] == only["tables"]["turns"]["rows"]

    for wrong, words in (
        ("exp", "there is no `=`"),
        ("a b=c", "cannot be the name"),
        ("exp=" + "x" * 201, "NAME=VALUE"),
    ):
        refused = coworld("run", NIM, "--backend", "process", "-o", tmp_path / "none", "--label", wrong)
        assert refused.status == 2
        assert words in refused.stderr
    assert not (tmp_path / "none").exists()

    asked = coworld("runs", "rm", one, *where)
    assert (asked.status, one.is_dir()) == (1, True)
    assert "--yes" in asked.stdout
    removed = coworld("runs", "rm", one, many, "--yes", "--json", *where).json
    assert removed == {"removed": [str(one), str(many)], "kept": []}
    assert coworld("runs", "list", "--json", *where).json["runs"] == []


def test_odd_directories_and_one_that_was_removed_end_no_command(tmp_path: Path) -> None:
    leave_odd_runs(tmp_path / "results")
    where = ("--index", tmp_path / "index.sqlite3")
    listed = coworld("runs", "list", "--root", tmp_path / "results", *where)
    assert listed.status == 0, listed.stderr
    for words, status in (
        (("runs", "list", "--episodes", *where), 0),
        (("runs", "show", tmp_path / "results" / "pipe-log", *where), 0),
        (("runs", "show", tmp_path / "results" / "huge-seconds-row", *where), 0),
        (("runs", "query", "SELECT * FROM runs", *where), 0),
        (("runs", "rm", tmp_path / "results" / "pipe-log", *where), 1),
        (("episodes", "--local", "--limit", "99"), 0),
        (("stop", tmp_path / "results" / "first-year-log", "--hard"), 2),
        (("validate", "."), 3),
    ):
        (gone := tmp_path / "gone").mkdir()
        script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
        found = subprocess.run(["sh", "-c", script, "sh", gone, *command(*words)], capture_output=True, text=True)
        assert found.returncode == status, (words, found.stderr)
    assert "current directory" in found.stderr
