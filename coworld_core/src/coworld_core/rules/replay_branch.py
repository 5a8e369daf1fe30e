"""A game that goes on in another way from a tick of its replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from .play import Play
from .replay import RulesReplay, read_replay, recorded_actions

__all__ = ["Branch"]


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A game that was played, and from where it goes on in another way.

    Before that tick its players are asked as in any game, so that they know what they would know, but what was recorded
    is done and said.

    Attributes:
        replay: Its replay.
        tick: The tick from which the players' actions count.
        new_chance: The seed of the rules' random numbers from that tick; None: they go on as in the game.
    """

    replay: bytes = field(repr=False)
    tick: int
    new_chance: int | None = None

    @property
    def seed(self) -> int:
        """The seed that the game began with."""
        return _parsed(self.replay).header.seed

    def new_chances(self) -> dict[int, int]:
        """The seeds of the rules' random numbers, as for `Play`."""
        known = {at: seed for at, seed in _parsed(self.replay).header.new_chance.items() if at <= self.tick}
        return known if self.new_chance is None else {**known, self.tick: self.new_chance}

    def holds(self, play: Play) -> bool:
        """Whether what was recorded is done in the present tick."""
        return play.tick < self.tick

    def actions(self, play: Play) -> dict[int, Any] | None:
        """Say what was said in the present tick, and return what was done; None: the players' actions count.

        Raises:
            ReplayDiffers: It is not allowed now.
        """
        return recorded_actions(play, _parsed(self.replay).ticks[play.tick + 1]) if self.holds(play) else None


@lru_cache(maxsize=2)
def _parsed(replay: bytes) -> RulesReplay:
    # Many continuations have the same bytes
    return read_replay(replay)
