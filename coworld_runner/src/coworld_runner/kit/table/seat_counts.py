"""How often each seat of a game acted, was idle or was refused, where nobody reads single events."""

from __future__ import annotations

from typing import Any

from coworld_core.episode.seat_behaviour import SeatBehaviour
from coworld_core.episode.seat_event_kinds import IDLE, REFUSED

__all__ = ["SeatCounts"]


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
