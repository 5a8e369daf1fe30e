"""One container as a unit: created, started, followed to its end and removed."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coworld_core.docker_address import EngineGone, EngineRefused
from coworld_core.episode.outcome import Exit
from coworld_core.errors import StartError, TransferError

from ...backend import Backend, Endpoint, Publish, UnitSpec
from ...runs._task_groups import nursery
from ..base import LOCALHOST, BaseUnit, port_taken
from ..collector.listening_ports import listens_elsewhere
from ..engine import Signal, Signals
from ..process._shim import descendants
from ._container_files import fetch_archived, hand_back
from ._container_logs import follow_logs
from ._container_networks import UnitNetworks, uncancelled
from ._container_spec import command, container_body, exit_of, image_variables, programs
from ._docker_labels import labels_of, object_name, remove_container
from ._emulation import Emulation
from ._engine import Engine, path_segment
from ._inspection import (
    DiskLooks,
    exceeded_pids,
    explained,
    image_of,
    ran_out_of_memory,
    require_program,
    start_error,
    state_of,
)
from ._run_networks import SharedNetwork

__all__ = ["ContainerContext", "DockerUnit", "Run"]

_PORT_TRIES = 5
_SETTLED_SECONDS = 1.0
"""How long after its start a unit is first watched for its limits of memory and processes."""


@dataclass
class Run:
    """State shared by the units of one run."""

    open: SharedNetwork
    units: dict[str, DockerUnit] = field(default_factory=dict[str, "DockerUnit"])


@dataclass(frozen=True)
class ContainerContext:
    """Where a unit lives: the engine, its run, and the task group that follows it."""

    engine: Engine
    emulation: Emulation
    run: Run
    tasks: TaskGroup
    found: set[tuple[str, ...]]
    """Programs known to be in their images, over all runs."""


@dataclass
class _Attempt:
    """One attempt at starting a unit."""

    attached: anyio.Event = field(default_factory=anyio.Event)
    """Set when its output is being read, or when `error` says why not."""
    error: EngineRefused | EngineGone | None = None


class DockerUnit(BaseUnit):
    """A unit that runs as a container. Created by `DockerBackend.units`."""

    def __init__(self, spec: UnitSpec, context: ContainerContext, *, backend: Backend, publish: Publish) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self._tasks = context.tasks
        self._signals = Signals(self, self._send)
        self._engine = context.engine
        self._emulation = context.emulation
        self._run = context.run
        self._found = context.found
        self._container = object_name(spec.run_id, spec.name)
        """Its name, known before it exists."""
        self._id = ""
        self._pid = 0
        """The pid of its first process, on the engine's machine; 0: none."""
        self._networks = UnitNetworks(self._engine, spec, self._run.open)
        self._ports: dict[str, int] = {}
        self._tried = anyio.Event()
        """Set when it has been created, or never will be."""

    # --- what it is

    @property
    def id(self) -> str:
        """The container's id; its name until it has one."""
        return self._id or self._container

    @property
    def label(self) -> str:
        """Its name in the report of a failed removal."""
        return f"container {self._container}, with its networks"

    def endpoint(self, port: str = "http") -> Endpoint:
        """How to reach a port: on loopback from this machine, by the unit's name for its clients."""
        number = {item.name: item.number for item in self.spec.ports}[port]
        return Endpoint(here=f"{LOCALHOST}:{self._ports.get(port, 0)}", there=f"{self.name}:{number}")

    def processes(self) -> Iterable[int]:
        """Its processes, if the engine runs on this machine; otherwise none."""
        if not self._pid or self.exit is not None:
            return ()
        try:
            ours = self._id in Path(f"/proc/{self._pid}/cgroup").read_text("ascii")
        except (OSError, ValueError):
            return ()
        # On another machine's engine, the pid is that of an unrelated process here
        return (self._pid, *descendants(self._pid)) if ours else ()

    def missed(self, port: str) -> str:
        """Where its programs listen instead, if the engine runs on this machine."""
        number = {item.name: item.number for item in self.spec.ports}[port]
        return listens_elsewhere(number, f"/proc/{self._pid}/net") if self.processes() else ""

    @property
    def _path(self) -> str:
        return f"/containers/{path_segment(self._container)}"

    # --- made

    async def make(self) -> None:
        """Create it with its networks; nothing runs yet.

        Raises:
            StartError: It could not be created; `remove` cleans up what was created.
        """
        try:
            peers = [self._peer(name) for name in (self.spec.connects_to, *self.spec.proxies) if name is not None]
            await self._networks.make([peer.spec for peer in peers])
            await self._make_container()
            for peer in peers:
                if network := self._networks.private.get(peer.name):
                    await peer.join(network)
        except (EngineRefused, EngineGone) as error:
            raise start_error(self.spec, "created", error) from error
        finally:
            self._tried.set()

    def _peer(self, name: str) -> DockerUnit:
        peer = self._run.units.get(name)
        if peer is None:
            raise StartError(
                f"{self.name} connects to {name!r}, which is not a unit of its run here.",
                code="peer_unknown",
                hint="Create the unit it connects to first, or in the same call.",
                context={"unit": self.name},
            )
        return peer

    async def _make_container(self) -> None:
        spec = self.spec
        image = await image_of(self._engine, spec)
        for port in spec.ports:
            self._ports[port.name] = port.host_port or (_free_port() if port.fixed else 0)
        environment = self.variables(self.inside(), image_variables(image))
        first, *others = self._networks.made or (None,)
        body = container_body(
            spec, image=image, environment=environment, labels=labels_of(spec), network=first, ports=self._ports
        )

        async def create() -> None:
            made = await self._engine.call(
                "POST",
                "/containers/create",
                query={"name": self._container, "platform": spec.platform},
                body=body,
            )
            self._id = str(made["Id"])

        await uncancelled(create)
        for name in (*others, *self._networks.joined):
            await self._connect(str(name))
        known = (str(image.get("Id")), *programs(command(spec, image)[0], image, environment))
        if known not in self._found:
            program = command(spec, image)[0]
            await require_program(self._engine, self._emulation, self._container, spec, program, known[1:])
            self._found.add(known)

    async def join(self, network: str) -> None:
        """Join the network of a client under the unit's own name, whether it is running or not."""
        await self._tried.wait()
        if not self._id:
            raise StartError(f"{self.name} could not be created.", code="peer_failed", context={"unit": self.name})
        self._networks.joined.append(network)
        try:
            await self._connect(network)
        except EngineRefused:
            # The other side may have ended already; its client finds that out by itself
            if not await self._has_ended():
                raise

    async def _connect(self, network: str) -> None:
        await self._engine.call(
            "POST",
            f"/networks/{path_segment(network)}/connect",
            body={"Container": self._container, "EndpointConfig": {"Aliases": [self.name]}},
        )

    # --- started

    async def launch(self) -> None:
        """Start it; if a port was taken in the meantime, try again with others.

        Raises:
            StartError: It could not be started.
        """
        for left in reversed(range(_PORT_TRIES)):
            try:
                self.mark_started(await self._start())
            except EngineRefused as error:
                if not re.search(r"port is already allocated|address already in use", error.server_message):
                    raise start_error(self.spec, "started", error) from error
                await self._ports_taken(error, last=left == 0)
            except EngineGone as error:
                raise start_error(self.spec, "started", error) from error
            else:
                return

    async def _start(self) -> float:
        """Try to start it; returns the time of the start, on the event loop's clock."""
        attempt = _Attempt()
        self.follow(self._tasks, partial(self._supervise, attempt))
        try:
            await attempt.attached.wait()
            if attempt.error is not None:
                raise attempt.error
            await self._engine.call("POST", f"{self._path}/start")
            since = anyio.current_time()
            described = await self._engine.call("GET", f"{self._path}/json")
            self._read_ports(described["NetworkSettings"]["Ports"] or {})
            self._pid = int(described["State"]["Pid"])
            return since
        except BaseException:
            # Stop following it; a container that started although we were cancelled is removed by name
            self.stop_watching()
            raise

    def _read_ports(self, published: Mapping[str, Any]) -> None:
        for port in self.spec.ports:
            for entry in published.get(f"{port.number}/tcp") or ():
                self._ports[port.name] = int(entry["HostPort"])

    async def _ports_taken(self, error: EngineRefused, *, last: bool) -> None:
        """Prepare another try with other ports, if we may choose them."""
        for port in self.spec.ports:
            number = port.host_port
            if number and re.search(rf":{number}\b", error.server_message):
                raise await anyio.to_thread.run_sync(port_taken, self.name, port.name, number) from error
        if last:
            raise start_error(self.spec, "started", error) from error
        if any(port.fixed and not port.host_port for port in self.spec.ports):
            # Its environment names the port that was taken
            await self._engine.call("DELETE", self._path, query={"force": True, "v": True})
            await self._make_container()

    async def _supervise(self, attempt: _Attempt) -> None:
        try:
            async with nursery() as beside:
                if self.spec.limits.of_disk:
                    beside.start_soon(self._watch_disk)
                beside.start_soon(self._watch_memory)
                beside.start_soon(self._watch_pids)
                await follow_logs(self.spec, self.logs, self._engine, self._path, attempt.attached)
                await self.started.wait()
                ended = await self._conclude()
        except (EngineRefused, EngineGone) as error:
            if not attempt.attached.is_set():
                attempt.error = error
                attempt.attached.set()
                return
            ended = Exit(reason="lost", detail=error.server_message)
        self.finish(ended)
        await self._networks.release()

    async def _watch_disk(self) -> None:
        """Kill it when it exceeds a disk limit. Each single file is also limited by the kernel."""
        looks = DiskLooks(self._engine, self._path, self.spec)
        await self.started.wait()
        while True:
            await self._signals.send("KILL", "disk", await looks.until_over())

    async def _watch_memory(self) -> None:
        """Kill it when the kernel kills one of its processes for its memory, which others may survive."""
        await self.started.wait()
        # What happened until then is reported too, and many units end sooner
        await anyio.sleep(_SETTLED_SECONDS)
        if await ran_out_of_memory(self._engine, self._id, self.spec, timeout=None):
            why = f"one of its processes, with {self.spec.limits.memory_bytes} bytes allowed for all"
            await self._signals.send("KILL", "oom", why)

    async def _watch_pids(self) -> None:
        """Kill it when it exceeds its limit of processes, where the kernel only refuses it more."""
        await self.started.wait()
        await anyio.sleep(_SETTLED_SECONDS)
        if await exceeded_pids(self._engine, self._path, self.spec):
            await self._signals.send("KILL", "pids", f"{self.spec.limits.pids} processes and threads allowed")

    async def _conclude(self) -> Exit:
        """Wait for its end and find out why it ended."""
        try:
            await self._engine.call("POST", f"{self._path}/wait", timeout=None)
            async with self._signals.lock:
                state = await state_of(self._engine, self._path)
        except EngineRefused as error:
            if self.ended_by is None:
                return Exit(reason="lost", detail=error.server_message)
            return Exit(reason=self.ended_by, detail=self._signals.why)
        except EngineGone as error:
            return Exit(reason="lost", detail=f"the engine stopped answering: {error.server_message}")
        if self.ended_by is None and state.get("Status") in ("removing", "dead"):
            return Exit(reason="lost", detail="its container was removed by somebody else")
        ended = exit_of(state, ours=self.ended_by, detail=self._signals.why)
        return await explained(self._engine, self._id, self._path, self.spec, ended)

    async def _has_ended(self) -> bool:
        try:
            return (await state_of(self._engine, self._path)).get("Status") in ("exited", "removing", "dead")
        except EngineRefused:
            return True

    # --- used

    async def fetch(self, name: str, target: Path, *, limit: int | None = None) -> int:
        """Copy a file out of its directory; one that only its container's user may read comes through the engine."""
        try:
            return await super().fetch(name, target, limit=limit)
        except TransferError as error:
            if not isinstance(error.__cause__, PermissionError) or self.removed or error.code != "transfer_failed":
                raise
            return await fetch_archived(self._engine, self._container, self.spec.mount, name, target, limit=limit)

    # --- ended

    async def terminate(self, grace: float) -> None:
        """Send TERM."""
        await self._signals.send("TERM")

    async def kill(self) -> None:
        """Send KILL."""
        await self._signals.send("KILL")

    async def _send(self, signal: Signal) -> bool:
        """Have the engine signal its first process."""
        try:
            await self._engine.call("POST", f"{self._path}/kill", query={"signal": f"SIG{signal}"})
        except (EngineRefused, EngineGone):
            return False
        return True

    async def remove(self) -> None:
        """Remove everything of the unit; publish what could not be removed."""
        self._tried.set()
        if not self.started.is_set():
            self.stop_watching()
        if self.spec.directory is not None:
            await hand_back(self._engine, self._container, self.spec.directory, self.spec.mount)
        reason = await remove_container(self._engine, self._container)
        if reason:
            self.leak(f"container {self._container}", reason)
        left = await self._networks.release()
        for name, why in left:
            self.leak(f"network {name}", why)
        self.stop_watching()


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOCALHOST, 0))
        return int(probe.getsockname()[1])
