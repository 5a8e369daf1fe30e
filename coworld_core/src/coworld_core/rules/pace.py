"""How time passes in a game, as a value: it waits for those who are to act, or it goes on without them."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Pace", "Ticks", "Turns"]


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The game waits for all seats in `Rules.to_act`, and each seat has a clock.

    Attributes:
        per_move: Seconds for one move, above 0; what is left of them is lost.
        bank: Seconds beside them for the whole episode, taken when a move needs longer.

    Raises:
        ValueError: A time is negative or no number, or there is none for a move.
    """

    per_move: float = 30.0
    bank: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.per_move < math.inf and 0 <= self.bank < math.inf):
            raise ValueError(f"per_move must be above 0 and bank not below, got {self.per_move} and {self.bank}")

    def describe(self) -> dict[str, str | float]:
        """The pace as players are told it."""
        return {"kind": "turns", "per_move": self.per_move, "bank": self.bank}


@dataclass(frozen=True, kw_only=True)
class Ticks:
    """The game advances at a fixed rate, with the actions received so far.

    Attributes:
        hz: Ticks in a second, above 0 and at most 1000.
        hold: Whether a seat that says nothing goes on with its last action, where that is still legal; else, and before
            its first action, it does `Rules.default`.

    Raises:
        ValueError: The rate is out of range.
    """

    hz: float
    hold: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.hz <= 1000:
            raise ValueError(f"hz must be above 0 and at most 1000, got {self.hz}")

    def describe(self) -> dict[str, str | float]:
        """The pace as players are told it."""
        return {"kind": "ticks", "hz": self.hz}


Pace = Turns | Ticks
"""How time passes."""
