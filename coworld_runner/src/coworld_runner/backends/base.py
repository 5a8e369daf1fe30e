"""The base classes of backends: units that keep the contract's rules, and the steps that all backends share.

A backend of its own says what is particular to it; the rest is here, and ours use it as well:

* :class:`BaseUnit` keeps a unit's state (made, started, ended), its end, its logs and its directory, and has the
  sequences: start once, TERM and then KILL, remove. A subclass fills in ``make``, ``launch``, ``terminate``, ``kill``
  and ``remove``, calls ``mark_started`` and ``finish``, and writes to what ``open_log`` returns.
* :class:`LocalUnit` is for units that listen on ports of this machine themselves.
* :class:`BaseBackend` makes and removes them all at once, and finds and removes what a killed runner left. What the
  units of one call share, a network or a name, goes around them in ``group``.
* :func:`find_processes`, :func:`kill_processes` and :func:`reap_processes` are for units that are local processes
  under :func:`process_labels`.

``docs/backends.md`` has a whole backend that is built on this.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import ClassVar, Self, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream

from coworld_core.episode.events import (
    BaseEvent,
    LeakFound,
    LogTruncated,
    Notice,
    UnitCreated,
    UnitExited,
    UnitReady,
    UnitStarted,
)
from coworld_core.episode.outcome import Exit, ExitReason
from coworld_core.errors import CoworldError, StartError, TransferError, UsageError
from coworld_core.issues import Issue

from .._concurrency import nursery
from ..backend import INPUTS_MOUNT, Backend, Endpoint, Found, HttpProbe, Placement, Publish, Reaped, Unit, UnitSpec
from ..errors import unwrapped
from ..runs._files import CappedLog, fetch_file, list_files, log_tail, watch_directory
from ..runs.scratch import find_scratch, open_scratch, reap_scratch, run_is_alive, scratch_root
from ._ports import LOCALHOST, Reservation, choose_port, port_taken, stranger_on, take_port
from ._probe import wait_until_ready
from .process._found import find_processes, kill_processes, process_labels, reap_processes

__all__ = [
    "INPUTS_MOUNT",
    "LOCALHOST",
    "BaseBackend",
    "BaseUnit",
    "CappedLog",
    "LocalUnit",
    "Reservation",
    "choose_port",
    "fetch_file",
    "find_processes",
    "kill_processes",
    "nursery",
    "port_taken",
    "process_labels",
    "reap_processes",
    "refuse_taken_names",
    "run_is_alive",
    "stranger_on",
    "take_port",
    "wait_until_ready",
    "watch_directory",
]

REMOVE_SECONDS = 30.0
"""How long removing units may take beyond their grace period before the remaining ones are reported."""


class BaseUnit(Unit):
    """A unit's state, and the sequences that are the same for all.

    A subclass fills in the steps, each of which is called once at most (``terminate`` and ``kill`` also when what they
    end has just ended by itself):

    ===================  =========================================================================================
    ``make``             everything short of running it
    ``launch``           run it; return once it runs
    ``terminate``        ask it to end
    ``kill``             end it, with everything below it
    ``remove``           give back everything that was made, whatever of it there is
    ===================  =========================================================================================

    Whatever watches the unit calls ``finish`` when it has ended, by itself or not, and its logs are complete.

    Args:
        spec: What it runs.
        backend: Whose unit it is.
        publish: Where its events go.
    """

    kill_seconds: ClassVar[float] = 20.0
    """How long after ``kill`` a unit may take to end before it counts as lost."""

    def __init__(self, spec: UnitSpec, *, backend: Backend, publish: Publish) -> None:
        super().__init__(spec)
        self.backend = backend
        """The backend that made it."""
        self.publish = publish
        """Where its events go."""
        self.started = anyio.Event()
        """Set when it has started."""
        self.started_at = 0.0
        """When it started, on the event loop's clock; 0 before."""
        self.ended = anyio.Event()
        """Set when it has ended and its logs are complete."""
        self.ended_by: ExitReason | None = None
        """Why we ended it: for ``terminate`` and ``kill`` to set once their signal has arrived, for ``Exit.reason``."""
        self.removed = False
        """Whether everything of it has been removed."""
        self.starting = anyio.Lock()
        """Held during a start, so that it starts once and is not stopped half-way."""
        self._exit: Exit | None = None
        self._failure: StartError | None = None
        self._asked = False
        self._truncated = False
        self._following = anyio.CancelScope()

    # --- for a subclass to fill in

    @property
    def label(self) -> str:
        """Its name in the report of a failed removal."""
        return f"{self.name} ({self.id})" if self.id else self.name

    async def make(self) -> None:
        """Create everything short of running it, under the run's label.

        Raises:
            StartError: It could not be made; ``remove`` takes away what came of it.
        """

    @abc.abstractmethod
    async def launch(self) -> None:
        """Run what ``make`` has created, and return once it runs.

        Raises:
            StartError: It could not be started, with the platform's own reason.
        """

    async def discard(self) -> None:
        """End a unit that was made and never started, where a platform keeps something running for it."""

    @abc.abstractmethod
    async def terminate(self, grace: float) -> None:
        """Ask it to end, TERM; it is waited for afterwards. Called once at most.

        Args:
            grace: Seconds until ``kill``, for a platform that keeps time itself.
        """

    @abc.abstractmethod
    async def kill(self) -> None:
        """End it, with its whole tree; it is waited for afterwards."""

    async def remove(self) -> None:
        """Release everything that was made, even if only partly; ``leak`` what cannot be removed."""

    # --- for a subclass to call

    def follow(self, tasks: TaskGroup, work: Callable[[], Awaitable[None]]) -> None:
        """Watch it in its own task, shielded from cancellation, until ``work`` is done or ``forsake`` is called.

        Args:
            tasks: Where the task runs.
            work: What is done; it calls ``finish`` when the unit has ended.
        """
        # shielded: cancelling the body stops the units, and this task then ends by itself
        scope = self._following = anyio.CancelScope(shield=True)

        async def watch() -> None:
            with scope:
                await work()

        # not the task group's own start(): when cancelled, it would wait for a task that is shielded from it
        tasks.start_soon(watch, name=f"unit {self.name}")

    def forsake(self) -> None:
        """Stop watching it: nothing waits for it any more."""
        self._following.cancel()

    def tell(self, kind: Callable[..., BaseEvent], **details: object) -> None:
        """Publish an event about this unit.

        Args:
            kind: The event's class; ``unit``, ``component`` and ``slot`` are filled in.
            details: Its other fields.
        """
        self.publish(kind(unit=self.name, component=self.spec.component, slot=self.spec.slot, **details))

    def leak(self, what: str, reason: str) -> None:
        """Publish that part of it could not be removed, and why."""
        self.publish(LeakFound(what=what, reason=reason))

    def mark_started(self, since: float | None = None) -> None:
        """Note that it runs; only the first time counts. ``start`` does so after ``launch`` where that has not.

        Args:
            since: When it started, on the event loop's clock; None: now.
        """
        if not self.started.is_set() and self._exit is None:
            self.started_at = anyio.current_time() if since is None else since
            self.tell(UnitStarted)
            self.started.set()

    def finish(self, exit: Exit) -> None:
        """Record how it ended, and wake its waiters; only the first end counts. Its logs must be complete.

        That it has ended is an event if it had started.
        """
        if self._exit is not None:
            return
        self._exit = exit
        if self.started.is_set():
            self.tell(UnitExited, exit=exit)
        self.ended.set()

    def open_log(self, path: Path) -> CappedLog:
        """A log of this unit, to be written to while it runs; close it with ``close_log``."""
        return CappedLog(path, self.spec.limits.log_bytes, self._log_full)

    def close_log(self, log: CappedLog) -> None:
        """Close a log, and warn if it is incomplete."""
        log.close()
        if log.error is not None:
            why = log.error.strerror or log.error
            self.publish(Notice(level="warning", message=f"{log.path} is not complete: {why}."))

    def stranger(self, port: str) -> str:
        """Any other program that answers on a port of this unit; empty where the platform reserves the port."""
        return ""

    def missed(self, port: str) -> str:
        """Where it listens, in words, when others cannot reach a port of it for that; empty where that is not seen."""
        return ""

    def inside(self) -> Placement:
        """The placement of a unit with its own file system and network: its mounts, and all of its addresses."""
        spec = self.spec
        return Placement(
            directory=spec.mount.rstrip("/") if spec.directory is not None else "",
            inputs=INPUTS_MOUNT if spec.inputs is not None else "",
            listen_host="0.0.0.0",  # noqa: S104 - inside it
            listen={port.name: port.number for port in spec.ports},
            endpoints={port.name: self.endpoint(port.name) for port in spec.ports},
        )

    # --- what a backend does with it

    async def create(self) -> None:
        """Make it.

        Raises:
            StartError: It could not be made.
        """
        await self.make()
        self.tell(UnitCreated)

    async def close(self, grace: float) -> None:
        """Stop it and remove everything of it; what could not be removed is published."""
        await self.stop(grace)
        await self.remove()
        self.removed = True

    def abandon(self) -> None:
        """Give up on it, because the platform does not respond."""
        self.finish(Exit(reason="lost", detail="it could not be removed"))
        self.forsake()

    # --- the contract

    @property
    def exit(self) -> Exit | None:
        """How it ended, or None while it has not."""
        return self._exit

    async def start(self) -> None:
        """Start it; does nothing when it was started before, and fails again when that failed.

        Raises:
            StartError: It could not be started, or has been stopped.
        """
        async with self.starting:
            if self.started.is_set():
                return
            if self._failure is not None:
                raise self._failure
            if self._exit is not None:
                raise StartError(
                    f"{self.name} was ended before it was started.",
                    hint="It was stopped meanwhile, or what it was to run under was killed.",
                    context={"unit": self.name},
                )
            try:
                await self.launch()
            except StartError as error:
                self._failure = error
                raise
            self.mark_started()

    async def stop(self, grace: float = 5.0) -> Exit:
        """TERM, then KILL after ``grace`` seconds."""
        if self._exit is not None:
            return self._exit
        async with self.starting:
            if not self.started.is_set() and self._exit is None:
                self.finish(Exit(reason="stopped", detail="it was never started"))
                await self.discard()
        if self._exit is None and grace > 0:
            if not self._asked:
                self._asked = True
                await self.terminate(grace)
            with self.backend.patience(grace):
                return await self.wait()
        if self._exit is None:
            await self.kill()
        with anyio.move_on_after(self.kill_seconds):
            return await self.wait()
        self.finish(Exit(reason="lost", detail=f"it was still there {self.kill_seconds:g} s after it was killed"))
        return await self.wait()

    async def wait(self) -> Exit:
        """Wait until it has ended and its logs are complete."""
        await self.ended.wait()
        assert self._exit is not None
        return self._exit

    @property
    def log_truncated(self) -> bool:
        """Whether a log reached its limit."""
        return self._truncated

    def _log_full(self) -> None:
        if not self._truncated:
            self._truncated = True
            self.tell(LogTruncated, limit_bytes=self.spec.limits.log_bytes)

    async def log_tail(self, limit: int = 4000) -> str:
        """The last bytes of its logs as text."""
        paths = [path for path in (self.spec.stdout, self.spec.stderr) if path is not None]
        return await anyio.to_thread.run_sync(log_tail, paths, limit)

    async def wait_ready(self, probe: HttpProbe) -> float:
        """Wait until it answers."""
        seconds = await wait_until_ready(
            self,
            probe,
            since=self.started_at or anyio.current_time(),
            stranger=lambda: self.stranger(probe.port),
            missed=lambda: self.missed(probe.port),
        )
        self.tell(UnitReady, seconds=seconds)
        return seconds

    def written(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[str]]:
        """Names of files in its directory as they are completed, where that is on this machine."""
        if self.spec.directory is None:
            raise TransferError(f"{self.name} has no directory of its own to watch.", context={"unit": self.name})
        return watch_directory(self.spec.directory, until=self.wait)

    async def left(self) -> tuple[str, ...]:
        """Names of the files in its directory, where that is on this machine."""
        return tuple(await anyio.to_thread.run_sync(list_files, self.spec.directory))

    async def fetch(self, name: str, target: Path, *, limit: int | None = None) -> int:
        """Copy a file out of its directory, where that is on this machine."""
        if self.spec.directory is None:
            raise FileNotFoundError(f"{self.name} has no directory of its own.")
        return await fetch_file(self.spec.directory, name, target, limit=limit)


