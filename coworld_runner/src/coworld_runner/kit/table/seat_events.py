"""What is noted of the seats of a game: who acted, was idle or was refused, as events or only counted."""

from __future__ import annotations

from typing import Any, Final, Protocol

from coworld_core.episode.seat_behaviour import SeatBehaviour
from coworld_core.episode.seat_event_kinds import ACTED, IDLE, REFUSED

from .seat_messages import compact

__all__ = ["SeatCounts", "SeatEvents", "SeatLog"]

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


class SeatCounts:
    """How often each seat acted, was idle or was refused, where nobody reads single events.

    Args:
        seats: The number of seats.
    """

    def __init__(self, seats: int) -> None:
        self._counts: list[dict[str, int]] = [{} for _ in range(seats)]
        self._seconds: list[dict[float, int]] = [{} for _ in range(seats)]

    def add(self, tick: int, kind: str, slot: int, **more: Any) -> None:
        """Count an event."""
        del tick, more
        counts = self._counts[slot]
        counts[kind] = counts.get(kind, 0) + 1

    def acted(self, tick: int, slot: int, seconds: float) -> None:
        """Count an action."""
        del tick
        took, key = self._seconds[slot], float(f"{seconds:.2g}")
        took[key] = took.get(key, 0) + 1

    @property
    def faltered(self) -> bool:
        """Whether a seat missed a turn or had an action refused."""
        return any(IDLE in count or REFUSED in count for count in self._counts)

    @property
    def behaviour(self) -> tuple[SeatBehaviour, ...]:
        """What each seat did."""
        return tuple(
            SeatBehaviour.model_construct(
                acted=sum(seconds.values()),
                idle=count.get(IDLE, 0),
                refused=count.get(REFUSED, 0),
                seconds=tuple(sorted(seconds.items())),
            )
            for count, seconds in zip(self._counts, self._seconds, strict=True)
        )
