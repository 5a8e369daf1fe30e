"""Grades many episodes: those that are named, and all episodes of a run of many."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import anyio.to_thread

from coworld_core.episode.record import ROWS_NAME, last_attempts, read_rows
from coworld_core.errors import CoworldError, EpisodeError, UsageError
from coworld_core.evaluation.estimates import Interval, mean_interval
from coworld_core.files.atomic import write_whole
from coworld_core.roles.bundle_file import pack_bundle
from coworld_core.roles.finished_episode import FinishedEpisode

from ..package.locations import expand
from ..runs.episode_places import find_episode
from ..runs.scratch import open_scratch
from .after_episode import RoleAnswer, RoleArguments, Run, grade_episode, package_of
from .role_jobs import RoleJob, RoleResult, run_roles
from .role_program import RoleProgram, find_role

__all__ = ["GradedEpisode", "Grades", "grade_episodes", "graded_by", "grades_of"]


@dataclass(frozen=True, kw_only=True)
class GradedEpisode:
    """What became of one episode."""

    run: str
    """The episode, as it was named or found."""
    graded: RoleAnswer | None = None
    """What the grader said; None if the episode could not be read."""
    error: CoworldError | None = None
    """Why the episode could not be read."""

    @property
    def score(self) -> float | None:
        """The grade; None if there is none."""
        return float(self.graded.answer["score"]) if self.graded is not None and self.graded.ok else None


@dataclass(frozen=True, kw_only=True)
class Grades:
    """The grades of several episodes, in the order in which these were named."""

    episodes: tuple[GradedEpisode, ...]

    @property
    def grader(self) -> str:
        """The grader's id, as the grades say it; empty if there are none."""
        return next((each.graded.record.id for each in self.episodes if each.graded is not None), "")

    @property
    def scores(self) -> tuple[float, ...]:
        """The grades that there are."""
        return tuple(each.score for each in self.episodes if each.score is not None)

    @property
    def mean(self) -> float | None:
        """Their mean; None if there are none."""
        return sum(self.scores) / len(self.scores) if self.scores else None

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the mean; None if there are too few to give one."""
        return mean_interval(self.scores)

    @property
    def ok(self) -> bool:
        """Whether every episode has a grade."""
        return all(each.score is not None for each in self.episodes)


async def grade_episodes(
    runs: Sequence[Run],
    *,
    grader: str | RoleProgram | None = None,
    parallel: int = 1,
    tell: Callable[[GradedEpisode], object] | None = None,
    **how: Unpack[RoleArguments],
) -> Grades:
    """Grade episodes, and keep each grade in its episode's workspace.

    An interruption loses nothing: the same call goes on, since grades that are there are not asked for again.

    Args:
        runs: Episodes as for `grade_episode`, and workspaces of runs of many.
        grader: The grader, as for `grade_episode`.
        parallel: Number of episodes at a time.
        tell: Called after each episode.
        how: How it is run, as for `grade_episode`; without `game`, the first episode's record names the package.

    Raises:
        UsageError: There is no such run, package or grader, or a run has no episodes (`no_episodes`).
        ImageError: The grader's image is not available.
        EnvironmentFault: The machine or the engine failed.
    """
    found = await anyio.to_thread.run_sync(_expanded, runs)
    package = await package_of(how.get("game"), found)
    program = grader if isinstance(grader, RoleProgram) else find_role(package, "grader", grader)
    results = await run_roles(
        [RoleJob(program=program, run=run) for run in found],
        parallel=parallel,
        recorded=UsageError,
        tell=None if tell is None else lambda result: tell(_graded(result)),
        **{**how, "game": package},
    )
    return grades_of(results)


def graded_by(
    grader: str | RoleProgram | None = None, **how: Unpack[RoleArguments]
) -> Callable[[FinishedEpisode], Awaitable[dict[str, Any]]]:
    """Make a function of a grader, for games that were played in this process: a reward of `as_verifiers`.

    Args:
        grader: The grader, as for `grade_episode`.
        how: How it is run, as for `grade_episode`; it needs `game`.

    Returns:
        Grades an episode, and returns the grade, an object with a `score`. It raises what `grade_episode` does, and
        `EpisodeError` (`grade_failed`) if the grader fails.
    """

    async def grade(episode: FinishedEpisode) -> dict[str, Any]:
        async with open_scratch() as scratch:
            bundle = scratch.path / "episode.zip"
            await anyio.to_thread.run_sync(lambda: write_whole(bundle, pack_bundle(episode.plan())))
            graded = await grade_episode(bundle, grader=grader, directory=scratch.path / "grade", **how)
        if not graded.ok:
            fault = graded.record.fault
            why = fault.message if fault is not None else graded.record.status
            raise EpisodeError(f"{graded.record.id} has given no grade: {why}", code="grade_failed")
        return graded.answer

    return grade


def grades_of(results: Sequence[RoleResult]) -> Grades:
    """What one grader has said about episodes, as `run_roles` returns it."""
    return Grades(episodes=tuple(map(_graded, results)))


def _graded(result: RoleResult) -> GradedEpisode:
    return GradedEpisode(run=os.fspath(result.job.run), graded=result.answer, error=result.error)


def _expanded(runs: Sequence[Run]) -> list[str]:
    """All episodes, each once; those of a run of many by their number."""
    found: dict[str, None] = {}
    for run in runs:
        place = find_episode(expand(os.fspath(run)))
        if not (place / ROWS_NAME).is_file():
            found[str(place)] = None
            continue
        rows = last_attempts(read_rows(place))
        if not rows:
            raise UsageError(
                f"The run in {place} has no episodes yet.", code="no_episodes", context={"path": str(place)}
            )
        found.update(dict.fromkeys(str(place / row.workspace) for row in rows))
    return list(found)
