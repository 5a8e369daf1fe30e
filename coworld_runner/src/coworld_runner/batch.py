"""Many episodes of one plan: each in a directory of its own, none able to lose the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import anyio

from coworld_core.artifacts import EpisodeLayout
from coworld_core.episode import (
    SUMMARY_NAME,
    BatchEpisode,
    BatchSummary,
    EpisodeRecord,
    PlayerSummary,
    SeatedPlayer,
    read_record,
)
from coworld_core.errors import (
    BackendUnavailable,
    CapabilityError,
    CoworldError,
    EnvironmentFault,
    ImageError,
    UsageError,
)
from coworld_core.events import BatchProgressed, RunFinished
from coworld_core.ids import new_run_id
from coworld_core.outcome import EpisodeStatus

from ._runs import open_run, started
from .backend import Backend
from .episode import EpisodeOptions, run_episode
from .errors import unwrapped
from .events import Listener
from .plan import EpisodePlan, Seat

__all__ = ["run_batch"]

EpisodeListeners = Callable[[int], tuple[Listener, ...]]
"""The readers of one episode's events, by its index from 1."""


async def run_batch(
    plan: EpisodePlan,
    *,
    episodes: int,
    backend: Backend,
    workspace: Path,
    parallel: int = 1,
    options: EpisodeOptions | None = None,
    overwrite: bool = False,
    listeners: tuple[Listener, ...] = (),
    episode_listeners: EpisodeListeners | None = None,
    latest: bool = False,
    run_id: str | None = None,
) -> BatchSummary:
    """Play several episodes, up to ``parallel`` at a time.

    Each has its directory ``episode-0001``, ``episode-0002``, … below the workspace, and a seed by its index. An
    episode that fails is a row of the summary; only what would fail them all (an image that is not to be had, a full
    disk) ends the batch. ``summary.json`` is written on every path and covers what has ended.

    Args:
        plan: What to play.
        episodes: How many, at least 1.
        backend: An entered backend.
        workspace: The directory above the episodes' own; new or empty.
        parallel: How many at a time, at least 1.
        options: How to run each.
        overwrite: Whether a workspace of an earlier run may be emptied first.
        listeners: Readers of the batch's own events (one for each episode that ended).
        episode_listeners: Readers of one episode's events.
        latest: Whether ``latest`` beside the workspace should point at it.
        run_id: Label of the batch's own events; a new one by default. Each episode has a label of its own.

    Returns:
        The summary.

    Raises:
        UsageError: A count below 1.
        WorkspaceError: The workspace is not fresh or not writable.
        EnvironmentFault: The machine or the engine failed; the summary covers what had ended.
    """
    if episodes < 1 or parallel < 1:
        raise UsageError("The number of episodes, and how many at a time, must be at least 1.", code="bad_count")
    rows: list[BatchEpisode] = []
    seats = tuple(SeatedPlayer(name=seat.name, player_id=seat.player_id) for seat in plan.seats)
    status: EpisodeStatus = "interrupted"
    gate = anyio.CapacityLimiter(parallel)
    with open_run(workspace, run_id=run_id, listeners=listeners, overwrite=overwrite, latest=latest) as run:
        layout, bus = run.layout, run.bus
        layout.logs.rmdir()  # the logs are with the episodes
        bus.publish(started("batch", plan, backend, layout.workspace))

        async def one(index: int) -> None:
            async with gate:
                row = await _one(index)
            rows.append(row)
            bus.publish(
                BatchProgressed(
                    index=index, done=len(rows), total=episodes, status=row.status, ok=row.ok, scores=row.scores
                )
            )

        async def _one(index: int) -> BatchEpisode:
            mine = plan.for_episode(index - 1)
            directory = layout.workspace / f"episode-{index:04d}"
            started = time.monotonic()
            run_id = new_run_id()
            try:
                record = await run_episode(
                    mine,
                    backend=backend,
                    workspace=directory,
                    options=options,
                    listeners=episode_listeners(index) if episode_listeners else (),
                    run_id=run_id,
                )
            except (BackendUnavailable, CapabilityError, ImageError, UsageError):
                raise  # the same for every episode
            except CoworldError as error:
                if isinstance(error, EnvironmentFault) and error.code == "disk_full":
                    raise
                written = EpisodeLayout(directory).record
                if written.exists():
                    # it says whose fault it was
                    return _row(index, directory, read_record(written), seats)
                return BatchEpisode(
                    index=index,
                    run_id=run_id,
                    workspace=directory.name,
                    seed=mine.seed,
                    status="failed",
                    ok=False,
                    seats=seats,
                    seconds=round(time.monotonic() - started, 3),
                    error_type="platform_error",
                    fault="platform",
                    message=error.message,
                )
            return _row(index, directory, record, seats)

        try:
            with unwrapped():
                async with anyio.create_task_group() as group:
                    for index in range(1, episodes + 1):
                        group.start_soon(one, index)
            status = "completed" if all(row.status == "completed" for row in rows) else "failed"
        except CoworldError:
            status = "failed"
            raise
        finally:
            rows.sort(key=lambda row: row.index)
            summary = _summary(plan, backend, status, episodes, rows, run.seconds())
            bus.publish(RunFinished(status=status, ok=summary.ok, scores=summary.mean_scores, seconds=summary.seconds))
            run.reserve.write(layout.workspace / SUMMARY_NAME, (summary.model_dump_json(indent=2) + "\n").encode())
    return summary


