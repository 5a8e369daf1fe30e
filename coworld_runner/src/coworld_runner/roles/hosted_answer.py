"""Keeps what a role has said that a platform ran, as if it had been run here."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread

from coworld_core.api import RoleRun
from coworld_core.episode.record import ArtifactRecord
from coworld_core.role_kinds import ROLES, Role
from coworld_core.roles.grade import read_grade
from coworld_core.roles.report_check import read_diagnosis, read_report
from coworld_core.roles.role_record import DiagnosedPlayer, RoleRecord, read_role_record

from ..runs.workspace import digest, plain_name
from .after_episode import RoleAnswer
from .kept_answer import answer_name, keep_answer, kept_record, made_apart, refuse_foreign

__all__ = ["keep_hosted"]

_CHECKS: dict[Role, Callable[[Path], Any]] = {
    "grader": read_grade,
    "reporter": read_report,
    "diagnoser": read_diagnosis,
}
"""What checks the file that each role writes."""
_PROGRAMS_OWN = ("program_", "output_")
"""Beginnings of the kinds of failure that are a program's; the others are of whoever runs it."""


async def keep_hosted(
    run: RoleRun,
    fetch: Callable[[Path], Awaitable[object]],
    *,
    directory: Path | None = None,
    player: DiagnosedPlayer | None = None,
    kept: bool = False,
) -> RoleAnswer:
    """Fetch what a role has written on a platform, and keep it as what a role says here is kept.

    Args:
        run: The run, which is over.
        fetch: Downloads what it wrote to a file.
        directory: Where it is kept; None: in the current directory, as for a bundle.
        player: The player that was diagnosed.
        kept: Whether the run was over before it was asked for.

    Returns:
        What it has said, or why it has failed. Its program is not known: the record has no `unit`.

    Raises:
        CoworldError: It cannot be fetched, or it is no such answer: the platform has not checked it.
        WorkspaceError: The directory cannot be written, or holds something else.
    """
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
            await fetch(path)
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
