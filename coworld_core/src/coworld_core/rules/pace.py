"""The pace of a game: it either waits for the seats that are to act or advances at a fixed rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Pace", "Ticks", "Turns"]


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The game waits for all seats in `Rules.to_act`; each seat has a clock.

    Attributes:
        per_move: Seconds for one move, above 0; unused time is lost.
        bank: Additional seconds for the whole episode, used when a move takes longer.

    Raises:
        ValueError: If a time is negative or not finite, or if `per_move` is 0.
    """

    per_move: float = 30.0
    bank: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.per_move < math.inf and 0 <= self.bank < math.inf):
            raise ValueError(f"per_move must be above 0 and bank at least 0, got {self.per_move} and {self.bank}")

    def describe(self) -> dict[str, str | float]:
        """The pace as sent to players."""
        return {"kind": "turns", "per_move": self.per_move, "bank": self.bank}


@dataclass(frozen=True, kw_only=True)
class Ticks:
    """The game advances at a fixed rate, with the actions received so far.

    Attributes:
        hz: Ticks per second, above 0 and at most 1000.
        hold: Whether a silent seat repeats its last action, if that is still legal. Otherwise, and before its first
            action, it gets `Rules.default`. Pages then do what is held down again in each tick, until it is let go.

    Raises:
        ValueError: If the rate is out of range.
    """

    hz: float
    hold: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.hz <= 1000:
            raise ValueError(f"hz must be above 0 and at most 1000, got {self.hz}")

    def describe(self) -> dict[str, str | float]:
        """The pace as sent to players."""
        return {"kind": "ticks", "hz": self.hz, "hold": self.hold}


Pace = Turns | Ticks
"""How a game advances."""
