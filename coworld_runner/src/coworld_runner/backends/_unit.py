"""What every unit keeps, whatever it runs on: its end, its logs, its readiness, its directory.

``BaseUnit`` knows how to tell of these things once and to whoever waits; a backend adds how a unit is made, started and
stopped. ``LocalUnit`` is for those that listen on ports of this machine themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream

from coworld_core.errors import CoworldError, TransferError
from coworld_core.events import BaseEvent, LogTruncated, Notice, UnitExited, UnitReady
from coworld_core.outcome import Exit

from .._files import CappedLog, fetch_file, log_tail, watch_directory
from ..backend import Endpoint, HttpProbe, Placement, Publish, Unit, UnitSpec
from ._ports import LOCALHOST, Reservation, choose_port, take_port
from ._probe import wait_until_ready

__all__ = ["BaseUnit", "LocalUnit", "for_all"]


class BaseUnit(Unit):
    """A unit's bookkeeping.

    A subclass calls ``_finish`` when the unit has ended and its logs are complete, and sets ``_started_at`` (the
    event loop's clock) when it has started.

    Args:
        spec: What it runs.
        publish: Where its events go.
    """

    def __init__(self, spec: UnitSpec, publish: Publish) -> None:
        super().__init__(spec)
        self._publish = publish
        self._started_at = 0.0
        self._exit: Exit | None = None
        self._ended = anyio.Event()
        self._truncated = False

    def _tell(self, kind: Callable[..., BaseEvent], **details: object) -> None:
        """Publish an event about this unit."""
        self._publish(kind(unit=self.name, component=self.spec.component, slot=self.spec.slot, **details))

    # --- its end

    @property
    def exit(self) -> Exit | None:
        """How it ended, or None while it has not."""
        return self._exit

    def _finish(self, exit: Exit, *, tell: bool = True) -> None:
        """Keep how it ended, and wake who waits for it; only the first end counts.

        Args:
            exit: How.
            tell: Whether it had started, so that its end is an event.
        """
        if self._exit is not None:
            return
        self._exit = exit
        if tell:
            self._tell(UnitExited, exit=exit)
        self._ended.set()

    async def wait(self) -> Exit:
        """Wait until it has ended and its logs are complete."""
        await self._ended.wait()
        assert self._exit is not None
        return self._exit

    # --- its logs

    @property
    def log_truncated(self) -> bool:
        """Whether a log reached its limit."""
        return self._truncated

    def _open_log(self, path: Path) -> CappedLog:
        return CappedLog(path, self.spec.limits.log_bytes, self._log_full)

    def _log_full(self) -> None:
        if not self._truncated:
            self._truncated = True
            self._tell(LogTruncated, limit_bytes=self.spec.limits.log_bytes)

    def _close_log(self, log: CappedLog) -> None:
        log.close()
        if log.error is not None:
            why = log.error.strerror or log.error
            self._publish(Notice(level="warning", message=f"{log.path} is not complete: {why}."))

    async def log_tail(self, limit: int = 4000) -> str:
        """The last bytes of its logs as text."""
        paths = [path for path in (self.spec.stdout, self.spec.stderr) if path is not None]
        return await anyio.to_thread.run_sync(log_tail, paths, limit)

    # --- its port

    async def wait_ready(self, probe: HttpProbe) -> float:
        """Wait until it answers."""
        seconds = await wait_until_ready(
            self, probe, since=self._started_at or anyio.current_time(), stranger=lambda: self._stranger(probe.port)
        )
        self._tell(UnitReady, seconds=seconds)
        return seconds

    def _stranger(self, port: str) -> str:
        """Who answers on a port of this unit if somebody else does; nobody can, where the platform holds the port."""
        return ""

    # --- its directory, where that is on this machine

    def written(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[str]]:
        """Names of files in its directory as they are completed."""
        if self.spec.directory is None:
            raise TransferError(f"{self.name} has no directory of its own to watch.", context={"unit": self.name})
        return watch_directory(self.spec.directory, until=self.wait)

    async def fetch(self, name: str, target: Path, *, limit: int | None = None) -> int:
        """Copy a file out of its directory."""
        if self.spec.directory is None:
            raise FileNotFoundError(f"{self.name} has no directory of its own.")
        return await fetch_file(self.spec.directory, name, target, limit=limit)


class LocalUnit(BaseUnit):
    """A unit whose ports are ports of this machine's loopback."""

    def __init__(self, spec: UnitSpec, publish: Publish) -> None:
        super().__init__(spec, publish)
        self._reservations: list[Reservation] = []
        self._endpoints: dict[str, Endpoint] = {}

    def endpoint(self, port: str = "http") -> Endpoint:
        """How to reach a port; the same from here and from its clients."""
        return self._endpoints[port]

    def _take_ports(self) -> Placement:
        """Take its ports, to be given back with ``_give_ports_back``, and say where it is to live.

        Raises:
            StartError: One is taken.
        """
        listen: dict[str, int] = {}
        for port in self.spec.ports:
            wanted = port.number if port.fixed else port.host_port
            reservation = take_port(wanted, self.name, port.name) if wanted else choose_port()
            self._reservations.append(reservation)
            listen[port.name] = reservation.number
            address = f"{LOCALHOST}:{reservation.number}"
            self._endpoints[port.name] = Endpoint(here=address, there=address)
        directory, inputs = self.spec.directory, self.spec.inputs
        return Placement(
            directory=str(directory.absolute()) if directory is not None else "",
            inputs=str(inputs.absolute()) if inputs is not None else "",
            listen_host=LOCALHOST,
            listen=listen,
            endpoints=dict(self._endpoints),
        )

    def _give_ports_back(self) -> None:
        for reservation in self._reservations:
            reservation.close()

    def _number(self, port: str) -> int:
        return int(self._endpoints[port].here.rpartition(":")[2])


_U = TypeVar("_U", bound=Unit)


async def for_all(units: Sequence[_U], act: Callable[[_U], Awaitable[None]]) -> None:
    """Do it for all units at once, and for all to the end.

    Raises:
        CoworldError: Of those that failed, the first in the units' own order.
    """
    errors: dict[str, CoworldError] = {}

    async def one(unit: _U) -> None:
        try:
            await act(unit)
        except CoworldError as error:
            errors[unit.name] = error

    async with anyio.create_task_group() as tasks:
        for unit in units:
            tasks.start_soon(one, unit)
    for unit in units:
        if unit.name in errors:
            raise errors[unit.name]
