"""Runs the program of a role, and keeps what it leaves in a directory that appears whole or not at all."""

from __future__ import annotations

import datetime as dt
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread

from coworld_core.episode.events import BaseEvent, RoleFinished, RoleProgressed, RoleStarted
from coworld_core.errors import CoworldError, WorkspaceError
from coworld_core.files.atomic import write_whole
from coworld_core.files.zips import open_zip
from coworld_core.roles.bundle_file import BUNDLE_LIMIT
from coworld_core.roles.role_record import (
    ROLE_EVENTS,
    ROLE_FILES,
    ROLE_RECORD,
    ROLES_DIRECTORY,
    DiagnosedPlayer,
    RoleRecord,
    read_role_record,
)

from ..backend import Backend
from ..runs.event_bus import EventBus
from ..runs.reaper import sweep_run
from ..runs.scratch import find_scratch
from ..runs.workspace import plain_name, unwritable
from .role_program import RoleProgram
from .role_run import RoleOptions, RoleWork, run_role

__all__ = [
    "EVENTS_KEPT",
    "answer_directory",
    "answer_name",
    "keep_answer",
    "kept_record",
    "made_apart",
    "refuse_foreign",
    "role_finished",
    "run_and_keep",
]

EVENTS_KEPT = 1000
"""Events of a role that its log has: those of a program that tells of itself without end are not all of use."""

_START_TIMEOUT = 60.0
"""Seconds in which a run has made what shows that it is alive."""

_OWN = (ROLE_FILES, "outputs", "logs")
"""The directories of an answer: what else a person has put beside them stays."""

_Value = TypeVar("_Value")


async def run_and_keep(
    program: RoleProgram,
    work: RoleWork[_Value],
    describe: Callable[[_Value], dict[str, Any]],
    *,
    directory: Path,
    key: str,
    backend: Backend,
    options: RoleOptions,
    bus: EventBus,
    episodes: tuple[str, ...] = (),
    player: DiagnosedPlayer | None = None,
    unpack: bool = True,
) -> RoleRecord:
    """Run a program of a role to its end, and put what it leaves into a directory instead of what is there.

    Args:
        program: The program.
        work: What it gets and leaves.
        describe: Makes what is kept of an answer in its record.
        directory: Where what it leaves is kept, with its record and its logs.
        key: Digest of the program and of all that it is given.
        backend: An entered backend.
        options: How to run it.
        bus: Receives events; its run's label is that of the program.
        episodes: Ids of the episodes.
        player: The player that is diagnosed.
        unpack: Whether the files of a zip are unpacked beside it.

    Returns:
        The record, with the failure if there was one.

    Raises:
        As `run_role`.
    """
    about: dict[str, Any] = {
        "role": program.role,
        "id": program.id,
        "episodes": episodes,
        "slot": None if player is None else player.slot,
    }

    def publish(event: BaseEvent) -> None:
        # The program's socket knows the program alone
        bus.publish(event.model_copy(update=about) if isinstance(event, RoleProgressed) else event)

    began = dt.datetime.now(dt.UTC)
    await _remove_killed(directory, backend)
    place = made_apart(directory, bus.run_id)
    bus.publish(RoleStarted(**about))
    try:
        outcome = await run_role(
            program, work, backend=backend, directory=place, options=options, publish=publish, run_id=bus.run_id
        )
        run = outcome.run
        record = RoleRecord(
            run_id=run.run_id,
            role=program.role,
            id=program.id,
            key=key,
            episodes=episodes,
            player=player,
            backend=backend.name,
            started_at=began,
            seconds=run.seconds,
            status="completed" if outcome.ok else "failed",
            answer=None if outcome.value is None else describe(outcome.value),
            outputs=dict(run.outputs),
            fault=outcome.fault,
            unit=run.unit,
            warnings=run.warnings,
        )
        packed = run.path(work.output) if unpack and outcome.ok and work.output.endswith(".zip") else None
        bus.publish(role_finished(record))
        await anyio.to_thread.run_sync(keep_answer, record, bus.history, packed, place, directory)
    except CoworldError as error:
        bus.publish(RoleFinished(**about, ok=False, message=error.message))
        raise
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return record


