"""The countdown before the first tick, which is sent to all clients, so that people do not miss the start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio

__all__ = ["Countdown"]


class Countdown:
    """A countdown before a game.

    Args:
        seconds: Its length; 0: no countdown.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: float | None = None

    async def run(self, show: Callable[[], None], broken_off: asyncio.Event) -> None:
        """Count down, calling `show` each second; setting the event ends it early."""
        self._ends = anyio.current_time() + self._seconds
        while not broken_off.is_set() and (left := self._ends - anyio.current_time()) > 0:
            show()
            with anyio.move_on_after(min(left, 1.0)):
                await broken_off.wait()
        self._ends = None

    def fields(self) -> dict[str, float]:
        """Return the message field with the remaining seconds; empty when the countdown is not running."""
        if self._ends is None:
            return {}
        return {"starts_in": round(max(self._ends - anyio.current_time(), 0.0), 3)}
