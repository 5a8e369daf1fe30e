"""Sets the event loop's clock forward, so that a test need not wait for a deadline."""

from __future__ import annotations

import asyncio

__all__ = ["skip"]


def skip(seconds: float) -> None:
    """Set the running event loop's clock forward, for the rest of its life.

    Deadlines and timers of the loop are affected; other processes and ``time.monotonic`` are not. Use it only where
    nothing but a deadline of this process can happen next.
    """
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]