async def _remove_killed(directory: Path, backend: Backend) -> None:
    """Remove what killed runs of the same program have left, with their units; those of living ones stay."""
    for place in [*directory.parent.glob(f".{directory.name}.*")]:
        run_id = place.name.rpartition(".")[2]
        found = find_scratch(run_id)
        if any(item.alive for item in found) or (not found and time.time() - place.stat().st_mtime < _START_TIMEOUT):
            continue
        await sweep_run(backend, run_id)
        await anyio.to_thread.run_sync(shutil.rmtree, place, True)


def answer_name(program: RoleProgram | RoleRecord, player: DiagnosedPlayer | None = None) -> str:
    """The name of the directory of what a program says, about a player if it is a diagnoser."""
    return "-".join(filter(None, (program.role, plain_name(program.id), f"slot-{player.slot}" if player else "")))


def answer_directory(workspace: Path, program: RoleProgram, player: DiagnosedPlayer | None = None) -> Path:
    """Where what a program says about an episode is kept in its workspace."""
    return workspace / ROLES_DIRECTORY / answer_name(program, player)


def role_finished(record: RoleRecord, *, kept: bool = False) -> RoleFinished:
    """The event that tells how a role has ended.

    Args:
        record: What it has left.
        kept: Whether it was there already.
    """
    return RoleFinished(
        role=record.role,
        id=record.id,
        episodes=record.episodes,
        slot=None if record.player is None else record.player.slot,
        ok=record.ok,
        kept=kept,
        score=record.score,
        seconds=0.0 if kept else record.seconds,
        message=record.fault.message if record.fault is not None else "",
    )


def kept_record(directory: Path) -> RoleRecord | None:
    """The record of what a program has left in a directory; None if there is none."""
    try:
        return read_role_record(directory)
    except CoworldError:
        return None


def refuse_foreign(directory: Path) -> None:
    """Refuse a directory in which there is something that no role has left.

    Raises:
        WorkspaceError: There is (`workspace_not_empty`).
    """
    if kept_record(directory) is None and directory.exists() and any(directory.iterdir()):
        raise WorkspaceError(
            f"{directory} is not empty, and no role has left what is in it.",
            code="workspace_not_empty",
            hint="Name another directory.",
            context={"path": str(directory)},
        )


def keep_answer(
    record: RoleRecord, events: Sequence[BaseEvent], packed: Path | None, place: Path, directory: Path
) -> None:
    """Complete what a role has left, and put it into its directory instead of what it left before; other files stay.

    Args:
        record: What became of it.
        events: Its events.
        packed: Its zip, which was checked, to be unpacked; None: there is none.
        place: Where what it has left is, as `made_apart` returns it.
        directory: Where it belongs.
    """
    if packed is not None:
        _unpack(packed, place / ROLE_FILES)
    write_whole(place / ROLE_EVENTS, b"".join(event.to_line() for event in events))
    write_whole(place / ROLE_RECORD, record.to_document())
    place.chmod(0o755)
    if directory.exists():
        for own in _OWN:
            shutil.rmtree(directory / own, ignore_errors=True)
        # The record at last: with it the directory is a role's
        for entry in sorted(place.iterdir(), key=lambda entry: entry.name == ROLE_RECORD):
            entry.replace(directory / entry.name)
    else:
        place.rename(directory)


def _unpack(path: Path, directory: Path) -> None:
    """Unpack the files of a report or a diagnosis, which was checked."""
    with open_zip(path, limit=BUNDLE_LIMIT, what="report", error=CoworldError) as archive:
        directory.mkdir()
        archive.extract_all(directory)


def made_apart(directory: Path, run_id: str) -> Path:
    """Make the directory in which a run makes an answer, before it is put into its own."""
    place = directory.with_name(f".{directory.name}.{run_id}")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=0o700)
    except OSError as error:
        raise unwritable(directory, error) from error
    return place
