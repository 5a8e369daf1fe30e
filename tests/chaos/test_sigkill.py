"""Runners killed with SIGKILL: what is left is found by its label and removed, and nothing else is.

They are killed as each phase begins, and at moments that nobody has chosen. Those are random, so the seed is printed;
``COWORLD_CHAOS_SEED`` repeats a run as far as the machine does.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread
import pytest
from support.arena import make_backend
from support.cli_kit import Started, coworld, start_script
from support.full import FULL
from support.launcher import Command
from support.misfit_kit import (
    PACKAGE,
    PLACEHOLDER,
    docker_leftovers,
    ensure_image,
    evidence,
    leftovers,
    marked_processes,
    new_mark,
)
from support.waiting import live_on, wait_until

from coworld_core.ids import new_run_id
from coworld_runner.backend import Backend
from coworld_runner.runs.reaper import Sweep, sweep
from coworld_runner.runs.scratch import scratch_root

pytestmark = pytest.mark.slow

BackendName = Literal["process", "docker"]
Moment = dict[str, str]
"""Fields of an event."""

SEED = int(os.environ.get("COWORLD_CHAOS_SEED", str(time.time_ns() % 1_000_000)))


@dataclass
class Victim:
    """A runner in a process of its own."""

    run_id: str
    workspace: Path
    process: Command

    def runs(self) -> set[str]:
        """The runs of what it has made units for, and its own."""
        told = self.workspace.with_suffix(".runs")
        return {self.run_id, *(told.read_text().split() if told.exists() else ())}

    def kill(self) -> None:
        """End it with SIGKILL, unless it has ended."""
        self.process.kill()
        self.process.wait(30)


class Crowd:
    """Runners on one backend, and what they were made to run."""

    def __init__(self, backend: BackendName, directory: Path) -> None:
        self.backend: BackendName = backend
        self.directory = directory
        self.image = ensure_image() if backend == "docker" else PLACEHOLDER
        self.mark = new_mark()
        self.victims: list[Victim] = []
        self.manifest_name = "coworld_manifest.json" if backend == "docker" else "coworld_manifest_template.json"

    def start(
        self, *players: str, what: str = "episode", mark: str = "", kill_at: Moment | None = None, **config: Any
    ) -> Victim:
        """Start a runner, which kills itself at an event if it is told to."""
        run_id = new_run_id()
        workspace = self.directory / f"victim-{len(self.victims)}"
        orders = {
            "what": what,
            "package": str(self.directory / "package" / self.manifest_name),
            "backend": self.backend,
            "image": self.image,
            "mark": mark or self.mark,
            "workspace": str(workspace),
            "run_id": run_id,
            "players": players or ("well", "well"),
            "kill_at": kill_at,
            "config": config,
        }
        script, log = Path(__file__).with_name("_victim.py"), self.directory / "victims.log"
        process = start_script(script, json.dumps(orders), log=log)
        self.victims.append(Victim(run_id, workspace, process))
        return self.victims[-1]

    def leftovers(self) -> list[str]:
        """What is left of those that have ended."""
        dead = [run for victim in self.victims if victim.process.poll() is not None for run in victim.runs()]
        return leftovers(mark=self.mark, run_ids=dead, docker=self.backend == "docker")

    def close(self) -> None:
        """Kill what still runs, and let nothing survive a failed test."""
        for victim in self.victims:
            victim.kill()
        anyio.run(self._sweep_all)

    async def _sweep_all(self) -> None:
        for victim in self.victims:
            await clean(self.backend, victim.run_id)


async def clean(backend: BackendName, run_id: str) -> Sweep:
    backends: list[Backend] = [make_backend(backend)]
    return await sweep(backends, run_id=run_id, apply=True)


@pytest.fixture
def crowd(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Crowd]:
    """A crowd on the backend that the test names by parameter."""
    backend: BackendName = request.param
    made = Crowd(backend, tmp_path)
    yield made
    made.close()


PHASES = ("prepare", "start_game", "ready", "start_players", "play", "finish", "collect")
EARLY = "before it began"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("crowd", "at_random", "at_once", "longest"),
    [
        pytest.param("process", 32 if FULL else 4, 5, 2.0, id="process"),
        pytest.param("docker", 12 if FULL else 1, 4, 4.5, id="docker", marks=pytest.mark.docker),
    ],
    indirect=["crowd"],
)
async def test_a_killed_runner_can_be_cleaned_up_after(
    crowd: Crowd, at_random: int, at_once: int, longest: float
) -> None:
    print(f"COWORLD_CHAOS_SEED={SEED}")
    chance = random.Random(SEED)
    before = temporary_files()
    alive_mark = new_mark()
    alive = crowd.start(mark=alive_mark, play_seconds=600)
    wait_until(lambda: len(marked_processes(alive_mark)) >= 3, seconds=60, what="a living run")
    living = set(marked_processes(alive_mark))
    phases: Counter[str] = Counter()
    limit = anyio.CapacityLimiter(at_once)

    async def one(number: int, moment: str | float) -> None:
        players = ("well", "forks-away 3") if number % 3 == 0 else ("well", "well")
        async with limit:
            if moment == EARLY:
                # while the runner itself still starts
                victim = crowd.start(*players, play_seconds=0.6)
                await anyio.to_thread.run_sync(live_on, victim.process, 0.05 * chance.random())
            elif isinstance(moment, str):
                at = {"kind": "phase_started", "phase": moment}
                victim = crowd.start(*players, play_seconds=0.6, kill_at=at)
                assert await anyio.to_thread.run_sync(victim.process.wait, 60) == -signal.SIGKILL
            else:
                victim = crowd.start(*players, play_seconds=0.6)
                await anyio.to_thread.run_sync(begun, victim)
                await anyio.to_thread.run_sync(live_on, victim.process, moment)
            await anyio.to_thread.run_sync(victim.kill)
            phases[last_phase(victim)] += 1
            swept = await clean(crowd.backend, victim.run_id)
            assert swept.ok, swept
            assert all(item.run_id == victim.run_id for item in swept.found)

    # the random moments are spread over an episode, one in each of as many equal parts of it
    random_moments = [longest * (number + chance.random()) / at_random for number in range(at_random)]
    async with anyio.create_task_group() as group:
        for number, moment in enumerate((*PHASES, EARLY, *random_moments)):
            group.start_soon(one, number, moment)
    print(f"killed in {dict(sorted(phases.items()))}")

    # Nothing of theirs is left, and nothing of the living was touched by any of the sweeps. The second look is for
    # what a slow engine has made since; a person who finds it listed would clean again, too.
    late = [
        item
        for victim in crowd.victims
        if victim is not alive
        for item in (await clean(crowd.backend, victim.run_id)).found
    ]
    print(f"made late: {late}")
    assert crowd.leftovers() == []
    assert alive.process.poll() is None
    assert living <= set(marked_processes(alive_mark))
    mine = await clean(crowd.backend, alive.run_id)
    assert mine.found
    assert all(item.alive for item in mine.found)
    assert not any(item.removed for item in mine.reaped)
    assert living <= set(marked_processes(alive_mark))
    looked = await sweep([make_backend(crowd.backend)])
    assert {item.id for item in mine.found} <= {item.id for item in looked.found if item.alive}

    # asked to end, it cleans up itself
    alive.process.send_signal(signal.SIGINT)
    await anyio.to_thread.run_sync(alive.process.wait, 60)
    record = evidence(alive.workspace).record
    assert record.status == "interrupted"
    assert record.game is not None
    assert record.game.exit is not None
    assert record.game.exit.reason == "stopped"
    assert leftovers(mark=alive_mark, run_ids=[alive.run_id], docker=crowd.backend == "docker") == []
    assert temporary_files() <= {*before, scratch_root()}
    assert list(scratch_root().iterdir()) == []


COMMANDS: list[tuple[str, Moment]] = [
    *(
        ("certify", {"kind": "step_started", "step": step})
        for step in ("images-reachable", "smoke-episode", "results-conform", "replay-loadable")
    ),
    ("certify", {"kind": "phase_started", "phase": "play"}),
    ("certify", {"kind": "unit_ready", "unit": "replay"}),
    *(("replay", {"kind": kind}) for kind in ("unit_created", "unit_started", "unit_ready")),
    *(("play", {"kind": "phase_started", "phase": phase}) for phase in ("ready", "play")),
]


@pytest.mark.parametrize(
    ("crowd", "moments"),
    [
        pytest.param("process", COMMANDS, id="process"),
        pytest.param(
            "docker",
            [
                ("replay", {"kind": "unit_ready"}),
                ("play", {"kind": "phase_started", "phase": "play"}),
            ],
            id="docker",
            marks=pytest.mark.docker,
        ),
    ],
    indirect=["crowd"],
)
async def test_leftovers_of_a_command_killed_at_any_step_are_cleaned(
    crowd: Crowd, moments: list[tuple[str, Moment]], tmp_path: Path
) -> None:
    write_package(tmp_path / "package", crowd)
    alive_mark = new_mark()
    alive = crowd.start(mark=alive_mark, play_seconds=600)
    wait_until(lambda: len(marked_processes(alive_mark)) >= 3, seconds=60, what="a living run")
    living = set(marked_processes(alive_mark))

    removed: list[str] = []

    async def one(what: str, moment: Moment, limit: anyio.CapacityLimiter) -> None:
        async with limit:
            victim = crowd.start(what=what, kill_at=moment, play_seconds=0.3)
            assert await anyio.to_thread.run_sync(victim.process.wait, 60) == -signal.SIGKILL, (what, moment)
            for run_id in victim.runs():
                swept = await clean(crowd.backend, run_id)
                assert swept.ok, swept
                assert all(item.run_id == run_id for item in swept.found)
                removed.extend(item.found.kind for item in swept.reaped if item.removed)

    limit = anyio.CapacityLimiter(3)
    async with anyio.create_task_group() as group:
        for what, moment in moments:
            group.start_soon(one, what, moment, limit)
    assert ("container" if crowd.backend == "docker" else "directory") in removed
    assert crowd.leftovers() == []
    assert living <= set(marked_processes(alive_mark))
    assert {item.name for item in scratch_root().iterdir()} == {alive.run_id}


@pytest.mark.docker
@pytest.mark.parametrize("crowd", ["docker"], indirect=True)
async def test_a_build_ends_with_its_builder(crowd: Crowd, tmp_path: Path) -> None:
    """There is nothing to clean up after a killed build: the engine sees that nobody waits for it."""
    project = tmp_path / "victim-0"
    project.mkdir()
    (project / "Dockerfile").write_text(f"FROM {crowd.image}\nRUN echo be''gun; sleep 600; : {crowd.mark}\n")
    (project / "coworld_manifest_template.json").write_bytes((PACKAGE / "coworld_manifest_template.json").read_bytes())
    (project / "compose.yaml").write_text("services:\n  misfits:\n    image: misfits\n    build: .\n")
    crowd.start(what="build", kill_at={"kind": "image_progressed", "status": "begun"})
    (victim,) = crowd.victims
    assert await anyio.to_thread.run_sync(victim.process.wait, 60) == -signal.SIGKILL
    wait_until(lambda: not marked_processes(crowd.mark), what="the end of the build")
    assert not (project / "coworld_manifest.json").exists()


def begun(victim: Victim) -> None:
    """Wait until a victim's run has begun."""
    wait_until((victim.workspace / "events.ndjson").exists, seconds=60, what="a run")


