"""Base classes for backends: units that follow the contract's rules, and the steps that all backends share.

A new backend implements only what is specific to it. The built-in backends use these classes too:

* :class:`BaseUnit` keeps a unit's state (made, started, ended) and its exit, and implements the sequences: start once,
  TERM and then KILL, remove. Each backend has one subclass of it, which implements `make`, `launch`, `terminate`,
  `kill` and `remove`, and calls `mark_started` and `finish`. The rest are parts that it is put together from.
* :class:`UnitLogs`, as `BaseUnit.logs`, opens the logs that a unit's output is written to.
* :class:`HostPorts` are the ports of a unit whose program itself listens on this machine.
* :class:`BaseBackend` creates and removes all units at once, and finds and removes the leftovers of a killed runner.
  Resources shared by the units of one call, such as a network or a name, are set up around them in `group`.
* :func:`find_processes`, :func:`kill_processes` and :func:`reap_processes` are for units that are local processes under
  :func:`process_labels`.

`docs/backends.md` shows a complete backend built on these classes.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Iterable, Mapping, Sequence
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

from ..backend import INPUTS_MOUNT, Backend, Endpoint, Found, HttpProbe, Placement, Publish, Reaped, Unit, UnitSpec
from ..errors import unwrapped
from ..runs._task_groups import nursery
from ..runs._unit_files import CappedLog, fetch_file, list_files, log_tail, watch_directory
from ..runs.scratch import find_scratch, open_scratch, reap_scratch, run_is_alive, scratch_root
from ._direct_hosts import asked_proxy, proxies_of, without_proxy
from ._port_reservations import LOCALHOST, Reservation, choose_port, port_taken, stranger_on, take_port
from ._readiness import LISTENS_ELSEWHERE, wait_until_ready
from .process._labelled_processes import find_processes, kill_processes, process_labels, reap_processes

__all__ = [
    "INPUTS_MOUNT",
    "LISTENS_ELSEWHERE",
    "LOCALHOST",
    "BaseBackend",
    "BaseUnit",
    "CappedLog",
    "HostPorts",
    "Reservation",
    "UnitLogs",
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
"""Seconds that removal may take beyond the grace period before the remaining units are reported."""


class UnitLogs:
    """A unit's log files: written while it runs, each up to the limit of its spec.

    Args:
        spec: What the unit runs.
        publish: Receives a warning for a log that is not complete.
        on_full: Called once, when the first of them has reached the limit.
    """

    def __init__(self, spec: UnitSpec, publish: Publish, on_full: Callable[[], object]) -> None:
        self._spec = spec
        self._publish = publish
        self._on_full = on_full
        self.truncated = False
        """Whether a log reached its limit."""

    def open(self, path: Path) -> CappedLog:
        """Open a log to write to while the unit runs; close it with `close`."""
        return CappedLog(path, self._spec.limits.log_bytes, self._full)

    def _full(self) -> None:
        if not self.truncated:
            self.truncated = True
            self._on_full()

    def close(self, log: CappedLog) -> None:
        """Close a log, and warn if it is incomplete."""
        log.close()
        if log.error is not None:
            why = log.error.strerror or log.error
            self._publish(Notice(level="warning", message=f"{log.path} is not complete: {why}."))

    async def tail(self, limit: int) -> str:
        """The last bytes of the logs as text."""
        paths = [path for path in (self._spec.stdout, self._spec.stderr) if path is not None]
        return await anyio.to_thread.run_sync(log_tail, paths, limit)


class HostPorts:
    """The ports of a unit whose program itself listens on this machine's loopback interface.

    Args:
        spec: What the unit runs.
        processes: Returns the pids that may answer on the ports; if there are none, every answer counts as another
            program's.
    """

    def __init__(self, spec: UnitSpec, processes: Callable[[], Iterable[int]]) -> None:
        self._spec = spec
        self._processes = processes
        self._reservations: list[Reservation] = []
        self._endpoints: dict[str, Endpoint] = {}

    def take(self) -> Placement:
        """Reserve them until `give_back`, and return the unit's placement.

        Raises:
            StartError: A port is already in use.
        """
        spec = self._spec
        listen: dict[str, int] = {}
        for port in spec.ports:
            wanted = port.number if port.fixed else port.host_port
            reservation = take_port(wanted, spec.name, port.name) if wanted else choose_port()
            self._reservations.append(reservation)
            listen[port.name] = reservation.number
            address = f"{LOCALHOST}:{reservation.number}"
            self._endpoints[port.name] = Endpoint(here=address, there=address)
        return Placement(
            directory=str(spec.directory.absolute()) if spec.directory is not None else "",
            inputs=str(spec.inputs.absolute()) if spec.inputs is not None else "",
            listen_host=LOCALHOST,
            listen=listen,
            endpoints=dict(self._endpoints),
        )

    def give_back(self) -> None:
        """Release them."""
        for reservation in self._reservations:
            reservation.close()

    def endpoint(self, port: str) -> Endpoint:
        """How to reach a port; the address is the same from here and from the unit's clients."""
        return self._endpoints[port]

    def stranger(self, port: str) -> str:
        """The program that answers on a port, unless it is one of the unit's processes."""
        return stranger_on(int(self._endpoints[port].here.rpartition(":")[2]), self._processes())


