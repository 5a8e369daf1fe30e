"""The start of every run: a fresh workspace, a log of events, and the first event."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from coworld_core.episode.events import RunStarted
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.ids import new_run_id

from ..package.plan import EpisodePlan
from ..package.resolver import Package, default_results_dir
from ..runs.event_bus import EventBus, EventLog
from ..runs.lock_holder import process_identity
from ..runs.run_labels import change_labels
from ..runs.workspace import WorkspaceReservation, default_workspace, open_workspace, point_latest, replays_of
from .run_options import RunOptions

__all__ = ["OpenRun", "open_run", "started"]


@dataclass(frozen=True)
class OpenRun:
    """A run in progress: its workspace, its events and its start time."""

    layout: EpisodeLayout
    bus: EventBus
    reserve: WorkspaceReservation
    """Disk space for files that must be written however the run ends."""
    started_at: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    _started: float = field(default_factory=time.monotonic)

    def publish_start(self, event: RunStarted, backend: str) -> None:
        """Publish the first event, with the backend's name, the workspace and this process."""
        pid, start = process_identity() or (os.getpid(), None)
        update = {"backend": backend, "workspace": str(self.layout.workspace), "pid": pid, "process_start": start}
        self.bus.publish(event.model_copy(update=update))

    def seconds(self) -> float:
        """Return the seconds since the run started."""
        return round(time.monotonic() - self._started, 3)


@contextmanager
def open_run(
    options: RunOptions,
    origin: Package | str,
    *,
    below: str = "",
    point_at_once: bool = False,
    marker: str = "",
    keep: int | None = None,
) -> Generator[OpenRun]:
    """Open a workspace for one run, and write its events there as they happen.

    Args:
        options: The workspace, and who reads the events.
        origin: The package that is run, or where its manifest was read from.
        below: The directory of fresh workspaces among the package's results.
        point_at_once: Whether `latest` points at the workspace from the start, not only once there is a replay.
        marker: The name of a file that marks a workspace as one that can be resumed.
        keep: How many past events to keep for late readers; None: all of them.

    Raises:
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The disk is full.
    """
    run_id = options.run_id or new_run_id()
    workspace, latest = options.workspace, options.latest
    if workspace is None:
        results = default_results_dir(origin) if isinstance(origin, str) else origin.default_results_dir()
        workspace, latest = default_workspace(results / below, run_id), True
    with (
        open_workspace(Path(workspace), overwrite=options.overwrite, resume=options.resume, marker=marker) as (
            layout,
            log,
        ),
        WorkspaceReservation(layout.workspace) as reserve,
    ):
        if latest and point_at_once:
            point_latest(layout.workspace.parent, layout.workspace)
        if options.labels:
            change_labels(layout.workspace, options.labels)
        bus = EventBus(run_id, EventLog(log), *options.listeners, keep=keep)
        try:
            yield OpenRun(layout, bus, reserve)
        finally:
            if latest and not point_at_once and replays_of(layout.workspace):
                point_latest(layout.workspace.parent, layout.workspace)


def started(what: Literal["episode", "batch"], plan: EpisodePlan) -> RunStarted:
    """Return the first event of a run that plays a plan, for `OpenRun.publish_start`."""
    return RunStarted(
        what=what,
        coworld=plan.manifest.game.name,
        version=plan.manifest.game.version,
        variant=plan.variant,
        players=tuple(seat.name for seat in plan.seats),
        player_ids=tuple(seat.player_id for seat in plan.seats),
    )
