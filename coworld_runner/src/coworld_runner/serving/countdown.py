"""The seconds before the first tick, told to everyone as they pass, so that people see the start."""

from __future__ import annotations

from collections.abc import Callable

import anyio

__all__ = ["Countdown"]


class Countdown:
    """A countdown before a game.

    Args:
        seconds: Its length; 0: there is none.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: float | None = None

    async def run(self, show: Callable[[], None], broken_off: anyio.Event) -> None:
        """Count down, calling `show` each second; setting the event ends it early."""
        self._ends = anyio.current_time() + self._seconds
        while not broken_off.is_set() and (left := self._ends - anyio.current_time()) > 0:
            show()
            with anyio.move_on_after(min(left, 1.0)):
                await broken_off.wait()
        self._ends = None

    def told(self) -> dict[str, float]:
        """The field that tells how many seconds are left, while it runs."""
        if self._ends is None:
            return {}
        return {"starts_in": round(max(self._ends - anyio.current_time(), 0.0), 3)}
