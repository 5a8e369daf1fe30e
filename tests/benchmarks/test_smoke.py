"""Checks that the benchmarks run. No figure is asserted; they are for people to read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.cli_kit import launcher_of

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


def figures(script: str, *arguments: str, like: str = "coworld") -> dict[str, Any]:
    """Run a benchmark and return its figures; the launcher of a command starts it, with most imports already done."""
    words = [str(HERE / script), *arguments, "--json"]
    # Use the existing bytecode instead of a separate cache for benchmarks.
    env = {"PYTHONPYCACHEPREFIX": "", **os.environ, "PYTHONPATH": str(HERE.parent)}
    done = launcher_of(like).run(words, env=env, cwd=Path.cwd(), timeout=280)
    assert done.status == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("\n{") :])
    assert found["machine"]["processors"] >= 1
    return found


@pytest.mark.timeout(300)
def test_episode_on_processes() -> None:
    which = ("--backend", "process", "--package", "misfits")
    found = figures("episode.py", *which, "--rounds", "1", "--cold", "--seconds", "0.1")
    assert set(found["process"]) >= {"floor", "run_episode()", "coworld run-episode", "phases"}


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_episode_on_docker() -> None:
    found = figures("episode.py", "--backend", "docker", "--rounds", "1", "--cold", "--seconds", "0.1")
    assert found["docker"]["floor"]["median_seconds"] > 0


@pytest.mark.timeout(300)
def test_parallel() -> None:
    which = ("--package", "misfits", "--episodes", "2", "--at-once", "2")
    found = figures("parallel.py", *which, "--cold", "--seconds", "0.1")
    assert found["process"]["share_of_what_processors_allow"] > 0


@pytest.mark.timeout(300)
def test_burning_the_processors_does_not_pay() -> None:
    found = figures("burning.py", "--blocks", "1")
    assert found["verdict"] != "better"
    assert set(found["episodes"]["by"]) <= {"burning"}
    assert found["forfeits"] == {"new": sum(found["episodes"]["by"].values()), "old": 0}


@pytest.mark.timeout(300)
def test_vector_environments() -> None:
    found = figures("vector.py", "--rounds", "1", "--games", "4", "--steps", "10")
    assert all(speed > 0 for speed in found["steps_per_processor_second"].values())


@pytest.mark.timeout(300)
def test_memory() -> None:
    found = figures("memory.py", "--mebibytes", "2")
    assert {name: peak["small_mib"] > 0 for name, peak in found["peaks"].items()} == {
        "process replay": True,
        "process log": True,
    }


@pytest.mark.timeout(300)
def test_startup() -> None:
    found = figures("startup.py", "--rounds", "1", "--cold")
    assert found["load_manifest_ms"] > 0


@pytest.mark.timeout(300)
@pytest.mark.curl
def test_client() -> None:
    sizes = ("--episodes", "120", "--files", "2", "--mebibytes", "2")
    found = figures("client.py", *sizes, "--rounds", "1", like="observatory")
    assert found["listing"]["episodes"] == 120
    assert found["large"]["client_of_curl"] > 0


@pytest.mark.timeout(300)
def test_answers() -> None:
    sizes = ("--episodes", "60", "--members", "3", "--clients", "2")
    found = figures("answers.py", *sizes, "--rounds", "1", "--seconds", "0.1", like="observatory")
    assert found["50 episodes"]["ratio"] > 0


@pytest.mark.timeout(300)
def test_worker() -> None:
    sizes = ("--episodes", "1", "--at-once", "1", "--seconds", "0.1")
    found = figures("worker.py", *sizes, "--rounds", "1", like="observatory")
    assert found["ratio"] > 0


@pytest.mark.timeout(300)
def test_evaluation() -> None:
    found = figures(
        "evaluation.py", "--runs", "2", "--blocks", "20", "--looks", "5", "--games", "100", "--episodes", "20"
    )
    assert set(found) >= {
        "false_alarms",
        "coverage",
        "equal_players_told_apart",
        "seats_and_values",
        "credit",
        "reports",
        "seconds",
    }
    assert {"standings of 100 games from the log", "peak memory after 100 games, MiB"} <= set(found["tournaments"])


@pytest.mark.timeout(300)
def test_measuring() -> None:
    found = figures("measuring.py", "--rounds", "1", "--blocks", "20", "--short", "5")
    assert found["nim"]["cpu_ms"] != found["nim"]["rollouts_cpu_ms"]


@pytest.mark.timeout(300)
def test_rollout() -> None:
    found = figures("rollout.py", "--rounds", "1", "--episodes", "10")
    assert set(found["of_bare"]) >= {"nim: random", "nim: a function", "nim: AECEnv", "gather: a function"}
    assert found["two_processes_ticks_per_second"] > 0


@pytest.mark.timeout(300)
def test_verifying() -> None:
    found = figures("verifying.py", "--rounds", "1", "--episodes", "64")
    assert found["replays"]["nim"]["verified_per_second"] > 0
    assert found["runs"]["nim_per_processor_second"] > 0


@pytest.mark.timeout(300)
def test_serving() -> None:
    found = figures("serving.py", "--rounds", "1", "--turns", "200")
    assert found["of_bare"] > 0
    assert found["kib_of_a_seat"] > 0
    assert found["seconds_from_init_to_page"] > 0


@pytest.mark.timeout(300)
def test_records() -> None:
    found = figures("records.py", "--rows", "1000", "--alone", "10", "--turns", "1000", "--samples", "1000")
    assert found["index"]["index"]["seconds"] > 0
    assert found["export"]["turns"]["all"]["peak_mib"] > 0
    assert found["export"]["samples"]["all"]["peak_mib"] > 0


@pytest.mark.timeout(300)
def test_recorder() -> None:
    found = figures("recorder.py", "--rounds", "1", "--turns", "100", "--frames", "200")
    assert set(found["turns_per_second"]) == {"off", "samples", "frames"}
    assert found["recorded_of_direct"] > 0


@pytest.mark.timeout(300)
def test_scale() -> None:
    sizes = ("--entrants", "20", "40", "--episodes", "40", "--rounds", "1", "--workers", "16")
    small, large = figures("scale.py", *sizes, like="observatory")["sizes"]
    parts = {"claim", "finish", "rate", "pair a round", "close and begin a round", "look at a round"}
    assert parts <= set(small["seconds_per_call"]) == set(large["seconds_per_call"])
    assert small["rows_a_day"]["episode_requests"] == 1_000_000
    assert small["fairness"]["rounds"] >= 1
