"""Runs several programs of roles, on one episode or many, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

import anyio

from coworld_core.episode.events import BaseEvent, RoleFinished, RoleStarted
from coworld_core.errors import CoworldError

from ..backend import to_nobody
from ..episode.run_context import entered_backend
from ..errors import unwrapped
from .after_episode import RoleAnswer, RoleArguments, Run, diagnose_episode, grade_episode, package_of, report_episodes
from .role_program import RoleProgram

__all__ = ["RoleJob", "RoleResult", "run_roles"]


@dataclass(frozen=True, kw_only=True)
class RoleJob:
    """A program of a role, and the episode that it is to look at."""

    program: RoleProgram
    run: Run
    player: int | str = 0
    """The player that a diagnoser is asked about."""


@dataclass(frozen=True, kw_only=True)
class RoleResult:
    """What became of a job."""

    job: RoleJob
    answer: RoleAnswer | None = None
    """What the program said, or why that is not valid; None if it could not be run at all."""
    error: CoworldError | None = None
    """Why it could not be run."""

    @property
    def ok(self) -> bool:
        """Whether the program was run, and what it left is valid."""
        return self.answer is not None and self.answer.ok


async def run_roles(
    jobs: Sequence[RoleJob],
    *,
    parallel: int = 2,
    recorded: type[CoworldError] = CoworldError,
    tell: Callable[[RoleResult], object] | None = None,
    **how: Unpack[RoleArguments],
) -> tuple[RoleResult, ...]:
    """Run programs of roles, and keep what each says beside its episode. One that fails leaves the others alone.

    An interruption loses nothing: the same call goes on, since what was said is not asked for again.

    Args:
        jobs: What to run.
        parallel: Number of programs at a time.
        recorded: The errors that belong to one job; others end the call.
        tell: Called after each job.
        how: How they are run, as for `grade_episode`; without `game`, the record of an episode names the package.

    Returns:
        What became of each job, in their order.

    Raises:
        UsageError: There is no such package or backend.
        EnvironmentFault: The machine or the engine failed.
    """
    if not jobs:
        return ()
    package = await package_of(how.get("game"), [job.run for job in jobs])
    results: dict[int, RoleResult] = {}
    slots = anyio.CapacityLimiter(parallel)
    publish, total, done = how.get("publish") or to_nobody, len(jobs), 0

    def counted(event: BaseEvent) -> None:
        """Publish an event, with how many of the programs have ended."""
        nonlocal done
        if total > 1 and isinstance(event, RoleFinished):
            done += 1
            event = event.model_copy(update={"done": done, "total": total})
        elif total > 1 and isinstance(event, RoleStarted):
            event = event.model_copy(update={"total": total})
        publish(event)

    async with entered_backend(how.get("backend", "auto"), package) as entered:
        each: RoleArguments = {**how, "game": package, "backend": entered, "publish": counted}

        async def one(index: int, job: RoleJob) -> None:
            async with slots:
                try:
                    results[index] = RoleResult(job=job, answer=await _answer(job, each))
                except recorded as error:
                    results[index] = RoleResult(job=job, error=error)
            if tell is not None:
                tell(results[index])

        with unwrapped():
            async with anyio.create_task_group() as tasks:
                for index, job in enumerate(jobs):
                    tasks.start_soon(one, index, job)
    return tuple(results[index] for index in range(len(jobs)))


async def _answer(job: RoleJob, how: RoleArguments) -> RoleAnswer:
    match job.program.role:
        case "reporter":
            return await report_episodes([job.run], reporter=job.program, **how)
        case "grader":
            return await grade_episode(job.run, grader=job.program, **how)
        case _:
            return await diagnose_episode(job.run, job.player, diagnoser=job.program, **how)
