"""The start of every run: a fresh workspace, a log of events, and the first event."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from coworld_core.episode.artifacts import EpisodeLayout
from coworld_core.episode.events import RunStarted
from coworld_core.ids import new_run_id

from ..backend import Backend
from ..plan import EpisodePlan
from .events import EventBus, EventLog, Listener
from .workspace import Reserve, open_workspace, point_latest, replays_of

__all__ = ["OpenRun", "open_run", "started"]


@dataclass(frozen=True)
class OpenRun:
    """A run in progress: its workspace, its events and its start time."""

    layout: EpisodeLayout
    bus: EventBus
    reserve: Reserve
    """Disk space for files that must be written however the run ends."""
    begun_at: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    _begun: float = field(default_factory=time.monotonic)

    def seconds(self) -> float:
        """Return the seconds since the run started."""
        return round(time.monotonic() - self._begun, 3)


@contextmanager
def open_run(
    workspace: Path,
    *,
    run_id: str | None,
    listeners: tuple[Listener, ...],
    overwrite: bool,
    latest: bool,
    resume: str = "",
    keep: int | None = None,
) -> Generator[OpenRun]:
    """Open a workspace for one run, and write its events there as they happen.

    Args:
        workspace: The directory for the evidence; it must be new or empty.
        run_id: The run's label; None: a new one.
        listeners: Readers of its events.
        overwrite: Whether what an earlier run has left in the workspace is removed first.
        latest: Whether to point ``latest`` beside the workspace at it, once there is a replay.
        resume: The name of a file that marks a workspace as one to resume in; empty: it must be fresh.
        keep: How many past events to keep for late readers; None: all of them.

    Raises:
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The disk is full.
    """
    with (
        open_workspace(workspace, overwrite=overwrite, resume=resume) as layout,
        Reserve(layout.workspace) as reserve,
        EventLog(layout.events) as log,
    ):
        bus = EventBus(run_id or new_run_id(), log, *listeners, keep=keep)
        try:
            yield OpenRun(layout, bus, reserve)
        finally:
            bus.close()
            if latest and replays_of(layout.workspace):
                point_latest(layout.workspace.parent, layout.workspace)


def started(what: Literal["episode", "batch"], plan: EpisodePlan, backend: Backend, workspace: Path) -> RunStarted:
    """Return the first event of a run that plays a plan."""
    return RunStarted(
        what=what,
        coworld=plan.manifest.game.name,
        version=plan.manifest.game.version,
        backend=backend.name,
        variant=plan.variant,
        players=tuple(seat.name for seat in plan.seats),
        player_ids=tuple(seat.player_id for seat in plan.seats),
        workspace=str(workspace),
    )
