"""Measures on from a store alone: follows the run there to its report, and drives it if nobody else does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread

from coworld_core.errors import UsageError
from coworld_core.evaluation.evaluation_files import (
    MARKDOWN_NAME,
    PLAN_NAME,
    PLAYERS_NAME,
    REPORT_NAME,
    open_evaluation,
    read_plan,
)
from coworld_core.evaluation.report_contents import ShownReport
from coworld_core.hints import Hint

from ..evaluation.entrants import entrants_of_plan
from ..evaluation.evaluation_run import play_evaluation
from ..runs.event_bus import Listener
from .job_files import PACKAGE, PlayersSent, bring_archive, no_run, read_object, read_run, seat_word, sent_package
from .job_pods import JobPods
from .job_store import JobStore
from .job_venue import JobVenue
from .pulled_run import make_place

__all__ = ["attend_run"]

_SENT = "sent"
"""The directory with the package and the players as they were sent."""


async def attend_run(
    url: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    at_once: int | None = None,
    pods: JobPods | None = None,
    listeners: Sequence[Listener] = (),
) -> ShownReport:
    """Follow a measurement that was detached, and see it to its end.

    If nobody drives it any more, this side does, as long as there are pods to play.

    Args:
        url: Its store.
        directory: Where its plan, its rows and its report are kept: a directory of its own.
        at_once: How many chunks are played at a time, if this side drives.
        pods: What plays, if this side drives; None: whoever does already.
        listeners: Readers of the events of the measurement.

    Returns:
        The report, which is in the store then, too.

    Raises:
        UsageError: There is no run, or it was not detached, or the directory has something else in it.
        CoworldError: As `JobVenue.play`.
    """
    store, place = JobStore(url), Path(directory)
    run = await read_run(store)
    plan = await store.get(PLAN_NAME)
    sent = await read_object(store, PLAYERS_NAME, PlayersSent, what="players")
    if run is None:
        raise no_run(store)
    if plan is None or sent is None:
        raise UsageError(
            f"The run at {store} was not detached, so it does not say who plays.",
            code="not_detached",
            hint=Hint("detach_run", "Whoever began it goes on with it, or detaches it (detach)."),
        )
    await anyio.to_thread.run_sync(make_place, place, plan)
    for name in (PACKAGE, *{files.archive for files in sent.players.values() if files.archive}):
        await bring_archive(store, name, place / _SENT / Path(name).stem)
    package = await sent_package(run, place / _SENT / "package")
    measured = read_plan(place)
    entrants = entrants_of_plan(package, measured, lambda slot: seat_word(slot, sent.players, place / _SENT, run))
    async with JobVenue(
        package,
        url,
        at_once=at_once,
        pods=pods,
        lease=run.lease_seconds,
        programs=run.programs,
        isolated=run.isolated,
    ) as venue:
        report = await play_evaluation(
            open_evaluation(measured),
            entrants,
            workspace=place,
            venue=venue,
            options=run.episode_options(),
            listeners=tuple(listeners),
        )
    for name in (REPORT_NAME, MARKDOWN_NAME):
        await store.put(name, place / name)
    return report
