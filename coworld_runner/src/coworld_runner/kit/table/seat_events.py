"""What is noted of the seats of a game: who acted, was idle or was refused, turn by turn, as events that it writes."""

from __future__ import annotations

from typing import Any, Final, Protocol

from coworld_core.episode.seat_event_kinds import ACTED

from .compact_json import compact

__all__ = ["SeatEvents", "SeatLog"]

MAX_EVENTS: Final = 100_000
"""Maximum number of events of a game, about six megabytes, divided evenly among the seats."""

LONG_TEXT: Final = 50


class SeatLog(Protocol):
    """Takes what is to be noted."""

    def add(self, tick: int, kind: str, slot: int, **more: Any) -> None:
        """Note what a seat did, by the kinds and fields of events (`coworld_core.episode.seat_behaviour`)."""
        ...

    def acted(self, tick: int, slot: int, seconds: float) -> None:
        """Note that a seat acted, and the seconds that it took."""
        ...


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

    def acted(self, tick: int, slot: int, seconds: float) -> None:
        """Add the event that a seat acted."""
        self.add(tick, ACTED, slot, seconds=round(seconds, 6))

    def __bytes__(self) -> bytes:
        """The events as JSON objects, one per line."""
        return "".join(f"{line}\n" for line in self._lines).encode()
