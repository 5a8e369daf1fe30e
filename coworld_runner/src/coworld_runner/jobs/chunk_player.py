"""Plays the chunks that appear in a directory, and leaves their rows and evidence there.

Games of the kit are played in worker processes; an episode of images with the other containers of this pod.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from coworld_core.documents.records import open_record, read_as
from coworld_core.episode.record import ROWS_NAME, EpisodeRow, SlotRow
from coworld_core.errors import CapabilityError, CoworldError, EnvironmentFault, UsageError

from ..episode.program_venue import ProgramVenue
from ..episode.venue import Venue, VenueRun, Wanted
from ..evaluation.worker_venue import WorkerVenue
from ..package.resolver import Package
from ..runs.workspace import atomic_write
from .job_files import RUN, ChunkProblem, JobRun, PlannedChunk, SentPlans, sent_package
from .own_pod import OwnPod
from .shared_folder import SharedFolder

__all__ = ["OUT", "play_chunks", "with_digests"]

OUT = "out"
"""The name of the directory with what is left of a chunk: rows, and evidence by key."""


def with_digests(planned: tuple[SlotRow, ...], played: tuple[SlotRow, ...]) -> tuple[SlotRow, ...]:
    """The seats of an episode as they were planned, with the digests of images, which only their nodes know."""
    return tuple(
        one.model_copy(update={"digest": there.digest})
        if not one.digest and re.fullmatch("sha256:[0-9a-f]{64}", there.digest)
        else one
        for one, there in zip(planned, played, strict=True)
    )


async def play_chunks(folder: SharedFolder, pod: OwnPod | None = None) -> None:
    """Play chunks until there are no more.

    Args:
        folder: The directory.
        pod: The pod that plays one episode of images.

    Raises:
        EnvironmentFault: The machine failed, or the courier is gone.
    """
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(folder.beat, "player")
        await folder.until("courier", lambda: folder.run.exists() or folder.over.exists())
        if not folder.over.exists():
            run = read_as(JobRun, open_record(folder.run / RUN, what="run", name=RUN), what="run")
            package = await sent_package(run, folder.run / "package")
            async with _opened_venue(package, run, pod) as venue:
                plans = SentPlans(package, run, folder.run / "players")
                while True:
                    await folder.until("courier", lambda: folder.chunk.exists() or folder.over.exists())
                    if not folder.chunk.exists():
                        break
                    await _play_chunk(folder, run, venue, plans, pod)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _opened_venue(package: Package, run: JobRun, pod: OwnPod | None) -> AsyncGenerator[Venue]:
    if pod is not None:
        async with pod.backend(ready_seconds=run.episode_options().ready_timeout_seconds) as backend:
            # As its game was told
            yield ProgramVenue(backend, new_id=lambda: pod.job)
        return
    if run.programs:
        raise UsageError("Each episode of this run has a pod of its own.", code="not_portable")
    async with WorkerVenue(package, options=run.episode_options()) as venue:
        yield venue


async def _play_chunk(folder: SharedFolder, run: JobRun, venue: Venue, plans: SentPlans, pod: OwnPod | None) -> None:
    out = folder.chunk / OUT
    # What an earlier half of this pod has begun
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    problem: ChunkProblem | None = None
    try:
        path = folder.chunk / "chunk.json"
        chunk = read_as(PlannedChunk, open_record(path, what="chunk", name=path.name), what="chunk")
        # No player is to find the seeds of the others there
        path.unlink()
        wanted = list(plans.plans(chunk))
        if pod is not None:
            wanted = [replace(one, plan=pod.informed(one.plan)) for one in wanted]
        for seats in {id(one.plan.seats): one.plan.seats for one in wanted}.values():
            if isinstance(venue, WorkerVenue) and (reason := await venue.reason_against(seats)):
                problem = ChunkProblem(code="not_portable", message=f"Pods cannot play it: {reason}.")
        if problem is None:
            await _play(out, run, venue, wanted, chunk)
    except EnvironmentFault:
        raise
    except CoworldError as error:
        problem = ChunkProblem(code=error.code, message=error.message, hint=str(error.hint) if error.hint else None)
    atomic_write(folder.ended, problem.to_document() if problem is not None else b"{}")
    await folder.until("courier", lambda: not folder.ended.exists())


async def _play(out: Path, run: JobRun, venue: Venue, wanted: list[Wanted], chunk: PlannedChunk) -> None:
    slots = {one.key: chunk.tables[one.table].slots for one in chunk.episodes}
    terms = VenueRun(
        run_id=run.run_id,
        workspace=out,
        publish=lambda event: None,
        parallel=None,
        options=run.episode_options(),
        hooks=(),
        episode_listeners=None,
        same_players=True,
        measured=run.measured,
        keeps_results=run.keeps_results,
    )
    with (out / ROWS_NAME).open("ab") as file:

        def take(rows: Any) -> bool:
            row: EpisodeRow
            for row in rows:
                # Versions in a registry are known only where it is
                file.write(row.model_copy(update={"slots": with_digests(slots[row.key], row.slots)}).to_line())
            return False

        # What the cluster cannot enforce ends the run, as it would end any episode
        await venue.play(terms, iter(wanted), take, fatal=(CapabilityError,))
