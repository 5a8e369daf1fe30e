"""The number of episodes played at a time: a fixed number, or as many as the machine turns out to support."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

import anyio

from coworld_core.errors import UsageError

from ..runs.processors import usable_processors

if TYPE_CHECKING:
    from coworld_core.episode.record import EpisodeRow

__all__ = ["Parallel", "Parallelism", "require_parallel"]

Parallel = int | Literal["auto"]
"""Number of episodes at a time; `auto`: as many as the machine supports."""

_ELSEWHERE = 8
"""Episodes at a time on another machine or a cluster, whose load cannot be measured; surplus units wait there."""
_MOST = 4
"""Maximum episodes per processor: programs that mostly wait use little processor time, but they use memory."""
_IDLE = 0.25
"""Share of the processors' time that must have been idle before the number is increased."""


def require_parallel(parallel: Parallel) -> None:
    """Check a number of episodes at a time.

    Raises:
        UsageError: The number is below 1.
    """
    if parallel != "auto" and parallel < 1:
        raise UsageError("The number of episodes at a time must be at least 1.", code="bad_count")


class Parallelism:
    """Limits the number of episodes that are played at a time.

    `auto` starts with one episode per processor that this process may use. An episode that was short of processors
    reduces the number by one. When as many episodes in a row as are played at a time were not short, and the processors
    were idle enough, the number grows by one. On another machine, `auto` is a fixed number.

    Args:
        parallel: The number of episodes, or `auto`.
        remote: Whether they are played on another machine.
    """

    def __init__(self, parallel: Parallel, *, remote: bool) -> None:
        self._processors = usable_processors()
        self._adapts = parallel == "auto" and not remote
        self._limiter = anyio.CapacityLimiter(
            parallel if parallel != "auto" else _ELSEWHERE if remote else self._processors
        )
        self._ended = 0
        self._times = _processor_times() if self._adapts else (0.0, 0.0)

    @property
    def now(self) -> int:
        """The current number of episodes at a time."""
        return int(self._limiter.total_tokens)

    async def take(self, index: int) -> None:
        """Wait until the episode with this index may start."""
        await self._limiter.acquire_on_behalf_of(index)

    def give_back(self, index: int, row: EpisodeRow | None = None) -> None:
        """Record that an episode has ended or was not started.

        Args:
            index: Its index.
            row: Its row, if it was played.
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
    """Return the idle seconds and the total seconds of the processors that this process may run on."""
    import psutil

    times = psutil.cpu_times(percpu=True)
    if hasattr(os, "sched_getaffinity"):
        may = os.sched_getaffinity(0)
        times = [its for number, its in enumerate(times) if number in may] or times
    return sum(its.idle for its in times), sum(map(sum, times))
