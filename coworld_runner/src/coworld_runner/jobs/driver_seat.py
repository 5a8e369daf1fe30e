"""Who drives a run: one command at a time. Any other with the same store follows, and takes over once that is gone."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Awaitable, Callable

import anyio

from coworld_core.episode.events import Notice
from coworld_core.errors import EnvironmentFault

from ..backend import Publish
from .job_files import CLOSED, STOPPED, Driver, chunk_number, read_object
from .job_store import JobStore
from .shared_folder import Signs

__all__ = ["DriverSeat", "ended_elsewhere"]


class DriverSeat:
    """The place of the driver, as one of its candidates sees it.

    Each driver has an object of its own with the next number, which it keeps changing; the last of them counts.

    Args:
        store: The store of the run.
        lease: Seconds without a sign of life after which a driver is gone.
        publish: Publishes who drives.
        able: Whether we can drive.
    """

    def __init__(self, store: JobStore, lease: float, publish: Publish, *, able: bool = True) -> None:
        self._store = store
        self._lease = lease
        self._publish = publish
        self._able = able
        self._signs = Signs(lease)
        self._me = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._name = ""
        self._beats = 0
        self._followed = ""

    @property
    def held(self) -> bool:
        """Whether we drive."""
        return bool(self._name)

    async def look(self) -> bool:
        """Keep the seat if it is ours, or take it if it is free; returns whether it has become ours.

        Raises:
            EnvironmentFault: Nobody drives any more, and we cannot (`no_driver`), or we do and the run was ended from
                elsewhere (`stopped`).
        """
        last = next(reversed(await self._store.list("drivers")), None)
        if self._name:
            if last is not None and last.name > self._name:
                self._name = ""
            else:
                if await self._store.get(CLOSED) == STOPPED:
                    raise ended_elsewhere(self._store)
                self._beats += 1
                await self._store.put(self._name, Driver(by=self._me, beat=self._beats).to_document())
                return False
        driver = await read_object(self._store, last.name, Driver, what="driver") if last is not None else None
        gone = last is None or driver is None or driver.ended or _is_dead(driver.by)
        if not self._able:
            who = last.name if last is not None else "nobody"
            if self._signs.is_gone(who, last.tag if last is not None else ""):
                raise EnvironmentFault(
                    f"Nobody drives the run at {self._store} any more, and there are no pods to drive it with.",
                    code="no_driver",
                    hint="Run the command again that began it, with the same store.",
                )
            return False
        if not gone and last is not None and driver is not None and not self._signs.is_gone(last.name, last.tag):
            if self._followed != last.name:
                self._followed = last.name
                self._publish(
                    Notice(message=f"{driver.by.rpartition(':')[0]} drives this run, which is followed here.")
                )
            return False
        name = f"drivers/{chunk_number(last.name) + 1 if last is not None else 1:06}"
        mine = Driver(by=self._me).to_document()
        if await self._store.create(name, mine) or await self._store.get(name) == mine:
            self._name = name
        return self.held

    async def keep(self, taken: Callable[[], Awaitable[None]]) -> None:
        """Keep the seat, or wait for it, without end.

        Args:
            taken: Called when it has become ours.
        """
        while True:
            await anyio.sleep(self._lease / 6)
            if await self.look():
                await taken()

    async def leave(self) -> None:
        """Say that we do not drive any more, so that nobody has to wait for the lease."""
        if self._name:
            await self._store.put(self._name, Driver(by=self._me, beat=self._beats, ended=True).to_document())
            self._name = ""


def ended_elsewhere(store: JobStore) -> EnvironmentFault:
    """The error for what somebody else has ended."""
    return EnvironmentFault(
        f"The run at {store} was ended from elsewhere. What was played is kept.",
        code="stopped",
        hint="The same command goes on with it.",
    )


def _is_dead(who: str) -> bool:
    """Whether a driver was a process of this machine that has ended."""
    host, _, rest = who.partition(":")
    pid = rest.partition(":")[0]
    if host != socket.gethostname() or not pid.isdigit():
        return False
    import psutil

    return not psutil.pid_exists(int(pid))
