"""Sets the event loop's clock forward, so that a test need not wait for a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

__all__ = ["skip", "skipping"]

_IDLE_SECONDS = 0.02
"""How long nothing happens until nothing but a timer can be next; loopback connections take far less."""


class _Ahead:
    """A clock that is some seconds ahead of another."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.seconds = 0.0

    def __call__(self) -> float:
        return self._now() + self.seconds


def skip(seconds: float) -> None:
    """Set the running event loop's clock forward, for the rest of its life.

    Deadlines and timers of the loop are affected; other processes and `time.monotonic` are not. Use it only where
    nothing but a deadline of this process can happen next.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop.time, _Ahead):
        loop.time = _Ahead(loop.time)  # type: ignore[method-assign]
    loop.time.seconds += seconds


@contextmanager
def skipping() -> Generator[None]:
    """Set the running event loop's clock forward to its next timer whenever nothing else happens for a moment.

    Pauses and deadlines then take no time. Use it only where all that is waited for happens in this event loop: a
    thread or another process that takes its time would seem to take for ever.
    """
    loop: Any = asyncio.get_running_loop()
    selector = loop._selector
    select = selector.select

    def select_or_skip(timeout: float | None = None) -> list[Any]:
        if timeout is None or timeout <= _IDLE_SECONDS:
            return select(timeout)
        ready = select(_IDLE_SECONDS)
        if not ready:
            skip(timeout - _IDLE_SECONDS)
        return ready

    selector.select = select_or_skip
    try:
        yield
    finally:
        del selector.select
