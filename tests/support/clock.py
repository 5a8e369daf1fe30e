"""The event loop's clock, set forward: whoever would only wait for a deadline need not."""

from __future__ import annotations

import asyncio

__all__ = ["skip"]


def skip(seconds: float) -> None:
    """It is that much later now, for as long as the running event loop lives.

    Its deadlines and timers see it; other processes and ``time.monotonic`` do not. So it serves where nothing can
    happen any more but that a deadline of ours comes.
    """
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]
