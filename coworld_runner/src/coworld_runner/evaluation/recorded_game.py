"""What a record says of its game: whether it may be executed because of the record, and how it was planned."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from coworld_core.episode.record import EpisodeRecord
from coworld_core.errors import ManifestError, UsageError
from coworld_core.manifest.game_config import named_players

from ..package.locations import read_location
from ..package.plan import EpisodePlan, plan_episode
from ..package.resolver import Package

__all__ = ["plan_of_record", "reason_not_to_play"]


def reason_not_to_play(record: EpisodeRecord, workspace: Path) -> tuple[str, str] | None:
    """Code and words why the game that a record names is not executed, unless it is named; None if it may be.

    Nothing that comes with a run is executed: whoever sent it could have written it.
    """
    try:
        path = read_location(record.manifest, what="manifest").path
    except UsageError:
        path = None
    if path is None or not Path(record.manifest).is_absolute():
        return "game_unknown", "its record names no game on this machine; name the game"
    if _resolved(path).is_relative_to(workspace.resolve()):
        return "game_brought", "its game lies in its own directory; name the game to have it executed"
    return None


@lru_cache(64)
def _resolved(path: Path) -> Path:
    return path.resolve()


def plan_of_record(
    package: Package, record: EpisodeRecord, players: Sequence[str], *, new: Collection[int] = ()
) -> EpisodePlan:
    """The plan of an episode as it was: config, names and the players' seeds are those of its record.

    Args:
        package: The Coworld.
        record: The record.
        players: Who plays, by seat, as `read_players` reads it.
        new: Seats whose players are others, with their own names.

    Raises:
        UsageError: There is no such player, or their number is wrong.
    """
    known = {variant.id for variant in package.manifest.variants}
    plan = plan_episode(package, variant=record.variant if record.variant in known else None, players=players)
    seats = tuple(
        seat if slot in new else replace(seat, name=was.name)
        for slot, (seat, was) in enumerate(zip(plan.seats, record.slots, strict=True))
    )
    config = record.game_config
    if new:
        # A config that cannot take other names keeps those of the game
        with suppress(ManifestError):
            config = named_players(package.manifest, config, [seat.name for seat in seats])
    return replace(plan, game_config=config, seats=seats, player_secret=record.player_secret)
