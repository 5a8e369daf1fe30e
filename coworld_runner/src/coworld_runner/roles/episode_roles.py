"""The roles that look at every episode of a run once it has ended, and what the episodes' records tell of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import read_record
from coworld_core.episode.role_summary import Role, RoleSummary
from coworld_core.errors import UsageError
from coworld_core.roles.role_record import DiagnosedPlayer

from ..backend import Backend
from ..package.plan import EpisodePlan
from ..package.resolver import Package
from ..runs.workspace import artifact_records, atomic_write
from .after_episode import RoleArguments, named_player
from .role_jobs import RoleJob, RoleResult, run_roles
from .role_program import RoleProgram, declared_ids, find_role

__all__ = ["EpisodeRole", "find_roles", "require_roles", "run_episode_roles"]


@dataclass(frozen=True, kw_only=True)
class EpisodeRole:
    """A program that looks at each episode of a run."""

    program: RoleProgram
    player: int | str = 0
    """The player that a diagnoser is asked about: its slot, or its display name or id."""


def find_roles(package: Package, role: Role, names: Sequence[str] = ()) -> tuple[RoleProgram, ...]:
    """Find programs of a role.

    Args:
        package: The Coworld.
        role: The role.
        names: Ids of the manifest, files, or images, as for `find_role`. Empty: every one that the manifest declares.

    Raises:
        UsageError: There is none, or two have the same id (`role_repeated`), or as for `find_role`.
    """
    named = names or declared_ids(package, role)
    programs = [find_role(package, role, word) for word in named] or [find_role(package, role)]
    ids = [program.id for program in programs]
    for identifier in ids:
        if ids.count(identifier) > 1:
            raise UsageError(
                f"Two {role}s are called {identifier!r}, and what they say would be kept in one place.",
                code="role_repeated",
                hint="Name each once; a file of another name has another id.",
                context={"role": role, "id": identifier},
            )
    return tuple(programs)


async def require_roles(
    roles: Sequence[EpisodeRole], plan: EpisodePlan, backend: Backend, *, platform: str | None = None
) -> None:
    """Check before anything is played that roles can be run afterwards.

    Args:
        roles: The roles.
        plan: What is to be played.
        backend: An entered backend.
        platform: os/architecture of images; None: the engine's default.

    Raises:
        UsageError: No player of the plan is the one that is to be diagnosed (`unknown_player`).
        ImageError: The image of a role is not available.
    """
    seats = [
        DiagnosedPlayer(slot=slot, name=seat.name, source=seat.player_id or seat.image)
        for slot, seat in enumerate(plan.seats)
    ]
    for role in roles:
        if role.program.role == "diagnoser":
            named_player(seats, role.player, of=plan.manifest.game.name)
        if role.program.own is None:
            await backend.ensure_image(role.program.runnable.image, platform=platform)


async def run_episode_roles(
    episodes: Sequence[Path],
    roles: Sequence[EpisodeRole],
    *,
    parallel: int = 2,
    tell: Callable[[RoleResult], object] | None = None,
    **how: Unpack[RoleArguments],
) -> tuple[RoleResult, ...]:
    """Run roles on episodes that have ended, and name what they say in the episodes' records.

    A role that fails changes nothing of an episode's outcome. An interruption loses nothing: the same call goes on.

    Args:
        episodes: The workspaces.
        roles: What is run on each of them.
        parallel: Number of programs at a time.
        tell: Called after each program.
        how: How they are run, as for `grade_episode`.

    Returns:
        What became of each role, by episode.

    Raises:
        UsageError: There is no such package or backend.
        WorkspaceError: The record of an episode cannot be written.
    """
    jobs = [RoleJob(program=role.program, run=place, player=role.player) for place in episodes for role in roles]
    order = {id(job): index for index, job in enumerate(jobs)}
    ended: dict[Path, list[RoleResult]] = {}

    def on_result(result: RoleResult) -> None:
        place = Path(result.job.run)
        results = ended.setdefault(place, [])
        results.append(result)
        if len(results) == len(roles):
            _name_in_record(place, sorted(results, key=lambda each: order[id(each.job)]))
        if tell is not None:
            tell(result)

    return await run_roles(jobs, parallel=parallel, tell=on_result, **how)


def _name_in_record(workspace: Path, results: Sequence[RoleResult]) -> None:
    layout = EpisodeLayout(workspace)
    if layout.record.is_file():  # An episode that failed at once has only a row
        named = tuple(_summary(result, workspace) for result in results)
        changed = read_record(layout.record).model_copy(
            update={"roles": named, "artifacts": artifact_records(layout)}  # Now with what the roles have left
        )
        atomic_write(layout.record, changed.to_document())


def _summary(result: RoleResult, workspace: Path) -> RoleSummary:
    program, answer, error = result.job.program, result.answer, result.error
    if answer is None:
        return RoleSummary(
            role=program.role,
            id=program.id,
            status="failed",
            error_type=None if error is None else error.code,
            message=None if error is None else error.message,
        )
    record = answer.record
    return RoleSummary(
        role=program.role,
        id=program.id,
        slot=None if record.player is None else record.player.slot,
        status="completed" if record.ok else "failed",
        score=record.score,
        directory=_relative(answer.directory, workspace),
        page=None if answer.page is None else _relative(answer.page, workspace),
        error_type=None if record.fault is None else record.fault.error_type,
        message=None if record.fault is None else record.fault.message,
    )


def _relative(path: Path, workspace: Path) -> str:
    return Path(os.path.relpath(path, workspace)).as_posix()
