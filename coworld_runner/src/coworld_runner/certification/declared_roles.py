"""Runs the supporting roles that a Coworld declares on its smoke episode."""

from __future__ import annotations

from pathlib import Path

import anyio

from coworld_core.errors import CoworldError
from coworld_core.manifest.models import RoleRunnable
from coworld_core.roles.role_record import ROLES_DIRECTORY, Role

from ..backend import Backend, Publish
from ..errors import unwrapped
from ..package.resolver import Package
from ..roles.after_episode import RoleAnswer, RoleArguments, diagnose_episode, grade_episode, report_episodes
from ..roles.role_program import RoleProgram
from ..roles.role_run import RoleOptions
from .certification_record import Evidence
from .step_answers import fault_evidence, note, required

__all__ = ["ROLES_RUN", "run_declared_roles"]

ROLES_RUN: tuple[Role, ...] = ("reporter", "grader", "diagnoser")
"""The roles that are run; the others have nothing to do with one episode."""
_AT_A_TIME = 2


async def run_declared_roles(
    package: Package, episode: Path, *, backend: Backend, platform: str | None, publish: Publish, directory: str
) -> list[Evidence]:
    """Run every reporter, grader and diagnoser of a manifest on an episode, which keeps what they say.

    Args:
        package: The Coworld.
        episode: The episode's workspace.
        backend: An entered backend.
        platform: os/architecture of images; None: the engine's default.
        publish: Receives events.
        directory: The workspace's place relative to the certification's.

    Returns:
        What became of each role, in the order of the manifest.
    """
    declared: list[tuple[Role, RoleRunnable]] = [
        (role, entry) for role in ROLES_RUN for entry in package.manifest.section(role)
    ]
    found: dict[int, Evidence] = {}
    slots = anyio.CapacityLimiter(_AT_A_TIME)
    how: RoleArguments = {
        "game": package,
        "backend": backend,
        "options": RoleOptions(platform=platform),
        "publish": publish,
    }

    async def run(index: int, role: Role, entry: RoleRunnable) -> None:
        program = RoleProgram(role=role, id=entry.id, runnable=entry.as_runnable())
        async with slots:
            try:
                found[index] = _evidence(await _run(episode, program, how), directory)
            except CoworldError as error:
                message = f"{role} {entry.id!r} was not run: {error.message}"
                found[index] = required("role_not_run", ok=False, message=message, hint=error.hint)

    with unwrapped():
        async with anyio.create_task_group() as tasks:
            for index, (role, entry) in enumerate(declared):
                tasks.start_soon(run, index, role, entry)
    return [found[index] for index in range(len(declared))]


async def _run(episode: Path, program: RoleProgram, how: RoleArguments) -> RoleAnswer:
    match program.role:
        case "reporter":
            return await report_episodes([episode], reporter=program, **how)
        case "grader":
            return await grade_episode(episode, grader=program, **how)
        case _:
            return await diagnose_episode(episode, 0, diagnoser=program, **how)


def _evidence(answer: RoleAnswer, directory: str) -> Evidence:
    record = answer.record
    who = f"{record.role} {record.id!r}"
    if record.fault is not None:
        place = f"{directory}/{ROLES_DIRECTORY}/{answer.directory.name}"
        found = fault_evidence(record.fault, place)
        return found.model_copy(update={"message": f"{who}: {found.message}"})
    said = f"gave the grade {answer.answer['score']:g}" if record.role == "grader" else "left what is valid"
    return note("role_ran", f"{who} {said}, in {record.seconds:g} s.")
