"""What a seat saw at a tick of a replay, asked of a worker process: the game is played again up to there."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ReplayMoment"]


@dataclass(frozen=True, kw_only=True)
class ReplayMoment:
    """A seat at a tick of a replay.

    Attributes:
        replay: The replay.
        tick: The tick.
        slot: The seat.
    """

    replay: bytes = field(repr=False)
    tick: int
    slot: int
