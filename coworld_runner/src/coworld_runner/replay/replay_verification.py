"""Checks the replays of finished episodes, and adds the result to their records."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

from coworld_core.episode.events import FaultSeen, Notice, PhaseFinished, PhaseStarted
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import ErrorType, Fault
from coworld_core.episode.record import SUMMARY_NAME, BatchSummary, EpisodeRecord, read_record
from coworld_core.errors import EpisodeError

from ..backend import Backend
from ..package.plan import EpisodePlan
from ..package.viewer_bundle import bundle_in
from ..runs.event_bus import EventBus, Listener
from ..runs.workspace import artifact_records, atomic_write
from .replay_session import ReplayOptions, verify_replay
from .viewer_check import check_viewer

__all__ = ["verify_batch_replays", "verify_episode_replay"]

_PHASE = "verify_replay"


async def verify_episode_replay(
    plan: EpisodePlan,
    record: EpisodeRecord,
    *,
    workspace: Path,
    backend: Backend,
    options: ReplayOptions | None = None,
    listeners: tuple[Listener, ...] = (),
) -> EpisodeRecord:
    """Check that the replay of an episode can be shown: by the package's static viewer if it has one, else by the game.

    A viewer is checked as in a certification: in a browser if one is installed, else only its files.

    Args:
        plan: The episode's plan.
        record: The episode's record; returned unchanged unless the episode was completed.
        workspace: The episode's directory; `episode.json` is rewritten if the record changes.
        backend: An entered backend.
        options: How the game is started in replay mode.
        listeners: Readers of the events.

    Returns:
        The record, with a fault of the game (`replay_missing` or `replay_unloadable`) if it cannot be shown.

    Raises:
        BackendError: The engine failed.
    """
    if record.status != "completed":
        return record
    layout = EpisodeLayout(workspace)
    bus = EventBus(record.run_id, *listeners)
    fault: Fault | None = None
    if not layout.replay.is_file():
        fault = _fault(
            "replay_missing",
            "The game wrote no replay.",
            "Write the replay to COGAME_SAVE_REPLAY_URI before ending.",
        )
    else:
        bus.publish(PhaseStarted(phase=_PHASE))
        try:
            took = await _show(plan, layout, backend, bus, options or ReplayOptions())
            bus.publish(PhaseFinished(phase=_PHASE, seconds=took))
        except EpisodeError as error:
            tail = error.context.get("log_tail")
            fault = _fault(
                "replay_unloadable",
                error.message,
                error.hint,
                log_tail=tail if isinstance(tail, str) else "",
                log=layout.relative(log) if (log := layout.logs / "replay.stderr.log").exists() else None,
            )
    if fault is not None:
        bus.publish(FaultSeen(fault=fault))
    changed = record.model_copy(
        update={
            "faults": (*record.faults, *((fault,) if fault else ())),
            "artifacts": artifact_records(layout),  # Now with the logs of the replay
        }
    ).sealed()
    atomic_write(layout.record, changed.to_document())
    return changed


async def _show(
    plan: EpisodePlan, layout: EpisodeLayout, backend: Backend, bus: EventBus, options: ReplayOptions
) -> float:
    """Have the viewer, or else the game, show the replay; returns how many seconds that took.

    Raises:
        EpisodeError: The replay cannot be shown; code `replay_unloadable`.
    """
    viewer = plan.manifest.game.replay_viewer
    directory = bundle_in(plan.directory, viewer)
    if directory is not None and not directory.is_dir():
        bus.publish(Notice(message="The replay viewer is not built, so the game itself is to show the replay."))
        directory = None
    if viewer is None or directory is None:
        return await verify_replay(
            plan.manifest, layout.replay, backend=backend, publish=bus.publish, options=options, logs=layout.logs
        )
    begun = time.monotonic()
    packed = viewer.replay_compression == "gzip"
    issues = await check_viewer(directory, layout.replay, packed=packed, seconds=options.ready_timeout)
    errors = [issue for issue in issues if issue.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise EpisodeError(f"{errors[0].message}{more}", code="replay_unloadable", hint=errors[0].hint)
    for issue in issues:
        if issue.severity == "warning":
            bus.publish(Notice(message=issue.message))
    return round(time.monotonic() - begun, 3)


async def verify_batch_replays(
    plan: EpisodePlan,
    summary: BatchSummary,
    *,
    workspace: Path,
    backend: Backend,
    options: ReplayOptions | None = None,
    listeners: tuple[Listener, ...] = (),
) -> BatchSummary:
    """Check the replay of every completed episode of a batch, one after the other.

    Returns:
        The summary with the faults found; `summary.json` is rewritten.

    Raises:
        BackendError: The engine failed.
    """
    rows = list(summary.episodes)
    for place, row in enumerate(rows):
        if row.status != "completed":
            continue
        directory = workspace / row.workspace
        record = read_record(directory)
        record = await verify_episode_replay(
            plan, record, workspace=directory, backend=backend, options=options, listeners=listeners
        )
        fault = record.fault
        if row.ok and fault is not None:
            rows[place] = row.model_copy(
                update={
                    "ok": False,
                    "error_type": fault.error_type,
                    "party": fault.party,
                    "fault_slot": fault.slot,
                    "message": fault.message,
                }
            )
    changed = summary.model_copy(
        update={"episodes": tuple(rows), "faulted": sum(not row.ok for row in rows)},
    )
    atomic_write(workspace / SUMMARY_NAME, changed.to_document())
    return changed


def _fault(
    error_type: ErrorType, message: str, hint: str | None, *, log_tail: str = "", log: str | None = None
) -> Fault:
    return Fault(
        party="game",
        error_type=error_type,
        message=message,
        hint=hint,
        phase=_PHASE,
        time=dt.datetime.now(dt.UTC),
        log=log,
        log_tail=log_tail,
    )
