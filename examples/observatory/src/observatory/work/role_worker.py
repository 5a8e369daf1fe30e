"""Running a supporting role on an episode that is over: its bundle in, and what the program says into the store."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
from pydantic import BaseModel

from coworld_core.episode import Fault, Verdict
from coworld_core.errors import UsageError
from coworld_core.roles import RoleRecord
from coworld_runner.backend import Backend
from coworld_runner.roles import (
    RoleOptions,
    RoleOutcome,
    RoleProgram,
    RoleWork,
    diagnosis_work,
    grade_work,
    report_work,
    run_role,
)

from ..episodes.bundles import bundle_of
from ..episodes.downloads import stream_bundle
from ..services import Services
from ..store.models import Coworld, EpisodeRequest, RoleRun
from .admission import Admission
from .queue import Claim
from .role_orders import RoleEnd, declared_roles, diagnosed_player

__all__ = ["end_of", "run_claimed_role"]

LOG_CHARACTERS = 10_000
"""The length of the end of a program's log that is kept with a failure."""


async def run_claimed_role(
    services: Services,
    backend: Backend,
    admission: Admission,
    claim: Claim,
    directory: Path,
    *,
    options: RoleOptions,
) -> tuple[RoleEnd, Fault | None]:
    """Run the program of a role on an episode, as the runner does, and store what it leaves.

    Args:
        services: The stores.
        backend: An entered backend.
        admission: Decides whether the program may run there.
        claim: The claim on the run.
        directory: A new directory for the bundle and whatever the program leaves; the caller removes it.
        options: How programs are run.

    Returns:
        How it ended, and what went wrong.

    Raises:
        ManifestError: The manifest can no longer be read.
        CapabilityError: The program may not run here.
        ImageError: Its image is not available.
        UsageError: The Coworld has no such program (`role_unknown`), or the episode's files were removed (`not_kept`).
        OSError: The store cannot be used.
    """
    assert claim.role_run_id is not None
    async with services.database.reading() as session:
        run = await session.get_one(RoleRun, claim.role_run_id)
        row = await session.get_one(EpisodeRequest, run.episode_request_id)
        if row.pruned_at is not None:
            raise UsageError(f"What the episode {row.id} had left is not kept any longer.", code="not_kept")
        coworld = await session.get_one(Coworld, row.coworld_id)
        role = cast("Any", run.role)
        entry = next((entry for entry in declared_roles(coworld, role) if entry.id == run.runnable_id), None)
        if entry is None:
            raise UsageError(f"{coworld.name} has no {role} {run.runnable_id!r}.", code="role_unknown")
        admitted = await admission.admit(session, entry.as_runnable(), owner=coworld.user_id)
    program = RoleProgram(role=role, id=entry.id, runnable=admitted.runnable)
    await anyio.Path(directory).mkdir(mode=0o700)
    bundle = directory / "episode.zip"
    async with await anyio.open_file(bundle, "wb") as file:
        async for piece in stream_bundle(services.artifacts, bundle_of(row, slots=run.slots)):
            await file.write(piece)
    began = dt.datetime.now(dt.UTC)
    work = await _work(run, row, bundle, directory)
    outcome = await run_role(
        program, work, backend=backend, directory=directory / "run", options=options, run_id=claim.run_id
    )
    record = _record(run, row, program, backend, outcome, began)
    end = RoleEnd(record=record.model_dump(mode="json"), answer=record.answer)
    if (fault := outcome.fault) is not None:
        return replace(end, error_type=fault.error_type, error=fault.message), fault
    stored = await services.artifacts.put(f"{claim.prefix}/{work.output}", outcome.run.path(work.output))
    return replace(end, output=stored), None


def end_of(verdict: Verdict) -> RoleEnd:
    """How a role ended whose program did not run."""
    return RoleEnd(error_type=verdict.error_type, error=verdict.message)


async def _work(run: RoleRun, row: EpisodeRequest, bundle: Path, directory: Path) -> RoleWork[Any]:
    if run.role == "grader":
        return grade_work(bundle)
    if run.role == "diagnoser":
        return diagnosis_work(bundle, diagnosed_player(row, run.position))
    return await report_work([bundle], directory, request_id=run.id)


def _record(
    run: RoleRun,
    row: EpisodeRequest,
    program: RoleProgram,
    backend: Backend,
    outcome: RoleOutcome[BaseModel],
    began: dt.datetime,
) -> RoleRecord:
    ran, fault = outcome.run, outcome.fault
    return RoleRecord(
        run_id=ran.run_id,
        role=program.role,
        id=program.id,
        key=run.key,
        episodes=(row.id,),
        player=diagnosed_player(row, run.position) if run.position >= 0 else None,
        backend=backend.name,
        started_at=began,
        seconds=ran.seconds,
        status="completed" if outcome.ok else "failed",
        answer=None if outcome.value is None else outcome.value.model_dump(mode="json"),
        outputs=dict(ran.outputs),
        fault=None if fault is None else fault.model_copy(update={"log_tail": fault.log_tail[-LOG_CHARACTERS:]}),
        unit=ran.unit,
        warnings=ran.warnings,
    )
