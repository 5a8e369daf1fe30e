"""Where two games part that began alike: the first tick in which a seat did something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .rules_errors import ReplayFormatError

if TYPE_CHECKING:
    from .replay import RulesReplay

__all__ = ["ReplayDifference", "first_difference"]

_SAME_GAME = ("rules", "version", "config", "seed", "seats")


@dataclass(frozen=True, kw_only=True)
class ReplayDifference:
    """Where two games part.

    Attributes:
        tick: Number of ticks played before; up to there, both are the same game.
        actions: What was done next in the first game and in the second, for each seat in which that differs.
        drawing: The board as spectators saw it.
    """

    tick: int
    actions: Mapping[int, tuple[Any, Any]]
    drawing: str


def first_difference(one: RulesReplay, other: RulesReplay) -> ReplayDifference | None:
    """Find the first tick in which something else was done in one game than in another with the same seed.

    Returns:
        Where they part; None if one is the beginning of the other.

    Raises:
        ReplayFormatError: Code `replays_unlike` if they are not of the same game, config and seed, or if they differ
            although the same was done, as chance in them does not follow from the seed.
    """
    for name in _SAME_GAME:
        if (here := getattr(one.header, name)) != (there := getattr(other.header, name)):
            raise _unlike(f"The {name} of the two games is not the same: {here!r} and {there!r}.")
    for tick, (here, there) in enumerate(zip(one.ticks, other.ticks, strict=False)):
        if here.actions != there.actions:
            seats = sorted({*here.actions, *there.actions})
            pairs = {seat: (here.actions.get(seat), there.actions.get(seat)) for seat in seats}
            apart = {seat: pair for seat, pair in pairs.items() if pair[0] != pair[1]}
            return ReplayDifference(tick=tick - 1, actions=apart, drawing=one.ticks[tick - 1].drawing if tick else "")
        views = [(one.to_act, one.drawing, one.scores, one.rewards) for one in (here, there)]
        if views[0] != views[1]:
            raise _unlike(f"At tick {tick} the two games differ although the same was done in both.")
    return None


def _unlike(message: str) -> ReplayFormatError:
    return ReplayFormatError(message, code="replays_unlike")
