"""One container as a unit: made, started, followed to its end, and taken away."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coworld_core.docker_engine import Answer, Engine, EngineGone, EngineRefused, path_segment
from coworld_core.errors import BackendError, StartError, TransferError
from coworld_core.outcome import Exit, ExitReason

from .._concurrency import nursery
from ..backend import Backend, Endpoint, Publish, UnitSpec
from ..errors import unwrapped
from ._docker_container import command, container_body, exit_of, programs
from ._docker_files import fetch_archived, hand_back
from ._docker_images import is_full
from ._docker_labels import labels_of, object_name, remove_container
from ._docker_networks import NetworkKind, SharedNetwork, drop_network, make_network
from .base import LOCALHOST, BaseUnit, CappedLog, port_taken, tree_size

__all__ = ["DockerUnit", "Place", "Run"]

_CREATE_SECONDS = 60.0
"""A creation under way is waited for even when cancelled, so that what came of it is known and removed."""
_PORT_TRIES = 5
_DISK_SECONDS = 1.0
"""Seconds between two looks at what a unit has written; the engine has no event for it."""
_OOM_SECONDS = 1.0
"""How long after its end the engine may tell that a container was killed for its memory."""
_DISK_SHARE = 20
"""A look may take at most one part in so many of the time."""

_T = TypeVar("_T")


@dataclass
class Run:
    """What the units of one run share."""

    open: SharedNetwork
    units: dict[str, DockerUnit] = field(default_factory=dict[str, "DockerUnit"])


@dataclass(frozen=True)
class Place:
    """Where a unit lives: the engine, its run, and who supervises it."""

    engine: Engine
    run: Run
    tasks: TaskGroup
    found: set[tuple[str, ...]]
    """Programs known to be in their images, over all runs."""


class _Attempt:
    """One attempt at starting a unit, and what follows the unit if it succeeds."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope(shield=True)
        self.attached = anyio.Event()
        """Set when its output is being read, or when ``error`` says why not."""
        self.error: EngineRefused | EngineGone | None = None


