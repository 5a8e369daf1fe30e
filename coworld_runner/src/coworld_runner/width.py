"""How many episodes are played at a time: as many as were asked for, or as many as the machine is seen to bear."""

from __future__ import annotations

import os
from typing import Literal

import anyio

from coworld_core.episode.record import EpisodeRow
from coworld_core.errors import UsageError

__all__ = ["Parallel", "Width", "require_parallel"]

Parallel = int | Literal["auto"]
"""Episodes at a time; ``auto``: as many as the machine bears."""

_ELSEWHERE = 8
"""At a time on another machine or a cluster, whose load cannot be seen; what has no room there waits."""
_MOST = 4
"""For each processor: programs that mostly wait take little of one, but they take memory."""
_IDLE = 0.25
"""Share of the processors' time that must have been left over for one more at a time."""


def require_parallel(parallel: Parallel) -> None:
    """Refuse what is no number of episodes at a time.

    Raises:
        UsageError: It is below 1.
    """
    if parallel != "auto" and parallel < 1:
        raise UsageError("The number of episodes at a time must be at least 1.", code="bad_count")


class Width:
    """Lets so many episodes begin as may be played at a time.

    ``auto`` begins with one for each processor. When as many have ended as are played at a time, none was short of
    processors and time of theirs was left over, there is one more; with each that was short there is one less.

    Args:
        parallel: How many, or ``auto``.
        remote: Whether they are played on another machine.
    """

    def __init__(self, parallel: Parallel, *, remote: bool) -> None:
        self._processors = os.cpu_count() or 1
        self._adapts = parallel == "auto" and not remote
        self._limiter = anyio.CapacityLimiter(
            parallel if parallel != "auto" else _ELSEWHERE if remote else self._processors
        )
        self._ended = 0
        self._times = _processor_times() if self._adapts else (0.0, 0.0)

    @property
    def now(self) -> int:
        """How many at a time at present."""
        return int(self._limiter.total_tokens)

    async def take(self, index: int) -> None:
        """Wait until one more may begin, which is known by its number."""
        await self._limiter.acquire_on_behalf_of(index)

    def give_back(self, index: int, row: EpisodeRow | None = None) -> None:
        """One has ended, or did not begin.

        Args:
            index: Its number.
            row: What came of it, if it was played.
        """
        if self._adapts and row is not None:
            self._learn(starved=bool(row.starved))
        self._limiter.release_on_behalf_of(index)

    def _learn(self, *, starved: bool) -> None:
        self._ended += 1
        if not starved and self._ended < self.now:
            return
        before, self._times = self._times, _processor_times()
        self._ended = 0
        if starved:
            self._limiter.total_tokens = max(1, self.now - 1)
            return
        idle, spent = (new - old for new, old in zip(self._times, before, strict=True))
        if spent > 0 and idle / spent >= _IDLE:
            self._limiter.total_tokens = min(self.now + 1, self._processors * _MOST)


def _processor_times() -> tuple[float, float]:
    """Seconds that the machine's processors were idle, and had in all."""
    import psutil

    times = psutil.cpu_times()
    return times.idle, sum(times)
