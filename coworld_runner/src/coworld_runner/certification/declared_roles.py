"""Runs the supporting roles that a Coworld declares on its smoke episode."""

from __future__ import annotations

from pathlib import Path

from coworld_core.roles.role_record import ROLES_DIRECTORY, Role

from ..backend import Backend, Publish
from ..package.resolver import Package
from ..roles.after_episode import RoleAnswer
from ..roles.role_jobs import RoleJob, RoleResult, run_roles
from ..roles.role_program import RoleProgram
from ..roles.role_run import RoleOptions
from .certification_record import Evidence
from .step_answers import fault_evidence, note, required

__all__ = ["ROLES_RUN", "run_declared_roles"]

ROLES_RUN: tuple[Role, ...] = ("reporter", "grader", "diagnoser")
"""The roles that are run; the others have nothing to do with one episode."""


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
    jobs = [
        RoleJob(program=RoleProgram(role=role, id=entry.id, runnable=entry.as_runnable()), run=episode)
        for role in ROLES_RUN
        for entry in package.manifest.section(role)
    ]
    options = RoleOptions(platform=platform)
    results = await run_roles(jobs, game=package, backend=backend, options=options, publish=publish)
    return [_found(result, directory) for result in results]


def _found(result: RoleResult, directory: str) -> Evidence:
    if result.answer is not None:
        return _evidence(result.answer, directory)
    assert result.error is not None
    program, error = result.job.program, result.error
    message = f"{program.role} {program.id!r} was not run: {error.message}"
    return required("role_not_run", ok=False, message=message, hint=error.hint)


def _evidence(answer: RoleAnswer, directory: str) -> Evidence:
    record = answer.record
    who = f"{record.role} {record.id!r}"
    if record.fault is not None:
        place = f"{directory}/{ROLES_DIRECTORY}/{answer.directory.name}"
        found = fault_evidence(record.fault, place)
        return found.model_copy(update={"message": f"{who}: {found.message}"})
    said = f"gave the grade {answer.answer['score']:g}" if record.role == "grader" else "left what is valid"
    return note("role_ran", f"{who} {said}, in {record.seconds:g} s.")
