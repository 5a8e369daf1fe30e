"""Asks an optimizer for its plan alone: what it advises after grades and diagnoses, without a player to change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coworld_core.ids import new_run_id
from coworld_core.roles.role_record import Role, RoleRecord

from ..backend import Backend, Publish
from ..package.resolver import Package
from ..runs.event_bus import EventBus
from .after_episode import RoleAnswer
from .kept_answer import EVENTS_KEPT, run_and_keep
from .optimizer_work import plan_work
from .role_program import RoleProgram
from .role_run import RoleOptions

__all__ = ["ask_for_plan"]


async def ask_for_plan(
    package: Package,
    program: RoleProgram,
    answers: Sequence[RoleAnswer],
    *,
    directory: Path,
    backend: Backend,
    options: RoleOptions,
    publish: Publish,
) -> RoleRecord:
    """Run an optimizer as the published contract has it: grades and diagnoses in, a plan out.

    Args:
        package: The Coworld.
        program: The optimizer.
        answers: What graders and diagnosers have said.
        directory: Where its plan is kept, with its record and its logs.
        backend: An entered backend.
        options: How to run it.
        publish: Receives events.

    Returns:
        The record, with the failure if there was one.

    Raises:
        CapabilityError, BackendUnavailable, EnvironmentFault: It could not be run.
    """
    given: dict[Role, dict[str, Path]] = {"grader": {}, "diagnoser": {}}
    digests: list[str] = []
    episodes: tuple[str, ...] = ()
    for index, answer in enumerate(answers):
        record = answer.record
        if record.ok and record.role in given:
            output = next(iter(record.outputs.values()))
            given[record.role][f"{index}-{output.path.rpartition('/')[2]}"] = answer.directory / output.path
            digests.append(output.sha256)
            episodes = episodes or record.episodes
    return await run_and_keep(
        program,
        plan_work(
            optimizer=program.id,
            manifest=package.manifest.model_dump_json(by_alias=True),
            grades=given["grader"],
            diagnoses=given["diagnoser"],
        ),
        lambda plan: plan.model_dump(mode="json"),
        directory=directory,
        key=program.key("", episodes=digests, how=options.identity()),
        backend=backend,
        options=options,
        bus=EventBus(new_run_id(), publish, keep=EVENTS_KEPT),
        episodes=episodes,
    )
