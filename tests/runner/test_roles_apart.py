"""A grader, and a reporter on its socket, on docker and on kubernetes: what they see, and what they cannot do."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator
from pathlib import Path

import pytest
from runner.test_program_apart import BACKENDS
from support.docker_subject import subject_image
from support.kube import backend_for, namespace_for_tests, until_empty

from coworld_core.episode.events import BaseEvent, RoleFinished, RoleProgressed
from coworld_core.roles.role_record import Role
from coworld_runner import Package, resolve_package, run_episode
from coworld_runner.backend import Backend
from coworld_runner.backends import DockerBackend
from coworld_runner.roles.role_jobs import RoleJob, run_roles
from coworld_runner.roles.role_program import RoleProgram, find_role
from coworld_runner.roles.role_run import RoleOptions

ARENA = Path(__file__).parents[2] / "examples" / "paintarena"
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def namespace() -> Generator[str]:
    with namespace_for_tests() as name:
        yield name


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Generator[Backend]:
    if request.param == "docker":
        yield DockerBackend()
        return
    name = request.getfixturevalue("namespace")
    yield backend_for(name)
    until_empty(name)


def program(package: Package, role: Role, name: str, episode: Path) -> RoleProgram:
    """A program of the tests in an image that has nothing but Python."""
    found = find_role(package, role, str(SUPPORT / name))
    assert found.own is not None
    there = {"image": subject_image(), "env": {"SECRET_PLACE": str(episode)}}
    own = dataclasses.replace(found.own, python="python3")
    return dataclasses.replace(found, runnable=found.runnable.model_copy(update=there), own=own)


async def test_grader_and_reporter_see_their_inputs_and_nothing_else(backend: Backend, tmp_path: Path) -> None:
    package = await resolve_package(ARENA)
    episode = tmp_path / "episode"
    await run_episode(package, variant="quick", backend="process", workspace=episode)
    events: list[BaseEvent] = []
    jobs = [
        RoleJob(program=program(package, "grader", "careful_grader.py", episode), run=episode),
        RoleJob(program=program(package, "reporter", "socket_reporter.py", episode), run=episode),
    ]
    async with backend as opened:
        isolated = opened.capabilities.network_isolation
        graded, reported = await run_roles(
            jobs, game=package, backend=opened, options=RoleOptions(socket=True, timeout=120), publish=events.append
        )
    assert graded.answer is not None
    assert graded.answer.ok, graded.answer.record.fault
    said = {name: value for name, value in graded.answer.answer.items() if value is not None}
    reaches = said.pop("reaches_the_network")
    assert not (isolated and reaches)
    assert said == {
        "score": 20.0,
        "changes_its_input": False,
        "adds_an_input": False,
        "reads_the_workspace": False,
        "apart": True,
    }
    assert reported.answer is not None
    assert reported.answer.ok, reported.answer.record.fault
    assert json.loads((reported.answer.files / "seen.json").read_text()) == {"ticks": 20, "inputs_writable": False}
    (progress,) = [event for event in events if isinstance(event, RoleProgressed)]
    assert (progress.id, progress.stage, progress.completed, progress.of) == ("socket_reporter", "reading", 1, 1)
    assert sorted(event.done or 0 for event in events if isinstance(event, RoleFinished)) == [1, 2]
