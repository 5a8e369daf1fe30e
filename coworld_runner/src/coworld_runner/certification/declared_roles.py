"""Runs the supporting roles that a Coworld declares on its smoke episode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from coworld_core.errors import CoworldError
from coworld_core.role_kinds import ROLES
from coworld_core.roles.role_record import ROLES_DIRECTORY, RoleRecord

from ..backend import Backend, Publish
from ..package.resolver import Package
from ..roles.kept_answer import answer_directory
from ..roles.optimizer_advice import ask_for_plan
from ..roles.role_jobs import RoleJob, RoleResult, run_roles
from ..roles.role_program import RoleProgram, declared_ids, find_role
from ..roles.role_run import RoleOptions
from .certification_record import Evidence
from .step_answers import advice, fault_evidence, note, required

__all__ = ["run_declared_roles"]

_PLAN_TIMEOUT = 120.0
"""Seconds for an optimizer: many are meant to work for long, or with a service, and are only tried."""


async def run_declared_roles(
    package: Package, episode: Path, *, backend: Backend, platform: str | None, publish: Publish, directory: str
) -> list[Evidence]:
    """Run every reporter, grader and diagnoser of a manifest on an episode, which keeps what they say.

    Optimizers are asked for a plan after these. One that gives none is told as advice: it may need a network, a player
    to change, or more time. So is a component where wasmtime is missing, which says nothing about the component.

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
        RoleJob(program=find_role(package, role, identifier), run=episode)
        for role in ROLES
        if role != "optimizer"
        for identifier in declared_ids(package, role)
    ]
    options = RoleOptions(platform=platform)
    results = await run_roles(jobs, game=package, backend=backend, options=options, publish=publish)
    answers = [result.answer for result in results if result.answer is not None]
    plans: list[Evidence] = []
    for identifier in declared_ids(package, "optimizer"):
        program = find_role(package, "optimizer", identifier)
        place = answer_directory(episode, program)
        try:
            record = await ask_for_plan(
                package,
                program,
                answers,
                directory=place,
                backend=backend,
                options=replace(options, timeout=_PLAN_TIMEOUT),
                publish=publish,
            )
            found = _evidence(record, f"{directory}/{ROLES_DIRECTORY}/{place.name}")
        except CoworldError as error:
            found = _not_run(program, error)
        plans.append(found if found.ok else found.model_copy(update={"level": "advice"}))
    return [_found(result, directory) for result in results] + plans


def _found(result: RoleResult, directory: str) -> Evidence:
    if (answer := result.answer) is not None:
        return _evidence(answer.record, f"{directory}/{ROLES_DIRECTORY}/{answer.directory.name}")
    assert result.error is not None
    return _not_run(result.job.program, result.error)


def _not_run(program: RoleProgram, error: CoworldError) -> Evidence:
    message = f"{program.role} {program.id!r} was not run: {error.message}"
    if error.code == "wasmtime_missing":
        return advice("role_not_run", message, hint=error.hint)
    return required("role_not_run", ok=False, message=message, hint=error.hint)


def _evidence(record: RoleRecord, place: str) -> Evidence:
    who = f"{record.role} {record.id!r}"
    if record.fault is not None:
        found = fault_evidence(record.fault, place)
        return found.model_copy(update={"message": f"{who}: {found.message}"})
    answer = record.answer or {}
    said = f"gave the grade {answer['score']:g}" if record.role == "grader" else "left what is valid"
    return note("role_ran", f"{who} {said}, in {record.seconds:g} s.")