class BaseUnit(Unit):
    """A unit's state, and the sequences that are the same for all backends.

    A subclass implements these steps. Each is called at most once (`terminate` and `kill` may be called when the
    unit has just ended by itself):

    ===================  =========================================================================================
    `make`             create everything, without running it
    `launch`           run it; return once it runs
    `terminate`        ask it to end
    `kill`             end it, with all its descendants
    `remove`           remove everything that was made, even if only part of it exists
    ===================  =========================================================================================

    The code that watches the unit calls `finish` once the unit has ended, for whatever reason, and its logs are
    complete.

    Args:
        spec: What it runs.
        backend: The backend it belongs to.
        publish: Receives its events.
    """

    kill_seconds: ClassVar[float] = 20.0
    """Seconds that a unit may take to end after `kill` before it counts as lost."""

    def __init__(self, spec: UnitSpec, *, backend: Backend, publish: Publish) -> None:
        super().__init__(spec)
        self.backend = backend
        """The backend that created this unit."""
        self.publish = publish
        self.logs = UnitLogs(spec, publish, lambda: self.tell(LogTruncated, limit_bytes=spec.limits.log_bytes))
        """Its log files."""
        self.started = anyio.Event()
        """Set when it has started."""
        self.started_at = 0.0
        """When it started, on the event loop's clock; 0 before."""
        self.ended = anyio.Event()
        """Set when it has ended and its logs are complete."""
        self.ended_by: ExitReason | None = None
        """Why we ended it, set once the signal has arrived; it becomes `Exit.reason`."""
        self.removed = False
        """Whether everything that belongs to it has been removed."""
        self.starting = anyio.Lock()
        """Held during a start, so that the unit starts only once and is not stopped half-way."""
        self._exit: Exit | None = None
        self._failure: StartError | None = None
        self._asked = False
        self._following = anyio.CancelScope()
        self._proxies: Mapping[str, str] = {}

    # --- implemented by a subclass

    @property
    def label(self) -> str:
        """Its name in the report of a failed removal."""
        return f"{self.name} ({self.id})" if self.id else self.name

    async def make(self) -> None:
        """Create everything that it needs under the run's label, without running it.

        Raises:
            StartError: It could not be made; `remove` cleans up what was created.
        """

    @abc.abstractmethod
    async def launch(self) -> None:
        """Run what `make` has created, and return once it is running.

        Raises:
            StartError: It could not be started, with the platform's own reason.
        """

    async def discard(self) -> None:
        """End a unit that was made but never started, on platforms that keep something running for it."""

    @abc.abstractmethod
    async def terminate(self, grace: float) -> None:
        """Ask it to end (TERM); the caller waits for it afterwards. Called at most once.

        Args:
            grace: Seconds until `kill`, for platforms that enforce this themselves.
        """

    @abc.abstractmethod
    async def kill(self) -> None:
        """End it and its whole process tree; the caller waits for it afterwards."""

    async def remove(self) -> None:
        """Remove everything that was made, even if only part of it exists; report the rest with `leak`."""

    # --- called by a subclass

    def follow(self, tasks: TaskGroup, work: Callable[[], Awaitable[None]]) -> None:
        """Watch the unit in a task shielded from cancellation, until `work` is done or `stop_watching` is called.

        Args:
            tasks: The task group in which it runs.
            work: Watches the unit and calls `finish` when it has ended.
        """
        # Shielded: cancelling the body stops the units, and this task then ends by itself
        scope = self._following = anyio.CancelScope(shield=True)

        async def watch() -> None:
            with scope:
                await work()

        # Not the task group's start(): when cancelled, that would wait for a task that is shielded from it
        tasks.start_soon(watch, name=f"unit {self.name}")

    def stop_watching(self) -> None:
        """Stop watching it; nothing needs its end any more."""
        self._following.cancel()

    def tell(self, kind: Callable[..., BaseEvent], **details: object) -> None:
        """Publish an event about this unit.

        Args:
            kind: The event's class; `unit`, `component` and `slot` are filled in.
            details: Its other fields.
        """
        self.publish(kind(unit=self.name, component=self.spec.component, slot=self.spec.slot, **details))

    def leak(self, what: str, reason: str) -> None:
        """Publish that part of it could not be removed, and why."""
        self.publish(LeakFound(what=what, reason=reason))

    def mark_started(self, since: float | None = None) -> None:
        """Record that it is running; only the first call counts. `start` calls this after `launch` if needed.

        Args:
            since: When it started, on the event loop's clock; None: now.
        """
        if not self.started.is_set() and self._exit is None:
            self.started_at = anyio.current_time() if since is None else since
            self.tell(UnitStarted)
            self.started.set()

    def finish(self, exit: Exit) -> None:
        """Record how it ended and wake waiting tasks; only the first call counts. Its logs must be complete.

        An event is published if the unit had started.
        """
        if self._exit is not None:
            return
        self._exit = exit
        if self.started.is_set():
            self.tell(UnitExited, exit=exit)
        self.ended.set()

    def stranger(self, port: str) -> str:
        """Name another program that answers on a port of this unit; empty if the platform reserves the port."""
        return ""

    def variables(self, placement: Placement, image: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the unit's whole environment, secrets included, in which no proxy stands before `UnitSpec.direct`.

        Args:
            placement: The unit's placement.
            image: The variables that its image sets, where they can be known.
        """
        given = {**self.spec.environment(placement), **self.spec.secret_env}
        if self.spec.direct:
            seen = {**(image or {}), **given}
            given |= without_proxy(seen, self.spec.direct)
            self._proxies = proxies_of(seen)
        return given

    def missing_hint(self, tail: str) -> str:
        """Say that a proxy was asked for what is reached directly, or what to install."""
        return asked_proxy(self._proxies, tail) or super().missing_hint(tail)

    def inside(self) -> Placement:
        """The placement of a unit with its own file system and network: its mounts, and all interfaces."""
        spec = self.spec
        return Placement(
            directory=spec.mount.rstrip("/") if spec.directory is not None else "",
            inputs=INPUTS_MOUNT if spec.inputs is not None else "",
            listen_host="0.0.0.0",  # noqa: S104 - inside it
            listen={port.name: port.number for port in spec.ports},
            endpoints={port.name: self.endpoint(port.name) for port in spec.ports},
        )

    # --- called by a backend

    async def create(self) -> None:
        """Create the unit.

        Raises:
            StartError: It could not be created.
        """
        await self.make()
        self.tell(UnitCreated)

    async def close(self, grace: float) -> None:
        """Stop the unit and remove everything that belongs to it; publish what could not be removed."""
        await self.stop(grace)
        await self.remove()
        self.removed = True

    def abandon(self) -> None:
        """Give up on it because the platform does not respond."""
        self.finish(Exit(reason="lost", detail="it could not be removed"))
        self.stop_watching()

    # --- the contract

    @property
    def exit(self) -> Exit | None:
        """How it ended, or None while it has not."""
        return self._exit

    async def start(self) -> None:
        """Start it. Does nothing if it has started already, and raises again if starting it failed.

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
                    hint="It was stopped meanwhile, or its supervising process was killed.",
                    context={"unit": self.name},
                )
            try:
                await self.launch()
            except StartError as error:
                self._failure = error
                raise
            self.mark_started()

    async def stop(self, grace: float = 5.0) -> Exit:
        """Send TERM, then KILL after `grace` seconds."""
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
            with self.backend.grace_period(grace):
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
        return self.logs.truncated

    async def log_tail(self, limit: int = 4000) -> str:
        """The end of its logs as text."""
        return await self.logs.tail(limit)

    async def wait_ready(self, probe: HttpProbe) -> float:
        """Wait until it answers the probe."""
        seconds = await wait_until_ready(
            self,
            probe,
            since=self.started_at or anyio.current_time(),
            stranger=lambda: self.stranger(probe.port),
        )
        self.tell(UnitReady, seconds=seconds)
        return seconds

    def written(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[str]]:
        """Stream names of files in its directory as they are completed, if the directory is on this machine."""
        if self.spec.directory is None:
            raise TransferError(f"{self.name} has no directory of its own to watch.", context={"unit": self.name})
        return watch_directory(self.spec.directory, until=self.wait)

    async def left(self) -> tuple[str, ...]:
        """Names of the files in its directory, if that is on this machine."""
        return tuple(await anyio.to_thread.run_sync(list_files, self.spec.directory))

    async def fetch(self, name: str, target: Path, *, limit: int | None = None) -> int:
        """Copy a file out of its directory, if that is on this machine."""
        if self.spec.directory is None:
            raise FileNotFoundError(f"{self.name} has no directory of its own.")
        return await fetch_file(self.spec.directory, name, target, limit=limit)