def _row(index: int, directory: Path, record: EpisodeRecord, seats: tuple[SeatedPlayer, ...]) -> BatchEpisode:
    fault = record.fault
    return BatchEpisode(
        index=index,
        run_id=record.run_id,
        workspace=directory.name,
        seed=record.seed,
        status=record.status,
        ok=record.ok,
        seats=seats,
        scores=record.scores,
        seconds=record.seconds,
        starved=record.starvation.starved if record.starvation is not None else None,
        error_type=fault.error_type if fault is not None else None,
        fault=fault.fault if fault is not None else None,
        slot=fault.slot if fault is not None else None,
        message=fault.message if fault is not None else None,
    )


def _summary(
    plan: EpisodePlan, backend: Backend, status: EpisodeStatus, planned: int, rows: list[BatchEpisode], seconds: float
) -> BatchSummary:
    scored = [row.scores for row in rows if row.status == "completed" and row.scores]
    means = tuple(round(sum(column) / len(scored), 6) for column in zip(*scored, strict=True)) if scored else ()
    return BatchSummary(
        coworld=plan.manifest.game.name,
        version=plan.manifest.game.version,
        backend=backend.name,
        variant=plan.variant,
        status=status,
        planned=planned,
        completed=sum(row.status == "completed" for row in rows),
        faulted=sum(not row.ok for row in rows),
        seconds=seconds,
        mean_scores=means,
        players=_players(plan, scored),
        episodes=tuple(rows),
    )


def _players(plan: EpisodePlan, scored: list[tuple[float, ...]]) -> tuple[PlayerSummary, ...]:
    """Each player with all its seats; the same player is the same program under the same name of its own."""
    groups: list[tuple[Seat, list[int]]] = []
    for slot, seat in enumerate(plan.seats):
        seats = next((slots for first, slots in groups if _same_player(first, seat)), None)
        if seats is None:
            groups.append((seat, [slot]))
        else:
            seats.append(slot)
    players: list[PlayerSummary] = []
    for seat, slots in groups:
        scores = [row[slot] for row in scored for slot in slots]
        players.append(
            PlayerSummary(
                name=seat.player_name or seat.name,
                player_id=seat.player_id,
                image=seat.runnable.image if seat.runnable is not None else "",
                seats=tuple(slots),
                episodes=len(scored),
                mean_score=round(sum(scores) / len(scores), 6) if scores else None,
            )
        )
    return tuple(players)


def _same_player(one: Seat, other: Seat) -> bool:
    return (
        one.runnable is not None
        and one.runnable == other.runnable
        and one.player_id == other.player_id
        and (one.player_name or one.name) == (other.player_name or other.name)
    )
