"""Streams the names of a unit's complete files, as its collector reports them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from coworld_core.episode.events import Notice
from coworld_core.errors import BackendError, TransferError

from ..._concurrency import cancel_after, nursery
from ..base import BaseUnit
from ._collector import Collector, CollectorGone
from ._watched import WatchedPod

__all__ = ["Written"]

_DRAIN_SECONDS = 10.0
"""How long the collector may take to report the last files once its unit has ended."""


class Written:
    """Names of complete files in the order in which they were completed, for any number of readers.

    Args:
        unit: The unit.
        pod: The unit's pod.
        collector: The unit's collector.
    """

    def __init__(self, unit: BaseUnit, pod: WatchedPod, collector: Collector) -> None:
        self._unit = unit
        self._pod = pod
        self._collector = collector
        self._followed = False
        self._drained = anyio.Event()
        self._numbers: dict[str, int] = {}
        self._count = 0
        self._changed = anyio.Event()
        self._over = False

    @asynccontextmanager
    async def names(self) -> AsyncGenerator[MemoryObjectReceiveStream[str], None]:
        """Stream every name, repeated each time the file is completed again, until the unit has ended.

        Raises:
            TransferError: The unit has no directory.
        """
        unit = self._unit
        if unit.spec.directory is None:
            raise TransferError(f"{unit.name} has no directory of its own to watch.", context={"unit": unit.name})
        if not self._followed and unit.exit is None:
            self._followed = True
            self._pod.tasks.start_soon(self._follow, name=f"files of {unit.name}")
        send, receive = anyio.create_memory_object_stream[str](64)
        async with nursery() as tasks, receive:
            tasks.start_soon(self._send_all, send)
            yield receive

    async def _follow(self) -> None:
        unit = self._unit
        try:
            async with nursery() as tasks:
                tasks.start_soon(cancel_after, unit.ended, tasks.cancel_scope)
                await unit.started.wait()
                await self._collector.follow_written(self._note)
        except CollectorGone as error:
            if unit.exit is None and not self._pod.over.is_set():
                unit.publish(Notice(level="warning", message=f"{unit.name}: {error.message}"))
        finally:
            self._drained.set()

    async def drain(self) -> None:
        """Wait until the collector has reported the last files."""
        if self._followed:
            with anyio.move_on_after(_DRAIN_SECONDS):
                try:
                    await self._collector.call("POST", "/ended", patience=5)
                    await self._drained.wait()
                except BackendError:
                    pass

    def _note(self, name: str) -> None:
        """Record that a file was completed."""
        self._count += 1
        self._numbers.pop(name, None)
        self._numbers[name] = self._count
        self._wake()

    def end(self) -> None:
        """Record that no more files will be completed."""
        self._over = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _send_all(self, send: MemoryObjectSendStream[str]) -> None:
        """Send every name, repeated each time the file is completed again, until ``end`` is called."""
        since = 0
        async with send:
            while True:
                over, changed = self._over, self._changed
                fresh = [(name, number) for name, number in self._numbers.items() if number > since]
                for name, number in fresh:
                    since = number
                    await send.send(name)
                if not fresh:
                    if over:
                        return
                    await changed.wait()
