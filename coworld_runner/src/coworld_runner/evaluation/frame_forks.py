"""Continues an episode of a game that is not of the kit: its seats send what was recorded, and then its players act."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.errors import CapabilityError, UsageError
from coworld_core.hints import Hint
from coworld_core.records.samples import iter_frames

from ..package.own_players.own_player import PYTHON, OwnPlayer
from ..package.own_players.recorded_player import sent_frames
from ..package.plan import EpisodePlan, Seat
from ..package.resolver import Package

__all__ = ["forked_plan", "last_tick", "require_processes"]

_FILE = "fork.json"


def require_processes(backend: str, plan: EpisodePlan) -> None:
    """Check that seats can be taken over: their programs have to run on this machine.

    Raises:
        CapabilityError: They run in containers, or are not programs.
    """
    others = [seat.name for seat in plan.seats if not seat.has_unit or (seat.own is None and seat.player_id is None)]
    if backend != "process" or others:
        why = f"{others[0]} is no such program" if others else f"this one ran on {backend}"
        raise CapabilityError(
            f"A game that is not of the kit is continued by programs on this machine, and {why}.",
            hint=Hint(
                "fork_processes", 'Play it as processes (backend="process") with record="frames", and fork that.'
            ),
        )


def last_tick(layout: EpisodeLayout) -> int:
    """The last tick that the game told its seats.

    Raises:
        UsageError: Code `no_ticks`: its messages tell none.
    """
    ticks = [frame.tick for frame in iter_frames(layout.frames) if frame.tick is not None]
    if not ticks:
        raise UsageError(
            "The game cannot be continued from a tick, because its messages tell none.",
            code="no_ticks",
            hint="Only messages that are JSON objects with `tick` say where a game is.",
        )
    return max(ticks)


def forked_plan(plan: EpisodePlan, package: Package, layout: EpisodeLayout, *, tick: int) -> EpisodePlan:
    """The plan of a continuation: each seat sends what was recorded, until the game tells it of a tick.

    Args:
        plan: Who plays, and the config.
        package: The Coworld.
        layout: The episode's files, with its frames.
        tick: The tick from which players act.

    Raises:
        UsageError: The frames cannot be read, or are not there as a whole.
    """
    seats = tuple(
        _forked(seat, package, sent_frames(layout.frames, slot), takes_over=tick)
        for slot, seat in enumerate(plan.seats)
    )
    return replace(plan, seats=seats)


def _forked(seat: Seat, package: Package, frames: list[dict[str, Any]], *, takes_over: int) -> Seat:
    runnable, own = seat.runnable, seat.own
    assert runnable is not None
    files: Mapping[str, bytes] = own.files if own is not None else {}
    told = {
        "controller": "fork",
        "frames": frames,
        "takes_over": takes_over,
        "command": list(own.command if own is not None else runnable.run),
        # What is bundled runs where its package is
        "directory": "" if own is not None else str(package.contexts[runnable.image]),
    }
    wrapped = OwnPlayer(
        name=own.name if own is not None else seat.name,
        file=own.file if own is not None else str(seat.player_id),
        path=own.path if own is not None else Path(str(seat.player_id)),
        files={**files, _FILE: json.dumps(told).encode()},
        runnable=own.runnable if own is not None else frozenset(),
        command=(PYTHON, "-m", "coworld_client.seat", f"{{}}/{_FILE}"),
        needs_client=True,
        secret_env=own.secret_env if own is not None else {},
    )
    return replace(seat, own=wrapped)
