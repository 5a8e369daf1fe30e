"""Waits for what nothing reports: a file or a state of another process or machine, asked for again and again.

What this process does itself can be waited for without asking: with an `anyio.Event`, `logs.logged`, or
`observatory.until_committed`.
"""

from __future__ import annotations

import contextlib
import inspect
import subprocess
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, overload

import anyio

__all__ = ["live_on", "until", "wait_until"]

T = TypeVar("T")
Words = str | Callable[[], str]


def wait_until(condition: Callable[[], T | None], *, seconds: float = 20.0, what: Words = "", every: float = 0.02) -> T:
    """Wait until a condition returns a true value, and return it.

    Args:
        condition: The condition.
        seconds: Time limit.
        what: The condition in words, or a function that returns them, for the message of a failure.
        every: Seconds between two looks.

    Raises:
        AssertionError: It has not become true in time.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        _in_time(deadline, seconds, what or str(condition))
        time.sleep(every)
    return value


@overload
async def until(
    condition: Callable[[], Awaitable[T | None]], *, seconds: float = 60.0, what: Words = "", every: float = 0.02
) -> T: ...
@overload
async def until(
    condition: Callable[[], T | None], *, seconds: float = 60.0, what: Words = "", every: float = 0.02
) -> T: ...
async def until(
    condition: Callable[[], object], *, seconds: float = 60.0, what: Words = "", every: float = 0.02
) -> object:
    """Do the same as `wait_until` while other tasks run; the condition may be asynchronous."""
    # Of the real clock: a test may set that of the event loop forward meanwhile.
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        _in_time(deadline, seconds, what or str(condition))
        await anyio.sleep(every)


def _in_time(deadline: float, seconds: float, what: Words) -> None:
    if time.monotonic() >= deadline:
        raise AssertionError(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}")


class _Process(Protocol):
    def wait(self, timeout: float | None = None) -> int: ...


def live_on(process: _Process, seconds: float) -> None:
    """Let a process live for some more seconds; returns early if it ends by itself.

    For a process that is to be killed at a random moment, or that is to stand still for a while.
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
