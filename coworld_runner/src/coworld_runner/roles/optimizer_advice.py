"""Asks an optimizer for its plan alone: what it advises after grades and diagnoses, without a player to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from coworld_core.ids import new_run_id
from coworld_core.roles.plan import OptimizerPlan, read_optimizer_plan
from coworld_core.roles.role_record import RoleRecord

from ..backend import Backend, Placement, Publish
from ..package.resolver import Package
from ..runs.event_bus import EventBus
from .after_episode import RoleAnswer
from .kept_answer import EVENTS_KEPT, run_and_keep
from .optimizer_work import PLAN_OUTPUT
from .role_program import RoleProgram
from .role_run import RoleOptions, RoleWork

__all__ = ["ask_for_plan"]

_MANIFEST = "manifest.json"
_VARIABLES = {"grader": "COGAME_GRADER_OUTPUT_URIS", "diagnoser": "COGAME_DIAGNOSER_OUTPUT_URIS"}
"""Where an optimizer is told what each role has left."""


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
    given = [each for each in answers if each.ok and each.record.role in _VARIABLES]
    outputs = [next(iter(each.record.outputs.values())) for each in given]
    paths = {
        f"{index}-{output.path.rpartition('/')[2]}": each.directory / output.path
        for index, (each, output) in enumerate(zip(given, outputs, strict=True))
    }
    return await run_and_keep(
        program,
        _plan_work(package, program.id, given, paths),
        lambda plan: plan.model_dump(mode="json"),
        directory=directory,
        key=program.key("", episodes=[output.sha256 for output in outputs], how=options.identity()),
        backend=backend,
        options=options,
        bus=EventBus(new_run_id(), publish, keep=EVENTS_KEPT),
        episodes=given[0].record.episodes if given else (),
    )


def _plan_work(
    package: Package, optimizer: str, given: Sequence[RoleAnswer], paths: Mapping[str, Path]
) -> RoleWork[OptimizerPlan]:
    """The work of an optimizer that advises: answers of other roles in, a plan out."""

    def variables(place: Placement) -> Mapping[str, str]:
        told = {
            "COWORLD_MANIFEST_URI": place.input_uri(_MANIFEST),
            "COGAME_OPTIMIZER_ID": optimizer,
            "COGAME_OPTIMIZER_OUTPUT_URI": place.uri(PLAN_OUTPUT),
        }
        for role, variable in _VARIABLES.items():
            named = [name for name, each in zip(paths, given, strict=True) if each.record.role == role]
            if named:
                told[variable] = ",".join(place.input_uri(name) for name in named)
        return told

    return RoleWork(
        inputs=dict(paths),
        documents={_MANIFEST: lambda _: package.manifest.model_dump_json(by_alias=True)},
        variables=variables,
        output=PLAN_OUTPUT,
        read=read_optimizer_plan,
    )
