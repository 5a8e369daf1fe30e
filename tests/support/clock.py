"""Sets the event loop's clock forward, so that a test need not wait for a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["skip"]


class _Ahead:
    """A clock that is some seconds ahead of another."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.seconds = 0.0

    def __call__(self) -> float:
        return self._now() + self.seconds


def skip(seconds: float) -> None:
    """Set the running event loop's clock forward, for the rest of its life.

    Deadlines and timers of the loop are affected; other processes and ``time.monotonic`` are not. Use it only where
    nothing but a deadline of this process can happen next.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop.time, _Ahead):
        loop.time = _Ahead(loop.time)  # type: ignore[method-assign]
    loop.time.seconds += seconds
