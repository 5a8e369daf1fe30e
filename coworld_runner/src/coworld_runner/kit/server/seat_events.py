"""The events that a game writes about its seats: who acted, was idle or was refused, turn by turn."""

from __future__ import annotations

from typing import Any, Final

from .outbox import compact

__all__ = ["SeatEvents"]

MAX_EVENTS: Final = 100_000
"""Maximum number of events of a game, about six megabytes, divided evenly among the seats."""

LONG_TEXT: Final = 50


class SeatEvents:
    """What each seat did in each of its turns (`coworld_core.episode.seat_behaviour`).

    Args:
        seats: The number of seats.
    """

    def __init__(self, seats: int) -> None:
        self._lines: list[str] = []
        self._left = [MAX_EVENTS // seats] * seats

    def add(self, tick: int, kind: str, slot: int, **more: Any) -> None:
        """Add an event of a seat."""
        if self._left[slot] > 0:
            # A long text counts as several
            self._left[slot] -= 1 + len(more.get("text", "")) // LONG_TEXT
            self._lines.append(compact({"tick": tick, "kind": kind, "agent": slot, **more}))

    def __bytes__(self) -> bytes:
        """The events as JSON objects, one per line."""
        return "".join(f"{line}\n" for line in self._lines).encode()
