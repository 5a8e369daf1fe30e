"""Gives an episode the newest versions of the players that are named `name:latest`."""

from __future__ import annotations

import dataclasses

from coworld_core.errors import UsageError

from .plan import EpisodePlan, Seat

__all__ = ["with_newest_players"]


def with_newest_players(plan: EpisodePlan) -> EpisodePlan:
    """Return the plan of an episode that begins now. Reads the user's registry, so it may block.

    Args:
        plan: A plan; if no player is named `name:latest`, it is returned as it is.

    Raises:
        UsageError: A name is gone from the registry, or its newest version is an image and the one with which the run
            began was not, or the other way round (`version_kind_changed`).
        EnvironmentFault: The files of a version are not what was published.
    """
    if not any(seat.follows for seat in plan.seats):
        return plan
    return dataclasses.replace(plan, seats=tuple(map(_with_newest, plan.seats)))


def _with_newest(seat: Seat) -> Seat:
    before = seat.registered
    if before is None or not before.follows or seat.runnable is None:
        return seat
    newest = before.newest()
    if newest.version == before.version:
        return seat
    own = newest.read()
    if (own is None) != (seat.own is None):
        raise UsageError(
            f"{seat.follows} is {newest.version.label} now ({newest.version.kind}), and this run began with "
            f"{before.version.label} ({before.version.kind}).",
            code="version_kind_changed",
            hint="Start another run, or name the version.",
        )
    if own is None or seat.own is None:
        update = {"image": newest.version.source, "run": newest.version.run or seat.runnable.run}
        return dataclasses.replace(seat, registered=newest, runnable=seat.runnable.model_copy(update=update))
    own = dataclasses.replace(own, python=seat.own.python)
    runnable = seat.runnable.model_copy(update={"run": own.shown()})
    return dataclasses.replace(seat, registered=newest, own=own, runnable=runnable)
