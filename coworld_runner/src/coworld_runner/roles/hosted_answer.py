"""Has a platform run roles on its episodes, and keeps what they say as if they had been run here."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack

import anyio
import anyio.to_thread

from coworld_core.api import EpisodeRequest, HostedRole, RoleRun
from coworld_core.episode.record import ArtifactRecord
from coworld_core.errors import RemoteError
from coworld_core.role_kinds import ROLES, Role
from coworld_core.roles.grade import read_grade
from coworld_core.roles.report_check import read_diagnosis, read_report
from coworld_core.roles.role_record import DiagnosedPlayer, RoleRecord, read_role_record

from ..errors import unwrapped
from ..runs.workspace import digest, plain_name
from .after_episode import RoleAnswer, named_player
from .grading import GradedEpisode, Grades
from .kept_answer import answer_name, keep_answer, kept_record, made_apart, refuse_foreign

__all__ = ["HostedArguments", "HostedRoles", "ask_hosted", "grade_hosted", "hosted_player"]

_CHECKS: dict[Role, Callable[[Path], Any]] = {
    "grader": read_grade,
    "reporter": read_report,
    "diagnoser": read_diagnosis,
}
"""What checks the file that each role writes."""
_PROGRAMS_OWN = ("program_", "output_")
"""Beginnings of the kinds of failure that are a program's; the others are of whoever runs it."""


OnProgress = Callable[[int, int | None], object]
"""Called with the bytes so far and the total, which is None while unknown."""


class HostedRoles(Protocol):
    """The role runs of a platform: `api.role_runs` of a `CoworldClient`."""

    async def create(
        self, episode: str, role: HostedRole, *, runnable_id: str | None, position: int | None, private: bool
    ) -> RoleRun:
        """Have a role run on an episode, unless it has."""
        ...

    async def wait(
        self, run_id: str, *, timeout: float | None, on_change: Callable[[RoleRun], object] | None
    ) -> RoleRun:
        """Wait until a run has ended."""
        ...

    async def download_output(self, run: RoleRun, target: Path, *, on_progress: OnProgress | None) -> object:
        """Download what the program of a run wrote."""
        ...


class HostedArguments(TypedDict, total=False):
    """How a platform is waited for."""

    timeout: float | None
    """Seconds to wait for a run; None: as long as it takes. It goes on anyway."""
    on_change: Callable[[RoleRun], object] | None
    """Called with each run at first, and after every change."""
    progress: Callable[[RoleRun], AbstractContextManager[OnProgress | None]]
    """Opens what is called with the progress of the download of what a run wrote."""


async def ask_hosted(
    roles: HostedRoles,
    episode: str,
    role: HostedRole,
    *,
    named: str | None = None,
    player: DiagnosedPlayer | None = None,
    private: bool = False,
    directory: Path | None = None,
    **how: Unpack[HostedArguments],
) -> RoleAnswer:
    """Have a platform run a role on one of its episodes, wait for it, and keep what it says here.

    Args:
        roles: The platform's role runs: `api.role_runs` of a client.
        episode: The id of the episode.
        role: `grader`, `reporter` or `diagnoser`.
        named: The program's id in the Coworld's manifest; None: the only one of this role.
        player: For a diagnoser, the player, which is one of yours.
        private: Whether a reporter is given the files of your own players, too.
        directory: Where it is kept; None: in the current directory, as for a bundle.
        how: How it is waited for.

    Returns:
        What it has said, or why it has failed. Its program is not known: the record has no `unit`.

    Raises:
        CoworldError: The platform refuses, what it gives cannot be fetched, or is no such answer.
        WorkspaceError: The directory cannot be written, or holds something else.
    """
    made = await roles.create(
        episode, role, runnable_id=named, position=None if player is None else player.slot, private=private
    )
    run = await roles.wait(made.id, timeout=how.get("timeout"), on_change=how.get("on_change"))
    with how.get("progress", lambda _: nullcontext())(run) as tell:
        return await _keep(run, roles, tell, directory=directory, player=player, kept=made.status.is_terminal)


