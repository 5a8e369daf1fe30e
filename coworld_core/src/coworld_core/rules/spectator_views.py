"""What spectators may see of a game, and when; they need no token, so players may be among them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Delayed", "Hidden", "Open", "Spectating"]


@dataclass(frozen=True)
class Open:
    """Spectators see the present state of the game."""

    def describe(self) -> dict[str, str | int]:
        """The value as sent to spectators."""
        return {"kind": "open"}


@dataclass(frozen=True, kw_only=True)
class Delayed:
    """Spectators see an earlier state of the game until it is over; before that state exists, they see nothing.

    Attributes:
        ticks: How many ticks earlier, at least 1.

    Raises:
        ValueError: If `ticks` is less than 1 or not a whole number.
    """

    ticks: int

    def __post_init__(self) -> None:
        if type(self.ticks) is not int or self.ticks < 1:
            raise ValueError(f"ticks must be a whole number of at least 1, got {self.ticks!r}")

    def describe(self) -> dict[str, str | int]:
        """The value as sent to spectators."""
        return {"kind": "delayed", "ticks": self.ticks}


@dataclass(frozen=True)
class Hidden:
    """Spectators see nothing but the number of ticks until the game is over."""

    def describe(self) -> dict[str, str | int]:
        """The value as sent to spectators."""
        return {"kind": "hidden"}


Spectating = Open | Delayed | Hidden
"""What spectators may see."""