class LocalUnit(BaseUnit):
    """A unit whose ports are ports of this machine's loopback: the program itself listens on them.

    ``make`` calls ``take_ports``, ``remove`` calls ``give_ports_back``, and ``processes`` says who may answer.
    """

    def __init__(self, spec: UnitSpec, *, backend: Backend, publish: Publish) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self._reservations: list[Reservation] = []
        self._endpoints: dict[str, Endpoint] = {}

    @abc.abstractmethod
    def processes(self) -> Iterable[int]:
        """Pids that may answer on its ports; without any, every answer counts as a stranger's."""

    def endpoint(self, port: str = "http") -> Endpoint:
        """How to reach a port; the same from here and from its clients."""
        return self._endpoints[port]

    def stranger(self, port: str) -> str:
        """The program that answers on a port when it is not one of its processes."""
        return stranger_on(int(self._endpoints[port].here.rpartition(":")[2]), self.processes())

    def take_ports(self) -> Placement:
        """Take its ports, until ``give_ports_back``, and return its placement.

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

    def give_ports_back(self) -> None:
        """Release its ports."""
        for reservation in self._reservations:
            reservation.close()


# --- all of them at once ----------------------------------------------------------------------------------------

_U = TypeVar("_U", bound=Unit)


async def _for_all(units: Sequence[_U], act: Callable[[_U], Awaitable[None]]) -> None:
    """Do it for all units at once, and wait for all of them.

    Raises:
        CoworldError: Of those that failed, the first in the units' own order.
    """
    errors: dict[str, CoworldError] = {}

    async def one(unit: _U) -> None:
        try:
            await act(unit)
        except CoworldError as error:
            errors[unit.name] = error

    with unwrapped():
        async with anyio.create_task_group() as tasks:
            for unit in units:
                tasks.start_soon(one, unit)
    for unit in units:
        if unit.name in errors:
            raise errors[unit.name]


def refuse_taken_names(units: Sequence[Unit], of_run: Callable[[str], Container[str]]) -> None:
    """Refuse units whose name is taken in their run, for backends whose units find each other by name.

    Args:
        units: The new ones.
        of_run: Names that a run, by its id, has already.

    Raises:
        UsageError: ``unit_name_taken``.
    """
    names = [(unit.spec.run_id, unit.name) for unit in units]
    for index, (run_id, name) in enumerate(names):
        if name in of_run(run_id) or names[index] in names[:index]:
            raise UsageError(
                f"Run {run_id} has a unit {name!r} already.", code="unit_name_taken", context={"unit": name}
            )


async def _close_all(units: Sequence[BaseUnit], grace: float, *, within: float = REMOVE_SECONDS) -> None:
    """Stop and remove all units at once, shielded from cancellation, within a deadline.

    Nothing is raised: what could not be removed in time counts as lost, and is published as a leak.

    Args:
        units: The units, whatever has become of them.
        grace: Seconds between TERM and KILL.
        within: Seconds that removing may take beyond that.
    """
    reasons: dict[str, str] = {}

    async def close(unit: BaseUnit) -> None:
        try:
            await unit.close(grace)
        except CoworldError as error:
            reasons[unit.name] = error.message

    with anyio.move_on_after(grace + within, shield=True):
        async with anyio.create_task_group() as tasks:
            for unit in units:
                tasks.start_soon(close, unit)
    for unit in units:
        if not unit.removed:
            unit.abandon()
            why = reasons.get(unit.name) or unit.backend.trouble() or f"it was not removed within {grace + within:g} s"
            unit.leak(unit.label, why)


class BaseBackend(Backend):
    """A backend's own part is what its units are (``unit``, or ``group``), and what it finds by label (``find_units``).

    Beside those it says what it is capable of, and has images. The directories of runs, which are on this machine
    whatever the units run on, are found and removed here.
    """

    remove_seconds: ClassVar[float] = REMOVE_SECONDS
    """How long removing units may take beyond their grace period before the remaining ones are reported."""
    removal: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Kinds that ``find_units`` finds, in the order of removal; the kinds of one entry are removed at once, other kinds
    are left alone. Empty: everything at once."""

    # --- for a subclass to fill in

    def unit(self, spec: UnitSpec, *, publish: Publish, tasks: TaskGroup) -> BaseUnit:
        """A unit that has not been created yet.

        Args:
            spec: What it runs; within what this backend is capable of.
            publish: Where its events go.
            tasks: Where what watches it runs, until it is removed. It is cancelled with the body, so what has still
                to see the unit's end is shielded from that.

        Raises:
            CoworldError: It cannot be made here; nothing has been made.
        """
        raise NotImplementedError

    @asynccontextmanager
    async def group(
        self, specs: Sequence[UnitSpec], *, publish: Publish, tasks: TaskGroup
    ) -> AsyncGenerator[Sequence[BaseUnit], None]:
        """Units of one call, of which nothing exists yet, and around them what they share: here, their directory.

        What was made for them is given back on leaving, when they are gone. Whatever happens until then, the units are
        removed first.

        Args:
            specs: What they run, one at least; within what this backend is capable of.
            publish: Where their events go.
            tasks: As for ``unit``.

        Raises:
            CoworldError: One cannot be made here; nothing has been made.
        """
        async with AsyncExitStack() as stack:
            for run_id in dict.fromkeys(spec.run_id for spec in specs):
                # the run's directory marks it as alive, so make a temporary one if the caller made none
                if not (scratch_root() / run_id).is_dir():
                    await stack.enter_async_context(open_scratch(run_id, on_leak=_leak(publish)))
            yield [self.unit(spec, publish=publish, tasks=tasks) for spec in specs]

    async def find_units(self, run_id: str | None) -> Sequence[Found]:
        """What exists of units, found by label: of one run, or of all."""
        raise NotImplementedError

    async def remove_found(self, found: Found) -> str:
        """Remove something that ``find_units`` found; returns why it could not be removed, or an empty string."""
        raise NotImplementedError

    async def reap_units(self, found: Sequence[Found], *, force: bool) -> Sequence[Reaped]:
        """Remove what ``find_units`` found, by ``removal``; what a living runner owns only with ``force``."""
        reasons: dict[str, str] = {}
        groups = [[item for item in found if item.kind in kinds] for kinds in self.removal] or [list(found)]

        async def remove(item: Found) -> None:
            alive = item.alive and not force
            reasons[item.id] = "its runner is still running" if alive else await self.remove_found(item)

        for group in groups:
            async with anyio.create_task_group() as tasks:
                for item in group:
                    tasks.start_soon(remove, item)
        ours = [item for item in found if item.id in reasons]
        return [Reaped(found=item, removed=not reasons[item.id], reason=reasons[item.id]) for item in ours]

    # --- the contract

    async def __aenter__(self) -> Self:
        """Nothing to open."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing to close."""

    async def check(self) -> tuple[Issue, ...]:
        """Nothing can be missing."""
        return ()

    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        """Create units, all at once, and remove them on leaving.

        Raises:
            CapabilityError: A spec asks for what this backend cannot enforce.
            StartError: One could not be created or started.
        """
        self.refuse_unenforceable(specs)
        if not specs:
            yield ()
            return
        async with nursery() as tasks, self.group(specs, publish=publish, tasks=tasks) as units:
            try:
                # nothing runs before all could be made
                await _for_all(units, lambda unit: unit.create())
                if start:
                    await _for_all(units, lambda unit: unit.start())
                yield tuple(units)
            finally:
                await _close_all(units, grace, within=self.remove_seconds)

    async def find(self, run_id: str | None = None) -> tuple[Found, ...]:
        """What exists of units, and the directories of runs."""
        units = await self.find_units(run_id)
        return (*units, *await anyio.to_thread.run_sync(find_scratch, run_id))

    async def reap(self, found: Sequence[Found], *, force: bool = False) -> tuple[Reaped, ...]:
        """Remove what was found; directories last, when nothing writes into them any more."""
        units = await self.reap_units([item for item in found if item.kind != "directory"], force=force)
        return (*units, *await anyio.to_thread.run_sync(lambda: reap_scratch(found, force=force)))


def _leak(publish: Publish) -> Callable[[Path, str], None]:
    def told(path: Path, reason: str) -> None:
        publish(LeakFound(what=f"directory {path}", reason=reason))

    return told