async def grade_hosted(
    roles: HostedRoles,
    episodes: Sequence[str],
    *,
    grader: str | None = None,
    parallel: int = 2,
    **how: Unpack[HostedArguments],
) -> Grades:
    """Have a platform grade its episodes, and keep the grades here.

    What it refuses for one of several episodes, it may do for the others.

    Args:
        roles: As for `ask_hosted`.
        episodes: The ids of the episodes.
        grader: The grader's id in the Coworld's manifest; None: the only one.
        parallel: Number of episodes to wait for at a time.
        how: As for `ask_hosted`.

    Raises:
        CoworldError: As for `ask_hosted`; a refusal only if there is one episode, or you are not signed in.
    """
    grades: dict[str, GradedEpisode] = {}
    slots = anyio.CapacityLimiter(parallel)

    async def one(episode: str) -> None:
        async with slots:
            try:
                answer = await ask_hosted(roles, episode, "grader", named=grader, **how)
                grades[episode] = GradedEpisode(run=episode, graded=answer)
            except RemoteError as error:
                if len(episodes) == 1 or error.context.get("status") in (None, 401):
                    raise
                grades[episode] = GradedEpisode(run=episode, error=error)

    with unwrapped():
        async with anyio.create_task_group() as tasks:
            for episode in episodes:
                tasks.start_soon(one, episode)
    return Grades(episodes=tuple(grades[episode] for episode in episodes))


def hosted_player(episode: EpisodeRequest, named: int | str) -> DiagnosedPlayer:
    """Return the player with a slot or a name in an episode of a platform.

    Raises:
        UsageError: There is none (`unknown_player`).
    """
    seats = [
        DiagnosedPlayer(slot=seat.position, name=seat.label, source=seat.policy_version_id or "")
        for seat in episode.participants
    ]
    return named_player(seats, named, of=episode.id)


async def _keep(
    run: RoleRun,
    roles: HostedRoles,
    tell: OnProgress | None,
    *,
    directory: Path | None,
    player: DiagnosedPlayer | None,
    kept: bool,
) -> RoleAnswer:
    """Fetch what a role has written on a platform, and keep it as what a role says here is kept."""
    record = _record(run, player)
    target = (directory or Path(f"{plain_name(run.episode_request_id)}-{answer_name(record, player)}")).absolute()
    await anyio.to_thread.run_sync(refuse_foreign, target)
    known = kept_record(target)
    if known is not None and known.run_id == run.id and known.ok:
        return RoleAnswer(record=known, directory=target, kept=True)
    place = await anyio.to_thread.run_sync(made_apart, target, plain_name(run.id))
    try:
        packed = None
        if record.ok:
            name = ROLES[record.role].output
            path = place / "outputs" / name
            path.parent.mkdir()
            await roles.download_output(run, path, on_progress=tell)
            await anyio.to_thread.run_sync(_CHECKS[record.role], path)
            found = ArtifactRecord(
                path=f"outputs/{name}",
                size=path.stat().st_size,
                sha256=await anyio.to_thread.run_sync(digest, path),
            )
            record = record.model_copy(update={"outputs": {name: found}})
            packed = path if path.suffix == ".zip" else None
        await anyio.to_thread.run_sync(keep_answer, record, (), packed, place, target)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return RoleAnswer(record=record, directory=target, kept=kept)


def _record(run: RoleRun, player: DiagnosedPlayer | None) -> RoleRecord:
    """The record of a run, read leniently: a server may be newer, and have other kinds of failures."""
    ended = run.completed_at or dt.datetime.now(dt.UTC)
    completed = str(run.status) == "completed"
    error_type = run.error_type or "platform_error"
    fault = {
        "party": "program" if error_type.startswith(_PROGRAMS_OWN) else "platform",
        "error_type": error_type,
        "message": run.error or f"The platform says that it is {run.status}.",
        "time": ended.isoformat(),
        "log_tail": run.log_tail or "",
    }
    return read_role_record(
        {
            "run_id": run.id,
            "role": run.role,
            "id": run.runnable_id,
            # The platform gives the same run for the same work
            "key": run.id,
            "episodes": [run.episode_request_id],
            "player": None if player is None else player.model_dump(mode="json"),
            "backend": "platform",
            "started_at": (run.started_at or run.created_at or ended).isoformat(),
            "seconds": run.seconds or 0.0,
            "status": "completed" if completed else "failed",
            "answer": run.answer if completed else None,
            "fault": None if completed else fault,
        }
    )