def temporary_files() -> set[Path]:
    """What there is for temporary files of this session."""
    # Python tries a directory for them with a small file, which stays when it is killed in that moment
    tried = re.compile("[a-z0-9_]{8}")
    return {
        path
        for path in Path(tempfile.gettempdir()).iterdir()
        if not (tried.fullmatch(path.name) and path.is_file() and path.stat().st_size <= len(b"blat"))
    }


def first_line(path: Path) -> str:
    """A file's first line, or nothing while it has none."""
    head, end, _ = path.read_text().partition("\n") if path.exists() else ("", "", "")
    return head if end else ""


def last_phase(victim: Victim) -> str:
    """How far a victim had come."""
    try:
        lines = (victim.workspace / "events.ndjson").read_text().splitlines()
    except OSError:
        return "before it began"
    phase = "begun"
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            break  # killed in the midst of writing it
        if event["kind"] == "phase_started":
            phase = event["phase"]
        if event["kind"] == "run_finished":
            phase = "after it ended"
    return phase


@pytest.mark.slow
@pytest.mark.parametrize("crowd", ["process", pytest.param("docker", marks=pytest.mark.docker)], indirect=True)
def test_the_command_line_is_killed_and_cleans_up(crowd: Crowd, tmp_path: Path) -> None:
    """The same through the commands that a person has."""
    print(f"COWORLD_CHAOS_SEED={SEED}")
    chance = random.Random(SEED + 1)
    package = write_package(tmp_path / "package", crowd)
    for number in range(8 if FULL else 1):
        output = tmp_path / f"output-{number}"
        victim = start_episode(package, crowd.backend, output)
        run_id = json.loads(wait_until(partial(first_line, output / "events.ndjson"), what="a run"))["run_id"]
        live_on(victim.process, chance.uniform(0.0, 2.5))  # the moment is to be a random one
        victim.send(signal.SIGKILL)
        victim.close()

        assert coworld("clean", "--run", run_id, "--backend", crowd.backend, "--json").json
        cleaned = coworld("clean", "--run", run_id, "--backend", crowd.backend, "--yes")
        assert cleaned.status == 0, cleaned
        assert leftovers(mark=crowd.mark, run_ids=[run_id], docker=crowd.backend == "docker") == []


