"""Ctrl-C and its kin: the first, the second, the third, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli_kit import Done, Started, command, coworld, environment
from support.waiting import wait_until

from coworld_cli.event_loop import Running
from coworld_cli.output import Output
from coworld_runner.runs.scratch import scratch_root

pytestmark = pytest.mark.slow

World = Callable[..., Path]
Start = Callable[..., Started]


def runs() -> set[str]:
    """Directories of runs that are there."""
    root = scratch_root()
    return {entry.name for entry in root.iterdir()} if root.is_dir() else set()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGINT, "Interrupted: stopping "),
        (signal.SIGTERM, "Asked to stop (SIGTERM): stopping "),
        (signal.SIGHUP, "Terminal closed (SIGHUP): stopping "),
        (signal.SIGQUIT, "Asked to stop (SIGQUIT): stopping "),
    ],
)
def test_the_first_signal_stops_everything(
    number: signal.Signals, said: str, world: World, start: Start, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run = start("run-episode", world("hangs"), "-o", out)
    run.until_printed("playing")
    run.send(number)
    done = run.end()
    assert done.status == 130
    assert f"{said}the game and 2 players. Again: kill at once.\n" in done.stderr
    assert f"What was done so far is in {out}.\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert "fault:" not in done.stderr
    assert done.stdout == ""
    record = json.loads((out / "episode.json").read_text())
    assert record["status"] == "interrupted"
    assert record["faults"][-1]["error_type"] == "interrupted"
    assert runs() == set()


def test_an_interruption_as_json(world: World, start: Start, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = start("run-episode", world("hangs"), "-o", out, "--json")
    run.until_printed("playing")
    run.send(signal.SIGINT)
    done = run.end()
    assert done.status == 130
    error = done.json["error"]
    assert error["code"] == "interrupted"
    assert error["context"]["signal"] == "SIGINT"
    assert error["context"]["workspace"] == str(out)
    assert error["context"]["run_id"] == json.loads((out / "episode.json").read_text())["run_id"]


def test_several_episodes_are_interrupted_together(world: World, start: Start, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = start("run-episode", world("well", play_seconds=60), "-n", "4", "--parallel", "2", "-o", out)
    # The lines of several episodes are brief, so look at what they do
    logs = [out / f"episode-000{index}" / "events.ndjson" for index in (1, 2)]
    run.until(lambda: all(log.exists() and '"phase":"play"' in log.read_text() for log in logs), "two episodes playing")
    run.send(signal.SIGINT)
    done = run.end()
    assert done.status == 130
    assert "Interrupted: stopping 2 games and 4 players." in done.stderr
    assert json.loads((out / "summary.json").read_text())["status"] == "interrupted"
    assert runs() == set()


def test_the_second_signal_kills_what_will_not_end(world: World, start: Start, tmp_path: Path) -> None:
    run = start("run-episode", world("ignores-term"), "-o", tmp_path / "out")
    run.until_printed("playing")
    log = tmp_path / "out" / "logs" / "game.stdout.log"
    run.until(lambda: log.exists() and "nothing more" in log.read_text(), "the game is deaf")
    run.send(signal.SIGINT)
    run.until(lambda: "not now" in log.read_text(), "the game was told to end")
    run.send(signal.SIGINT)
    done = run.end()
    assert done.status == 130
    assert "Killing the game" in done.stderr
    assert "Again: exit at once.\n" in done.stderr
    exit_of_game = json.loads((tmp_path / "out" / "episode.json").read_text())["game"]["exit"]
    assert exit_of_game["reason"] == "stopped"
    assert runs() == set()


def test_a_signal_after_the_game_costs_no_scores(world: World, start: Start, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = start("run-episode", world("well", "exits-9-after", "hangs-after"), "-o", out)
    log = out / "events.ndjson"
    run.until_printed("player 0 (Left) exited with status 9")
    run.until(lambda: '"phase":"finish"' in log.read_text(), "the game is over")
    run.send(signal.SIGINT)
    done = run.end()
    assert done.status == 130
    record = json.loads((out / "episode.json").read_text())
    assert record["status"] == "completed"
    assert record["scores"] == json.loads((out / "results.json").read_text())["scores"]
    # Who failed after the game is told; who had to be stopped for this is not blamed
    assert [(fault["party"], fault["slot"], fault["error_type"]) for fault in record["faults"]] == [
        ("player", 0, "player_error")
    ]
    assert "interrupted when the game was over" in done.stderr
    assert runs() == set()


def test_a_signal_before_anything_was_started(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        # Somebody takes the connection and never answers
        run = start("run-episode", f"http://127.0.0.1:{server.getsockname()[1]}/world.json", "-o", tmp_path / "out")
        server.settimeout(60)
        connection, _ = server.accept()
        with connection:
            run.send(signal.SIGUSR1)
            done = run.end()
    assert done.status == 130
    told = "Asked to stop (SIGUSR1)"
    assert done.stderr == f"{told}: ending.\n{told}. Nothing was written.\n"
    assert not (tmp_path / "out").exists()


def test_nohup_survives_a_closed_terminal(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(
        ["nohup", *command("run-episode", world("well", play_seconds=3), "-o", out)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
        text=True,
    )
    log = out / "events.ndjson"
    wait_until(lambda: log.exists() and '"phase":"play"' in log.read_text(), seconds=60, what="it plays")
    process.send_signal(signal.SIGHUP)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 0, text


def test_clean_removes_leftovers_of_sigkill(world: World, start: Start, tmp_path: Path) -> None:
    run = start("run-episode", world("hangs"), "-o", tmp_path / "out")
    run.until_printed("playing")
    (run_id,) = runs()

    def clean(*args: str) -> Done:
        # Other runs of this machine are none of ours
        return coworld("clean", "--backend", "process", "--run", run_id, *args)

    busy = clean("--json").json
    assert busy["dry_run"] is True
    assert {item["kind"] for item in busy["items"]} == {"process", "directory"}
    assert all(item["alive"] for item in busy["items"])
    assert "Nothing of a killed run is left.\n" in clean().stdout
    kept = clean("--yes", "--json")
    assert kept.status == 0
    assert not any(item["removed"] for item in kept.json["items"])
    assert run.process.poll() is None, "clean ended a run that was going"

    run.send(signal.SIGKILL)
    run.end()
    gone = wait_until(lambda: all(i["kind"] == "directory" for i in clean("--json").json["items"]), what="children die")
    assert gone
    listed = clean()
    assert listed.status == 0
    assert "Would remove 1 thing: add --yes to do so." in listed.stdout
    assert runs() == {run_id}
    assert coworld("clean", "--run", "0000", "--yes", "--json").json["items"] == []
    assert runs() == {run_id}
    removed = clean("--yes", "--json")
    assert removed.status == 0
    (item,) = removed.json["items"]
    assert item["run_id"] == run_id
    assert item["removed"] is True
    assert removed.json["applied"] is True
    assert runs() == set()
    assert clean().stdout == "Nothing is left.\n"


def test_the_third_signal_leaves_at_once_and_says_how_to_tidy_up(capfd: pytest.CaptureFixture[str]) -> None:
    # Three signals to a process are a race with its clean-up, so they are handed over one by one
    child = os.fork()
    if child == 0:
        try:
            running = Running(Output(), None, Scope())  # type: ignore[arg-type]
            with running.on_abandon(lambda: os.write(2, b"restored\n")):
                for _ in range(3):
                    running.receive("SIGINT")
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    assert capfd.readouterr().err == (
        "Interrupted: ending.\n"
        "Killing what is left. Again: exit at once.\n"
        "restored\n"
        "Exited. `coworld clean` lists what may still run, `coworld clean --yes` removes it.\n"
    )


class Scope:
    """Stands for the scope of the work, outside of an event loop."""

    def cancel(self) -> None:
        """Cancel nothing."""