class DockerUnit(BaseUnit):
    """A container. Made by ``DockerBackend.units``."""

    def __init__(self, spec: UnitSpec, place: Place, *, backend: Backend, publish: Publish) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self._engine = place.engine
        self._run = place.run
        self._tasks = place.tasks
        self._found = place.found
        self._container = object_name(spec.run_id, spec.name)
        """Its name, known before it exists."""
        self._id = ""
        self._networks: dict[str, NetworkKind] = {}
        """Those it is put on when it is made, in order."""
        self._owned: list[str] = []
        self._shares_open = False
        self._joined: list[str] = []
        """Private networks of its clients."""
        self._ports: dict[str, int] = {}
        self._settled = anyio.Event()
        """Set when it is made, or never will be."""
        self._attempt: _Attempt | None = None
        self._signalling = anyio.Lock()
        self._ended_why = ""
        self._releasing = anyio.Lock()

    # --- what it is

    @property
    def id(self) -> str:
        """The container's id; its name until it has one."""
        return self._id or self._container

    @property
    def label(self) -> str:
        """What it is called when it could not be removed."""
        return f"container {self._container}, with its networks"

    def endpoint(self, port: str = "http") -> Endpoint:
        """How to reach a port: over loopback from here, by the unit's name from its clients."""
        number = {item.name: item.number for item in self.spec.ports}[port]
        return Endpoint(here=f"{LOCALHOST}:{self._ports.get(port, 0)}", there=f"{self.name}:{number}")

    @property
    def _path(self) -> str:
        return f"/containers/{path_segment(self._container)}"

    # --- made

    async def make(self) -> None:
        """Create it with its networks; nothing runs yet.

        Raises:
            StartError: It could not be created; ``remove`` takes away what came of it.
        """
        try:
            peer = self._peer()
            await self._make_networks(peer)
            await self._make_container()
            if peer is not None and (private := self._private(peer)) in self._networks:
                await peer.join(private)
        except (EngineRefused, EngineGone) as error:
            raise self._failed("created", error) from error
        finally:
            self._settled.set()

    def _peer(self) -> DockerUnit | None:
        if self.spec.connects_to is None:
            return None
        peer = self._run.units.get(self.spec.connects_to)
        if peer is None:
            raise StartError(
                f"{self.name} connects to {self.spec.connects_to!r}, which is no unit of its run here.",
                code="peer_unknown",
                hint="Make the unit it connects to first, or in the same call.",
                context={"unit": self.name},
            )
        return peer

    def _private(self, peer: DockerUnit) -> str:
        return object_name(self.spec.run_id, peer.name, self.name)

    async def _make_networks(self, peer: DockerUnit | None) -> None:
        spec = self.spec
        if spec.network == "open":
            await self._uncancelled(lambda: self._run.open.take(self._engine))
            self._shares_open = True
            self._networks[self._run.open.name] = "open"
        elif spec.ports or spec.clients:
            self._networks[object_name(spec.run_id, spec.name, "front")] = "front"
        if peer is not None and spec.network != "none" and not (spec.network == peer.spec.network == "open"):
            self._networks[self._private(peer)] = "private"
        labels = labels_of(spec)
        with unwrapped():
            async with anyio.create_task_group() as tasks:
                for name, kind in self._networks.items():
                    if kind != "open":
                        self._owned.append(name)
                        tasks.start_soon(self._make_network, name, kind, labels)

    async def _make_network(self, name: str, kind: NetworkKind, labels: Mapping[str, str]) -> None:
        await self._uncancelled(lambda: make_network(self._engine, name, kind, labels))

    async def _make_container(self) -> None:
        spec = self.spec
        image = await self._image()
        for port in spec.ports:
            self._ports[port.name] = port.host_port or (_free_port() if port.fixed else 0)
        environment = {**spec.environment(self.inside()), **spec.secret_env}
        first, *others = self._networks or [None]
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

        await self._uncancelled(create)
        for name in (*others, *self._joined):
            await self._connect(str(name))
        await self._check_program(image, environment)

    async def _image(self) -> Mapping[str, Any]:
        try:
            return await self._engine.call("GET", f"/images/{path_segment(self.spec.image)}/json")
        except EngineRefused as error:
            if error.status != 404:
                raise
            raise StartError(
                f"{self.name} cannot be created: the image {self.spec.image!r} is not on this machine.",
                code="image_missing",
                hint="Build or pull it first.",
                context={"unit": self.name, "image": self.spec.image},
            ) from error

    async def _check_program(self, image: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """See that its program is there: the init process starts even when there is nothing for it to run."""
        whole = command(self.spec, image)
        context = {"unit": self.name, "image": self.spec.image}
        paths = programs(whole[0], image, environment)
        known = (str(image.get("Id")), *paths)
        if known in self._found:
            return
        reason = "there is no such file"
        for path in paths:
            found = await self._engine.stat(self._container, path)
            if found is None:
                continue
            if found.executable and not found.directory:
                self._found.add(known)
                return
            reason = "it is a directory" if found.directory else "it is not executable"
        raise StartError(
            f"{self.name} cannot be started: {whole[0]!r} cannot be run in the image {self.spec.image!r}: {reason}.",
            code="command_failed",
            hint="Correct the runnable's `run`, or put the program into the image.",
            context={**context, "program": whole[0]},
        )

    async def join(self, network: str) -> None:
        """Be put on the network of a client, under the unit's own name; it may be running already or not yet."""
        await self._settled.wait()
        if not self._id:
            raise StartError(f"{self.name} could not be created.", code="peer_failed", context={"unit": self.name})
        self._joined.append(network)
        try:
            await self._connect(network)
        except EngineRefused:
            # no harm in being the client of something that has ended: that is for the client to find out
            if not await self._has_ended():
                raise

    async def _connect(self, network: str) -> None:
        await self._engine.call(
            "POST",
            f"/networks/{path_segment(network)}/connect",
            body={"Container": self._container, "EndpointConfig": {"Aliases": [self.name]}},
        )

    async def _uncancelled(self, call: Callable[[], Awaitable[_T]]) -> _T:
        try:
            with anyio.fail_after(_CREATE_SECONDS, shield=True):
                return await call()
        except TimeoutError as error:
            raise EngineGone("create", f"no answer within {_CREATE_SECONDS:g} s") from error

    def _failed(self, what: str, error: EngineRefused | EngineGone) -> BackendError:
        context: dict[str, object] = {"unit": self.name, "image": self.spec.image}
        words = error.words
        code, hint = None, None
        if is_full(words):
            code, hint = "disk_full", "Make room where the engine keeps its containers: docker system df."
        elif "docker-init" in words:
            code, hint = "init_missing", "The engine lacks docker-init: install it (on Debian: apt-get install tini)."
        elif "bind source path does not exist" in words:
            hint = "The engine does not see this machine's files: use one that runs here, not in another container."
        elif re.search("no command specified", words, re.IGNORECASE):
            code = "command_failed"
            hint = "Give the runnable a `run` in the manifest, or the image an ENTRYPOINT or CMD."
        elif re.search(r"exec:|unable to find (user|group)|no matching entries in|chdir to cwd|working dir", words):
            code, hint = "command_failed", "The image cannot be run as it is: correct its command, user or directory."
        elif isinstance(error, EngineGone):
            code, hint = error.code, error.hint
        return StartError(f"{self.name} could not be {what}: {words}", code=code, hint=hint, context=context)

    # --- started

    async def launch(self) -> None:
        """Start it, under other ports when those that it was to have were lost.

        Raises:
            StartError: It could not be started.
        """
        for left in reversed(range(_PORT_TRIES)):
            try:
                self.mark_started(await self._start())
            except EngineRefused as error:
                if not re.search(r"port is already allocated|address already in use", error.words):
                    raise self._failed("started", error) from error
                await self._ports_taken(error, last=left == 0)
            except EngineGone as error:
                raise self._failed("started", error) from error
            else:
                return

    async def _start(self) -> float:
        """Try to start it; returns when that was."""
        attempt = self._attempt = _Attempt()
        # not with the task group's own start(): cancelled, it would wait for a task that is shielded from it
        self._tasks.start_soon(self._supervise, attempt, name=f"unit {self.name}")
        try:
            await attempt.attached.wait()
            if attempt.error is not None:
                raise attempt.error
            await self._engine.call("POST", f"{self._path}/start")
            since = anyio.current_time()
            if self.spec.ports:
                described = await self._engine.call("GET", f"{self._path}/json")
                self._read_ports(described["NetworkSettings"]["Ports"] or {})
            return since
        except BaseException:
            # nobody follows what does not run; what was started although we were cancelled is removed by name
            attempt.scope.cancel()
            raise

    def _read_ports(self, published: Mapping[str, Any]) -> None:
        for port in self.spec.ports:
            for entry in published.get(f"{port.number}/tcp") or ():
                self._ports[port.name] = int(entry["HostPort"])

    async def _ports_taken(self, error: EngineRefused, *, last: bool) -> None:
        """Get ready for another try with other ports, where they are ours to choose."""
        for port in self.spec.ports:
            number = port.host_port
            if number and re.search(rf":{number}\b", error.words):
                raise await anyio.to_thread.run_sync(port_taken, self.name, port.name, number) from error
        if last:
            raise self._failed("started", error) from error
        if any(port.fixed and not port.host_port for port in self.spec.ports):
            # its environment names the port that was lost
            await self._engine.call("DELETE", self._path, query={"force": True, "v": True})
            await self._make_container()

    async def _supervise(self, attempt: _Attempt) -> None:
        # shielded: what is cancelled is the body; units are stopped, and this then ends by itself
        with attempt.scope:
            try:
                async with nursery() as beside:
                    if self.spec.limits.disk_bytes is not None:
                        beside.start_soon(self._watch_disk, self.spec.limits.disk_bytes)
                    await self._follow_logs(attempt)
                    await self.started.wait()
                    ended = await self._conclude()
            except (EngineRefused, EngineGone) as error:
                if not attempt.attached.is_set():
                    attempt.error = error
                    attempt.attached.set()
                    return
                ended = Exit(reason="lost", detail=error.words)
            self.finish(ended)
            await self._release()

    async def _follow_logs(self, attempt: _Attempt) -> None:
        """Write what it says to its files until it ends. Attached before it starts, so nothing is missed."""
        spec = self.spec
        logs: dict[int, CappedLog] = {}
        try:
            if spec.stdout is not None:
                logs[1] = logs[2] = self.open_log(spec.stdout)
            if spec.stderr is not None:
                logs[2] = self.open_log(spec.stderr)
            if not logs:
                attempt.attached.set()
                return
            async with self._engine.stream(
                "POST", f"{self._path}/attach", query={"stream": True, "stdout": 1 in logs, "stderr": True}
            ) as output:
                attempt.attached.set()
                await _demultiplex(output, logs)
        except EngineGone:
            # in the middle, it is asked next how the unit ended, if it did
            if not attempt.attached.is_set():
                raise
        finally:
            for log in set(logs.values()):
                self.close_log(log)

    async def _watch_disk(self, limit: int) -> None:
        """End it when it has written too much. The kernel keeps each single file from growing far beyond."""
        await self.started.wait()
        pause = _DISK_SECONDS
        while True:
            await anyio.sleep(pause)
            begun = anyio.current_time()
            used = await self._written_bytes()
            pause = max(_DISK_SECONDS, _DISK_SHARE * (anyio.current_time() - begun))
            if used > limit:
                await self._signal("SIGKILL", "disk", _over(used, limit))

    async def _written_bytes(self) -> int:
        """Bytes in the container's own layer and in the unit's directory; what cannot be seen counts as nothing."""
        try:
            described = await self._engine.call("GET", f"{self._path}/json", query={"size": True})
        except (EngineRefused, EngineGone):
            return 0
        used = int(described.get("SizeRw") or 0)
        if self.spec.directory is not None:
            used += await anyio.to_thread.run_sync(tree_size, self.spec.directory)
        return used

    async def _conclude(self) -> Exit:
        """Wait for its end and find out how it came."""
        try:
            await self._engine.call("POST", f"{self._path}/wait", timeout=None)
            async with self._signalling:
                state = await self._state()
        except EngineRefused as error:
            if self.ended_by is None:
                return Exit(reason="lost", detail=error.words)
            return Exit(reason=self.ended_by, detail=self._ended_why)
        except EngineGone as error:
            return Exit(reason="lost", detail=f"the engine stopped answering: {error.words}")
        if self.ended_by is None and state.get("Status") in ("removing", "dead"):
            return Exit(reason="lost", detail="its container was removed by somebody else")
        ended = exit_of(state, ours=self.ended_by, detail=self._ended_why)
        if ended.reason == "signal" and ended.signal == signal.SIGKILL and await self._ran_out_of_memory():
            return ended.model_copy(update={"reason": "oom"})
        limit = self.spec.limits.disk_bytes
        if limit is not None and ended.reason in ("exited", "signal") and not ended.ok:
            # a program that may not write any more ends by itself, often before anybody has looked
            used = await self._written_bytes()
            if used > limit:
                return ended.model_copy(update={"reason": "disk", "detail": _over(used, limit)})
        return ended

    async def _ran_out_of_memory(self) -> bool:
        """Whether the kernel killed it for its memory: told apart, and sometimes after the end it is the cause of."""
        if self.spec.limits.memory_bytes is None:
            return False
        asked = {
            # those that the engine still knows, and what comes
            "since": 1,
            "until": f"{time.time() + _OOM_SECONDS:.9f}",
            "filters": {"type": ["container"], "container": [self._id], "event": ["oom"]},
        }
        try:
            async with self._engine.stream("GET", "/events", query=asked) as events:
                async for _ in events:
                    return True
        except (EngineRefused, EngineGone):
            pass  # its end is known all the same
        return False

    async def _state(self) -> Mapping[str, Any]:
        return (await self._engine.call("GET", f"{self._path}/json"))["State"]

    async def _has_ended(self) -> bool:
        try:
            return (await self._state()).get("Status") in ("exited", "removing", "dead")
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
        """TERM."""
        await self._signal("SIGTERM", "stopped")

    async def kill(self) -> None:
        """KILL."""
        await self._signal("SIGKILL", "stopped")

    async def _signal(self, signal: str, reason: ExitReason, why: str = "") -> None:
        """Send a signal, and remember why if it arrived: what had ended already did so by itself."""
        # shielded: whether it arrived must be known, or its end would look like the unit's own
        with anyio.move_on_after(self.kill_seconds, shield=True):
            async with self._signalling:
                if self.exit is not None:
                    return
                try:
                    await self._engine.call("POST", f"{self._path}/kill", query={"signal": signal})
                except (EngineRefused, EngineGone):
                    return
                if self.ended_by is None:
                    self.ended_by, self._ended_why = reason, why

    async def _release(self) -> list[tuple[str, str]]:
        """Give its networks back; returns names and reasons of those that are still there."""
        left: list[tuple[str, str]] = []

        async def drop(name: str) -> None:
            reason = await drop_network(self._engine, name)
            if reason:
                left.append((name, reason))
            else:
                self._owned.remove(name)

        async with self._releasing:
            async with anyio.create_task_group() as tasks:
                for name in tuple(self._owned):
                    tasks.start_soon(drop, name)
            if self._shares_open:
                reason = await self._run.open.give(self._engine)
                self._shares_open = bool(reason)
                if reason:
                    left.append((self._run.open.name, reason))
        return left

    async def remove(self) -> None:
        """Remove everything of it; what could not be removed is published."""
        self._settled.set()
        if not self.started.is_set():
            self.forsake()
        if self.spec.directory is not None:
            await hand_back(self._engine, self._container, self.spec.directory, self.spec.mount)
        reason = await remove_container(self._engine, self._container)
        if reason:
            self.leak(f"container {self._container}", reason)
        left = await self._release()
        for name, why in left:
            self.leak(f"network {name}", why)
        self.forsake()

    def forsake(self) -> None:
        """End what follows it, if anything still does."""
        if self._attempt is not None:
            self._attempt.scope.cancel()


async def _demultiplex(output: Answer, logs: Mapping[int, CappedLog]) -> None:
    """Split the engine's stream into the two of the container (header: stream, three zeros, length)."""
    head = b""
    left = 0
    log: CappedLog | None = None
    async for data in output:
        view = memoryview(data)
        while view:
            if left:
                part, view = view[:left], view[left:]
                left -= len(part)
                if log is not None:
                    log.write(bytes(part))
                continue
            need = 8 - len(head)
            head, view = head + bytes(view[:need]), view[need:]
            if len(head) == 8:
                log, left, head = logs.get(head[0]), int.from_bytes(head[4:], "big"), b""
        if all(log.truncated for log in logs.values()):
            # nothing more is kept; the engine drops the rest more cheaply than we could
            return


def _over(used: int, limit: int) -> str:
    return f"{used} bytes written, {limit} allowed"


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOCALHOST, 0))
        return int(probe.getsockname()[1])