@pytest.mark.docker
@pytest.mark.parametrize("crowd", ["docker"], indirect=True)
def test_a_signal_to_the_command_leaves_no_container(crowd: Crowd, tmp_path: Path) -> None:
    package = write_package(tmp_path / "package", crowd)
    output = tmp_path / "output"
    running = start_episode(package, "docker", output)
    wait_until(lambda: len(marked_processes(crowd.mark)) >= 3, seconds=60, what="a game with two players")
    running.send(signal.SIGTERM)
    done = running.end()
    running.close()
    assert done.status == 130
    assert done.stderr.strip()
    found = evidence(output)
    assert found.record.status == "interrupted"
    assert docker_leftovers([found.record.run_id]) == []
    assert marked_processes(crowd.mark) == []


def write_package(directory: Path, crowd: Crowd) -> Path:
    """The misfits package with this crowd's image and mark; its processes run where the programs are."""
    directory.mkdir()
    document = json.loads((PACKAGE / "coworld_manifest_template.json").read_text().replace(PLACEHOLDER, crowd.image))
    for unit in (document["game"]["runnable"], *document["player"]):
        unit["env"] = {"MISFITS_MARK": crowd.mark}
    document["game"]["version"] = "1.0.0"
    name = crowd.manifest_name
    (directory / name).write_text(json.dumps(document))
    (directory / "compose.yaml").write_text(
        f"services:\n  misfits:\n    image: misfits\n    build: {json.dumps(str(PACKAGE))}\n"
    )
    return directory / name


def start_episode(package: Path, backend: str, output: Path) -> Started:
    """Start the command that plays one."""
    return Started(["run-episode", package, "--variant", "long", "--backend", backend, "-o", output], None, None)
