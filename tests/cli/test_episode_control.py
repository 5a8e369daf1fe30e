"""`coworld episodes --local` and `coworld stop`: what is going on here, at the terminal."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from support.cli_kit import QUICK, Started, coworld
from support.fake_platform import EXPERIENCE, FakePlatform

from coworld_core.episode.record import read_record

pytestmark = pytest.mark.slow

Start = Callable[..., Started]
XREQ = "xreq_00000000-0000-4000-8000-000000000001"


def begun(start: Start, place: Path, *more: str) -> Started:
    """An episode that goes on until it is stopped."""
    run = start("run", QUICK, "--backend", "process", "--set", "linger=300", "-o", place, *more)
    run.until_printed("playing")
    return run


def test_what_goes_on_is_listed_watched_and_stopped(start: Start, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    where = ("--root", results, "--index", tmp_path / "index.sqlite3")
    watch = start("episodes", "--local", "--watch", "--json", *where)
    told = start("episodes", "--local", "--watch", "--status", "lost", *where)
    one = begun(start, results / "one", "--label", "exp=a")
    watch.until_printed('"running"')
    listed = coworld("episodes", "--local", "--state", "running", "--label", "exp", *where)
    assert [line.split()[2:] for line in listed.stdout.splitlines()[1:]] == [
        [listed.stdout.splitlines()[1].split()[2], "episode", "quick", "running", "-", "exp=a"]
    ]
    stopped = coworld("stop", "latest", "--json", *where)
    assert (stopped.status, stopped.json["ended"], stopped.json["episode"]["state"]) == (0, True, "interrupted")
    assert one.end().status == 130
    assert read_record(results / "one").status == "interrupted"
    watch.until_printed('"interrupted"')

    two = begun(start, results / "two")
    watch.until(lambda: watch.stdout.count('"running"') == 2, "the second one runs")
    killed = coworld("stop", results / "two", "--hard", *where)
    assert killed.status == 0, killed.stderr
    assert "lost" in killed.stdout
    assert two.end().status == -signal.SIGKILL
    told.until_printed("lost")
    watch.until_printed('"lost"')
    for stream in (watch, told):
        stream.send(signal.SIGINT)
    lines = [json.loads(line) for line in watch.end().stdout.splitlines()]
    assert [(line["workspace"], line["state"]) for line in lines] == [
        (str(results / name), state)
        for name, states in (("one", ("running", "interrupted")), ("two", ("running", "lost")))
        for state in states
    ]
    assert told.end().status == 0

    again = coworld("stop", results / "two", *where)
    assert (again.status, "has ended already: lost" in again.stderr) == (2, True)
    everything = coworld("episodes", "--local", "--json", "--limit", "1", *where).json
    assert ([one["state"] for one in everything["episodes"]], everything["more"]) == (["lost"], True)


def test_one_of_several_runs_of_a_batch_is_not_stopped_alone(start: Start, tmp_path: Path) -> None:
    where = ("--root", tmp_path, "--index", tmp_path / "index.sqlite3")
    words = ("run", QUICK, "--backend", "process", "--set", "linger=300", "-n", "2", "--parallel", "2")
    batch = start(*words, "-o", tmp_path / "many")
    logs = [tmp_path / "many" / f"episode-000{index}" / "events.ndjson" for index in (1, 2)]
    batch.until(lambda: all(log.is_file() and '"play"' in log.read_text() for log in logs), "both play")
    part = coworld("stop", logs[0].parent, *where)
    assert (part.status, "plays other runs, too" in part.stderr) == (2, True)
    assert coworld("stop", tmp_path / "many", "--hard", *where).status == 0
    assert batch.end().status == -signal.SIGKILL


def test_a_request_of_a_platform_is_cancelled(run: Callable[..., Result], told: FakePlatform) -> None:
    told.on("POST", f"/v2/experience-requests/{XREQ}/cancel", {**EXPERIENCE, "status": "cancelled"})
    result = run("stop", XREQ, "--json")
    assert (result.exit_code, json.loads(result.stdout)["status"]) == (0, "cancelled")
    assert "--hard is for runs on this machine" in run("stop", XREQ, "--hard").output


def test_a_game_for_people_is_ended(run: Callable[..., Result], told: FakePlatform) -> None:
    game = {"session_id": "cps_1", "player_count": 2, "tags": {"exp": "a"}, "status": "running"}
    place = "/v2/coworlds/play/session/cps_1"

    def stands(_: object) -> object:
        return {**game, "status": "ended" if told.calls("DELETE", place) else "running"}

    told.on("GET", place, stands)
    told.on("DELETE", place, {**game, "status": "ended"})
    result = run("stop", "cps_1", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert (answer["ended"], answer["episode"]["id"], answer["episode"]["state"]) == (True, "cps_1", "interrupted")
    assert len(told.calls("DELETE", place)) == 1
    again = run("stop", "cps_1")
    assert (again.exit_code, "has ended already: interrupted" in again.output) == (2, True), again.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--state", "running"), "--status needs --local or --watch"),
        (("--local", "--mine"), "no other filters"),
        (("--local", "--state", "run"), "is no state of an episode"),
    ],
)
def test_options_that_do_not_go_together(words: tuple[str, ...], said: str) -> None:
    refused = coworld("episodes", *words)
    assert (refused.status, said in refused.stderr) == (2, True)