# --- operations on all units ------------------------------------------------------------------------------------

_U = TypeVar("_U", bound=Unit)


async def _for_all(units: Sequence[_U], act: Callable[[_U], Awaitable[None]]) -> None:
    """Apply `act` to all units concurrently, and wait for all of them.

    Raises:
        CoworldError: The first failure, in the order of the units.
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
    """Refuse units whose name is already used in their run, for backends where units find each other by name.

    Args:
        units: The new units.
        of_run: Returns the names that a run (by id) already uses.

    Raises:
        UsageError: `unit_name_taken`.
    """
    names = [(unit.spec.run_id, unit.name) for unit in units]
    for index, (run_id, name) in enumerate(names):
        if name in of_run(run_id) or names[index] in names[:index]:
            raise UsageError(
                f"Run {run_id} has a unit {name!r} already.", code="unit_name_taken", context={"unit": name}
            )


async def _close_all(units: Sequence[BaseUnit], grace: float, *, timeout: float = REMOVE_SECONDS) -> None:
    """Stop and remove all units at once, shielded from cancellation, within a deadline.

    Never raises: a unit that could not be removed in time counts as lost and is published as a leak.

    Args:
        units: The units, in any state.
        grace: Seconds between TERM and KILL.
        timeout: Further seconds that removal may take.
    """
    reasons: dict[str, str] = {}

    async def close(unit: BaseUnit) -> None:
        try:
            await unit.close(grace)
        except CoworldError as error:
            reasons[unit.name] = error.message

    with anyio.move_on_after(grace + timeout, shield=True):
        async with anyio.create_task_group() as tasks:
            for unit in units:
                tasks.start_soon(close, unit)
    for unit in units:
        if not unit.removed:
            unit.abandon()
            why = reasons.get(unit.name) or unit.backend.trouble() or f"it was not removed within {grace + timeout:g} s"
            unit.leak(unit.label, why)


class BaseBackend(Backend):
    """Base class of backends. A subclass defines its units (`unit` or `group`) and finds them (`find_units`).

    It also declares its capabilities and provides images. Run directories are always on this machine, wherever the
    units run, so this class finds and removes them.
    """

    remove_seconds: ClassVar[float] = REMOVE_SECONDS
    """Seconds that removal may take beyond the grace period before the remaining units are reported."""
    removal: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Kinds of found objects, in the order of removal. Kinds in one entry are removed together; kinds not listed are
    not removed. Empty: everything at once."""

    # --- implemented by a subclass; not abstract, because one may override their callers: `group`, `find`, `reap`

    def unit(self, spec: UnitSpec, *, publish: Publish, tasks: TaskGroup) -> BaseUnit:
        """Return a unit that has not been created yet.

        Args:
            spec: What it runs; within this backend's capabilities.
            publish: Receives its events.
            tasks: The task group for tasks that watch it until it is removed. It is cancelled with the body, so a task
                that must still see the unit's end needs a shield.

        Raises:
            CoworldError: It cannot be made here; nothing has been made.
        """
        raise NotImplementedError

    @asynccontextmanager
    async def group(
        self, specs: Sequence[UnitSpec], *, publish: Publish, tasks: TaskGroup
    ) -> AsyncGenerator[Sequence[BaseUnit], None]:
        """Yield the units of one call, not created yet, while the resources that they share exist.

        Here that is the run's directory. Shared resources are released on leaving, after the units have been removed.

        Args:
            specs: What they run; at least one, and within this backend's capabilities.
            publish: Receives their events.
            tasks: As for `unit`.

        Raises:
            CoworldError: A unit cannot be made here; nothing has been made.
        """
        async with AsyncExitStack() as stack:
            for run_id in dict.fromkeys(spec.run_id for spec in specs):
                # The run's directory marks the run as alive, so create a temporary one if the caller has none
                if not (scratch_root() / run_id).is_dir():
                    await stack.enter_async_context(open_scratch(run_id, on_leak=_leak(publish)))
            yield [self.unit(spec, publish=publish, tasks=tasks) for spec in specs]

    async def find_units(self, run_id: str | None) -> Sequence[Found]:
        """Existing objects of units, found by label: of one run, or of all."""
        raise NotImplementedError

    async def remove_found(self, found: Found) -> str:
        """Remove an object that `find_units` found; returns why it could not be removed, or an empty string."""
        raise NotImplementedError

    async def reap_units(self, found: Sequence[Found], *, force: bool) -> Sequence[Reaped]:
        """Remove found objects, in the order of `removal`; a live runner's objects only with `force`."""
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
        """Do nothing: there is nothing to open."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Do nothing: there is nothing to close."""

    async def check(self) -> tuple[Issue, ...]:
        """Return no issues: this backend has no requirements."""
        return ()

    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        """Create units concurrently, and remove them on leaving.

        Raises:
            CapabilityError: A spec asks for a feature that this backend cannot enforce.
            StartError: A unit could not be created or started.
        """
        self.refuse_unenforceable(specs)
        if not specs:
            yield ()
            return
        async with nursery() as tasks, self.group(specs, publish=publish, tasks=tasks) as units:
            try:
                # No unit runs before all have been created
                await _for_all(units, lambda unit: unit.create())
                if start:
                    await _for_all(units, lambda unit: unit.start())
                yield tuple(units)
            finally:
                await _close_all(units, grace, timeout=self.remove_seconds)

    async def find(self, run_id: str | None = None) -> tuple[Found, ...]:
        """Existing units, and the directories of runs."""
        units = await self.find_units(run_id)
        return (*units, *await anyio.to_thread.run_sync(find_scratch, run_id))

    async def reap(self, found: Sequence[Found], *, force: bool = False) -> tuple[Reaped, ...]:
        """Remove what was found. Directories come last, when no unit writes into them any more."""
        units = await self.reap_units([item for item in found if item.kind != "directory"], force=force)
        return (*units, *await anyio.to_thread.run_sync(lambda: reap_scratch(found, force=force)))


def _leak(publish: Publish) -> Callable[[Path, str], None]:
    def publish_leak(path: Path, reason: str) -> None:
        publish(LeakFound(what=f"directory {path}", reason=reason))

    return publish_leak
