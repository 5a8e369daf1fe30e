"""Stops a run of another process: asks that process as Ctrl-C does, or kills it and removes what it leaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import anyio.to_thread
import psutil

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.files.locks import is_free
from coworld_core.hints import Hint
from coworld_core.text.phrases import listed

from ..doctor import leftovers
from ..records.run_reader import read_run
from ..runs.lock_holder import LockHolder, find_holder

__all__ = ["stop_run"]

_DEATH_SECONDS = 20.0
"""Limit for a killed process to be gone."""
_LOOK_SECONDS = 0.05


async def stop_run(workspace: Path, *, hard: bool = False) -> None:
    """Stop the run that another process writes to a workspace; nothing happens if it has ended meanwhile.

    Args:
        workspace: The run's workspace.
        hard: Whether to kill the process, and to remove the processes, containers and directories that it leaves;
            otherwise it is asked to stop, and this does not wait for it.

    Raises:
        UsageError: It is a run of this process (`own_run`), or that process plays other runs, too (`several_runs`).
        EnvironmentFault: Another process has locked the log than the one that plays the run (`locked_by_another`), or
            the process cannot be seen (`run_elsewhere`) or signalled from here, does not die, or leaves
            something that cannot be removed (`left_behind`).
    """
    log = EpisodeLayout(workspace).events
    holder = await anyio.to_thread.run_sync(find_holder, log)
    if holder is None:
        if await anyio.to_thread.run_sync(is_free, log):
            return
        raise EnvironmentFault(
            f"The run in {workspace} is going on, but its process cannot be seen from here.",
            code="run_elsewhere",
            hint="Stop it where it runs: as its user, in its container, or on its machine.",
            context={"path": str(workspace)},
        )
    _require_alone(holder, workspace)
    await anyio.to_thread.run_sync(_require_player, holder, workspace)
    try:
        if not hard:
            holder.process.send_signal(signal.SIGINT)
            return
        holder.process.kill()
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied as error:
        raise EnvironmentFault(
            f"The run in {workspace} belongs to {holder}, which this user may not stop.",
            code="run_elsewhere",
            hint="Stop it as the user who started it.",
            context={"path": str(workspace), "pid": holder.process.pid},
        ) from error
    await _until_dead(holder, log)
    await _remove_leftovers(workspace)


def _require_alone(holder: LockHolder, workspace: Path) -> None:
    place = workspace.resolve()
    if holder.process.pid == os.getpid():
        raise UsageError(
            f"The run in {workspace} is one of this process.",
            code="own_run",
            hint="Stop it with the controller that started it, or cancel what plays it.",
            context={"path": str(workspace)},
        )
    others = sorted({str(log.parent) for log in holder.locked if _is_log(log) and not log.is_relative_to(place)})
    if others:
        raise UsageError(
            f"{str(holder).capitalize()}, plays other runs, too, which would end with it: {listed(others, limit=3)}.",
            code="several_runs",
            hint="Stop this run from within that process, or end the process yourself.",
            context={"path": str(workspace), "pid": holder.process.pid, "others": others},
        )


def _require_player(holder: LockHolder, workspace: Path) -> None:
    """Refuse a process that has only locked the file, as any program can.

    A tournament has its run in a directory of its own.
    """
    place = workspace.resolve()
    if not any(_is_log(log) and log.is_relative_to(place) and holder.has_started(log) for log in holder.locked):
        raise EnvironmentFault(
            f"The log of the run in {workspace} is locked by {holder}, which did not begin the run according to that "
            "log. It was not stopped.",
            code="locked_by_another",
            hint=f"The run itself has ended. End that process yourself, if you know it: kill {holder.process.pid}",
            context={"path": str(workspace), "pid": holder.process.pid},
        )


def _is_log(path: Path) -> bool:
    return path.name == EpisodeLayout(path.parent).events.name


async def _until_dead(holder: LockHolder, log: Path) -> None:
    with anyio.move_on_after(_DEATH_SECONDS):
        while not await anyio.to_thread.run_sync(is_free, log):  # noqa: ASYNC110 - another process's
            await anyio.sleep(_LOOK_SECONDS)
        return
    raise EnvironmentFault(
        f"{str(holder).capitalize()}, was killed, and is not gone after {_DEATH_SECONDS:g} s.",
        code="left_behind",
        hint="It waits for a disk or a device; it ends as soon as that answers.",
    )


async def _remove_leftovers(workspace: Path) -> None:
    """Remove what a killed run has left outside of its workspace, and what each of its unfinished episodes has."""
    runs = await anyio.to_thread.run_sync(_unfinished, workspace)
    left: list[str] = []
    for run_id, backend in runs.items():
        swept = await leftovers(backends=[backend] if backend else None, run_id=run_id, apply=True)
        left += [f"{item.found.kind} {item.found.name}: {item.reason}" for item in swept.reaped if not item.removed]
        left += swept.unavailable
    if left:
        raise EnvironmentFault(
            f"The run in {workspace} was killed, but not all that it left could be removed: {listed(left, limit=3)}.",
            code="left_behind",
            hint=Hint("sweep_again", "`coworld_runner.doctor.leftovers` with apply=True tries again."),
            context={"path": str(workspace), "runs": [*runs]},
        )


def _unfinished(workspace: Path) -> dict[str, str]:
    """The ids of a killed run and of its episodes, and the backend of each; empty if it is not known."""
    logs = [EpisodeLayout(workspace).events.name, f"*/{EpisodeLayout(workspace).events.name}"]
    places = [log.parent for pattern in (*logs, f"*/{logs[1]}") for log in workspace.glob(pattern)]
    runs = [run for place in places if (run := read_run(place)) is not None]
    return {run.run_id: run.backend for run in runs if run.run_id and run.status == "lost"}
