"""`coworld verify`, `runs verify`, `tournament verify` and `fork`: what they say, and their exit statuses."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from support.cli_kit import coworld
from support.nim_episode import NIM, nim_bundle
from support.played_runs import leave_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return anyio.run(leave_run, NIM, tmp_path / "results" / "run")


def test_a_run_is_verified(run: Path) -> None:
    done = coworld("verify", run)
    assert (done.status, "the same" in done.stdout, "replay, results" in done.stdout) == (0, True, True)
    (run / "results.json").write_text("{}\n")
    done = coworld("verify", run)
    assert (done.status, "results.json has 3 bytes" in done.stdout) == (1, True)
    answer = coworld("verify", run, "--json").json
    assert (answer["verdict"], answer["code"], answer["files"][0]["path"]) == (
        "different",
        "file_changed",
        "results.json",
    )


def test_a_bundle_names_no_game(tmp_path: Path) -> None:
    path = nim_bundle(tmp_path / "nim.zip")
    done = coworld("verify", path)
    assert (done.status, "name the game" in done.stdout) == (4, True)
    assert coworld("verify", path, NIM).status == 0
    done = coworld("verify", tmp_path / "nothing")
    assert (done.status, "There is no episode" in done.stderr) == (2, True)


def test_records_that_are_signed(tmp_path: Path) -> None:
    key = tmp_path / "key"
    assert coworld("run", NIM, "--sign-with", key, "-o", tmp_path / "run").status == 2
    for name in ("key", "other"):
        assert coworld("certificate", "keygen", tmp_path / name).status == 0
    done = coworld("run", NIM, "--player", "random", "--backend", "process", "--sign-with", key, "-o", tmp_path / "run")
    assert done.status == 0
    assert coworld("verify", tmp_path / "run", "--key", f"{key}.pub").status == 0
    done = coworld("verify", tmp_path / "run", "--key", tmp_path / "other.pub")
    assert (done.status, "not one of those that are trusted" in done.stdout) == (1, True)


def test_the_runs_of_an_index(run: Path, tmp_path: Path) -> None:
    where = ("--root", tmp_path, "--index", tmp_path / "index.sqlite3")
    done = coworld("runs", "verify", *where)
    assert (done.status, "1 episode verified" in done.stdout) == (0, True)
    (run / "replay").unlink()
    done = coworld("runs", "verify", *where)
    assert (done.status, "replay is missing" in done.stderr) == (1, True)


def test_a_tournament(tmp_path: Path) -> None:
    league = tmp_path / "league"
    coworld("tournament", "init", league, "-m", NIM, "--rounds", "15", "--seed", "1")
    for player in ("counter", "random"):
        coworld("tournament", "add", league, player)
    assert coworld("tournament", "run", league).status == 0
    done = coworld("tournament", "verify", league)
    assert (done.status, "--play-again" in done.stderr, "only_row" in done.stdout) == (4, True, True)
    done = coworld("tournament", "verify", league, "--play-again", "--json")
    answer = done.json
    assert (done.status, answer["verdict"], answer["verified"], answer["kept"] > 0) == (0, "same", 30, True)


def test_a_game_goes_on_another_way(run: Path, tmp_path: Path) -> None:
    done = coworld("fork", run, "--at", 2)
    assert (done.status, "It ended as before." in done.stdout) == (0, True), done.stderr
    done = coworld("fork", run, "--at", 2, "--seat", 1, "counter", "--times", 20, "-o", tmp_path / "on")
    assert (done.status, "Counter (new)" in done.stdout, "% to " in done.stdout) == (0, True, True)
    assert (tmp_path / "on" / "tick-2.1" / "episode.json").is_file()
    answer = coworld("fork", run, "--at", 2, "--seat", 0, "random", "--times", 2, "--json").json
    assert (answer["tick"], answer["times"], len(answer["slots"])) == (2, 2, 2)
    done = coworld("fork", run, "--at", 900)
    assert (done.status, "Name a tick from 0 to" in done.stderr) == (2, True)
    (run / "replay").unlink()
    assert coworld("fork", run, "--at", 0).status == 2
    for words, said in (
        (("--chances",), "--chances goes with --html."),
        (("--seconds", "3"), "--seconds goes with --chances."),
        (("--html", tmp_path / "x.html", "--seat", "0", "random"), "--seat goes with --chances."),
    ):
        done = coworld("replay", run, *words)
        assert (done.status, said in done.stderr) == (2, True), done.stderr
