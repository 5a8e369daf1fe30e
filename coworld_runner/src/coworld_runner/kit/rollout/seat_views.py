"""What a seat saw at a tick of a replay: the game is played again up to there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coworld_core.rules import ReplayFormatError, Rules, RulesError, play_again, read_replay

__all__ = ["ReplayMoment", "SeatView", "seat_view"]


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


@dataclass(frozen=True, kw_only=True)
class SeatView:
    """What a seat saw.

    Attributes:
        observation: Its observation, as JSON.
        text: The same as text; None if the rules provide none.
    """

    observation: Any
    text: str | None


def seat_view(rules: type[Rules], moment: ReplayMoment) -> SeatView:
    """Return what a seat saw.

    Raises:
        ReplayFormatError: The replay is damaged, of other rules, or does not play again.
    """
    try:
        play = play_again(rules, read_replay(moment.replay), until=moment.tick)
        return SeatView(observation=play.observation(moment.slot), text=play.text(moment.slot))
    except RulesError as error:
        raise ReplayFormatError(f"The rules do not play the replay again: {error.message}") from error
