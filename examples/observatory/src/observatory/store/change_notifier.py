"""Notifies waiting requests of changes, so that they need not poll."""

from __future__ import annotations

import logging

import anyio
import sqlalchemy as sa

from ..supervisor import Supervisor
from .database import Database
from .models import Counter

__all__ = ["ChangeNotifier", "last_revision"]

_log = logging.getLogger("observatory.feed")

_LOOK_SECONDS = 0.1
"""Interval at which the counter of changes is read while any request waits, once for all of them."""


class ChangeNotifier:
    """Knows the number of the last change, and wakes tasks that wait for the next one."""

    def __init__(self) -> None:
        self._value = 0
        self._changed = anyio.Event()
        self._wanted = anyio.Event()
        self._waiting = 0
        self._closed = False

    async def watch(self, database: Database) -> None:
        """Read the counter while any task waits; runs until cancelled."""

        async def look() -> None:
            await self._wanted.wait()
            value = await last_revision(database)
            if value != self._value:
                self._value = value
                self._wake()

        await Supervisor(_log, repeats=False).repeat(look, "Changes cannot be checked for", seconds=_LOOK_SECONDS)

    async def wait_beyond(self, revision: int, *, timeout: float) -> bool:
        """Wait for a change after the given one; returns False if there is none in time, or if the server stops."""
        self._waiting += 1
        self._wanted.set()
        try:
            with anyio.move_on_after(timeout):
                while self._value <= revision and not self._closed:
                    await self._changed.wait()
            return self._value > revision and not self._closed
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._wanted = anyio.Event()

    @property
    def closed(self) -> bool:
        """Whether waiting has ended."""
        return self._closed

    def close(self) -> None:
        """End all waiting, because the server stops."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


async def last_revision(database: Database) -> int:
    """The number of the last change."""
    async with database.reading() as session:
        return await session.scalar(sa.select(Counter.value).where(Counter.name == "changes")) or 0
