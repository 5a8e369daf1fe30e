"""Makes the record of an episode when it is over: from the ledger, or from what a worker process knows."""

from __future__ import annotations

import datetime as dt
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
import anyio.to_thread

import coworld_core
from coworld_core.episode.events import LeakFound, Notice, RunFinished
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.model_use import ModelUse, read_model_use
from coworld_core.episode.outcome import EpisodeStatus, Fault
from coworld_core.episode.record import ArtifactRecord, EpisodeRecord, LeakRecord, SlotRecord, UnitRecord

from ..backend import Backend, ImageInfo
from ..package.plan import EpisodePlan, Seat
from ..runs.workspace import artifact_record, artifact_records
from .episode_inputs import Setup
from .episode_ledger import Ledger, UnitState

__all__ = ["close_record", "make_record", "versions", "write_record"]


def make_record(
    plan: EpisodePlan,
    layout: EpisodeLayout,
    *,
    run_id: str,
    backend: str,
    versions: Mapping[str, str],
    started_at: dt.datetime,
    ended_at: dt.datetime,
    seconds: float,
    status: EpisodeStatus,
    scores: tuple[float, ...],
    results: dict[str, Any] | None,
    faults: Sequence[Fault],
    game: UnitState,
    seats: Mapping[int, UnitState],
    **known: Any,
) -> EpisodeRecord:
    """Make the record of an episode; nothing else makes one.

    Args:
        plan: What was to be played.
        layout: Where its files are.
        run_id: The label of the run.
        backend: The name of where it was played.
        versions: The versions of what played it.
        started_at: When it began.
        ended_at: When it ended.
        seconds: How long it took.
        status: How it ended.
        scores: The scores by slot.
        results: The game's results, if they are valid.
        faults: What went wrong.
        game: The program of the game.
        seats: The programs of the seats, by slot.
        known: Further fields of the record, as far as they are known.
    """
    return EpisodeRecord(
        run_id=run_id,
        coworld=plan.manifest.game.name,
        version=plan.manifest.game.version,
        manifest=plan.source,
        manifest_sha256=plan.manifest_sha256,
        backend=backend,
        variant=plan.variant,
        seed=plan.seed,
        player_secret=plan.player_secret if plan.seed is not None else "",
        game_config=dict(plan.game_config),
        episode_tags=dict(plan.episode_tags),
        hooks=plan.hooks,
        started_at=started_at,
        ended_at=ended_at,
        seconds=seconds,
        status=status,
        scores=scores,
        results=results,
        faults=tuple(faults),
        game=UnitRecord(**_unit_fields(layout, game)),
        slots=tuple(_slot_record(layout, slot, seat, seats.get(slot)) for slot, seat in enumerate(plan.seats)),
        versions=dict(versions),
        **known,
    ).in_workspace(layout.workspace)


async def write_record(setup: Setup, ledger: Ledger, status: EpisodeStatus) -> EpisodeRecord:
    """Make and write the record of an episode that is over; shielded from cancellation."""
    ledger.phases.end()
    artifacts: tuple[ArtifactRecord, ...] = ()
    with anyio.CancelScope(shield=True):
        artifacts = await anyio.to_thread.run_sync(artifact_records, setup.layout)
    record = make_record(
        setup.plan,
        setup.layout,
        run_id=setup.run.bus.run_id,
        backend=setup.backend.name,
        versions=versions(setup.backend),
        started_at=setup.run.started_at,
        ended_at=dt.datetime.now(dt.UTC),
        seconds=ledger.seconds(),
        status=status,
        scores=ledger.scores,
        results=ledger.results,
        faults=ledger.faults,
        game=ledger.game,
        seats=ledger.seats,
        phases=ledger.phases.timings(),
        artifacts=artifacts,
        starvation=ledger.starvation,
        recording=ledger.recording,
        over_seconds=ledger.over_at,
        **_from_events(setup),
    )
    _write(setup, record)
    return record


def close_record(setup: Setup, record: EpisodeRecord) -> EpisodeRecord:
    """Publish the end of the run, and add to the record what is known only then.

    That is the digest of the log of events, and warnings about files that were not removed and listeners that failed.
    """
    setup.run.bus.publish(RunFinished(status=record.status, ok=record.ok, scores=record.scores, seconds=record.seconds))
    layout = setup.layout
    files = {file.path: file for file in record.artifacts}
    # A log on a disk that fails now has warned already
    with suppress(OSError):
        events = artifact_record(layout, layout.events)
        files[events.path] = events
    artifacts = tuple(files[path] for path in sorted(files))
    closed = record.model_copy(update={**_from_events(setup), "artifacts": artifacts}).sealed()
    _write(setup, closed)
    return closed


def _from_events(setup: Setup) -> dict[str, Any]:
    history = setup.run.bus.history
    return {
        # From the flow, from a backend, or from the bus about a listener that failed
        "warnings": tuple(event.message for event in history if isinstance(event, Notice) and event.level == "warning"),
        "leaks": tuple(
            LeakRecord(what=event.what, reason=event.reason) for event in history if isinstance(event, LeakFound)
        ),
    }


def _write(setup: Setup, record: EpisodeRecord) -> None:
    setup.run.reserve.write(setup.layout.record, record.to_document())


def _unit_fields(layout: EpisodeLayout, state: UnitState) -> dict[str, Any]:
    image = state.image
    if not image.digest and state.unit is not None:
        image = replace(image, digest=state.unit.image_digest)
    return {
        "image": image.record(),
        "run": tuple(state.run),
        "exit": state.exit,
        "started_seconds": state.started,
        "ended_seconds": state.ended,
        "logs": tuple(layout.relative(path) for path in state.logs if path.exists()),
        "log_truncated": state.unit.log_truncated if state.unit is not None else False,
        "model_use": state.model_use,
    }


def _slot_record(layout: EpisodeLayout, slot: int, seat: Seat, state: UnitState | None) -> SlotRecord:
    artifact = layout.player_artifact(slot)
    unit = state or UnitState(_without_unit(seat), (), (layout.player_log(slot),))
    if seat.controller == "llm" and unit.started is not None:
        unit.model_use = _known_best(unit.model_use, read_model_use(artifact))
    return SlotRecord(
        **_unit_fields(layout, unit),
        slot=slot,
        name=seat.name,
        player_id=seat.player_id,
        human=seat.runnable is None,
        controller=seat.controller,
        player_version=seat.player_version,
        source="" if seat.own is None else seat.own.source,
        connected=state.connected if state is not None else None,
        artifact=layout.relative(artifact) if artifact.exists() else None,
        secret_env=tuple(sorted(seat.secret_env if unit.unit is None else unit.unit.spec.secret_env)),
    )


def _known_best(counted: ModelUse | None, told: ModelUse) -> ModelUse:
    """What a model was asked: as counted on the way to it if its price is known there; what it got wrong, it tells."""
    return told if counted is None or counted.cost is None else counted.model_copy(update={"refused": told.refused})


def _without_unit(seat: Seat) -> ImageInfo:
    """Describe the image of a seat without a unit: a person's, or a player that the game runs."""
    return ImageInfo(image=seat.image, digest=seat.own.digest if seat.own is not None else "")


def versions(backend: Backend | None = None) -> dict[str, str]:
    """Return the versions of our packages, Python and the platform, and of the engine of a backend."""
    from .._version import __version__

    found = {"coworld-core": coworld_core.__version__, "coworld-runner": __version__}
    found["python"] = platform.python_version()
    found["platform"] = platform.platform()
    engine = backend.engine_version() if backend is not None else None
    if engine:
        found["engine"] = engine
    return found
