"""One pod as a unit: created, started, followed to its end and removed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream

from coworld_core.episode.events import Notice, UnitReady
from coworld_core.episode.outcome import Exit
from coworld_core.errors import BackendError, NotReadyError, StartError, TransferError
from coworld_core.hints import Hint

from ...backend import Backend, Endpoint, HttpProbe, Publish, UnitSpec
from ...errors import unwrapped
from ...runs._task_groups import cancel_after, nursery
from ..base import LOCALHOST, BaseUnit, wait_until_ready
from ..engine import Signal, Signals
from ..start_causes import IMAGE_CODES
from . import _pod_state as state
from ._admission import is_restricted
from ._cluster import Cluster, ClusterGone, ClusterRefused
from ._cluster_capacity import ClusterCapacity
from ._collector_client import Collector, CollectorGone
from ._local_ports import LocalPorts
from ._pod_objects import (
    MAIN,
    PodGroup,
    PodOptions,
    UnitFiles,
    collector_port,
    object_name,
    pod_body,
    policy_body,
    queue_of,
    secret_body,
    service_body,
)
from ._run_job import Run
from ._start_attempts import advice
from ._watched_unit import Presence, WatchedPod
from ._written_files import Written
from .pod_overlay import RESTRICTED_USER, allows_no_root

__all__ = ["KubernetesUnit", "PodContext"]

_CREATE_SECONDS = 60.0
"""How long a cancelled creation is still awaited, so that its result is known and can be removed."""
_END_SECONDS = 45.0
"""How long a pod may take to end; after that it is deleted without waiting for its node."""
_ASK_AGAIN = 0.5
"""Seconds between attempts to reach a collector that does not answer."""
_SIGKILL = 9

_T = TypeVar("_T")


@dataclass(frozen=True)
class PodContext:
    """Where a unit lives: the cluster, its run, the call that made it, and the task group that follows it."""

    cluster: Cluster
    run: Run
    call: str
    tasks: TaskGroup
    options: PodOptions
    room: ClusterCapacity


class KubernetesUnit(BaseUnit):
    """A unit that runs as a pod. Created by `KubernetesBackend.units`."""

    def __init__(self, spec: UnitSpec, context: PodContext, *, backend: Backend, publish: Publish) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self._pods = context
        self._cluster = context.cluster
        self._signals = Signals(self, self._send)
        self.pod = WatchedPod(
            self,
            cluster=context.cluster,
            tasks=context.tasks,
            name=object_name(spec.run_id, spec.name),
            explain=self._explain,
            forbidden_hint=Hint("check_permissions", "KubernetesBackend.check says what is not permitted."),
            pending=context.room.wait_timeout,
            on_wait=self._note_waiting,
            settle=self._settle,
            signalling=self._signals.lock,
        )
        self._token = secrets.token_urlsafe(24)
        self._collector = Collector(context.cluster, self.pod.name, collector_port(spec), self._token)
        self._owner: Mapping[str, Any] = {}
        self._environment: dict[str, str] = {}
        self._given = UnitFiles()
        self._service = ""
        """The address of its service; empty: that has none of its own."""
        self._mates: Sequence[KubernetesUnit] = (self,)
        """The units whose pods it makes."""
        self._group: PodGroup | None = None
        self._held = False
        """Whether another makes its pod, which is held back until its launch."""
        self._ports = LocalPorts(context.cluster, self.pod.name)
        self._written = Written(self, self.pod, self._collector)

    # --- what it is

    @property
    def id(self) -> str:
        """The pod's namespace and name."""
        return self.pod.id

    def endpoint(self, port: str = "http") -> Endpoint:
        """How to reach a port: through a forwarded port on loopback, or at the pod's own address for its clients."""
        number = {item.name: item.number for item in self.spec.ports}[port]
        address = self._service or state.pod_address(self.pod.state) or f"{self.pod.name}.{self._cluster.namespace}"
        return Endpoint(here=f"{LOCALHOST}:{self._ports.number(port)}", there=f"{address}:{number}")

    @property
    def image_digest(self) -> str:
        """The digest by which its node names the image."""
        return state.image_digest(self.pod.state)

    @property
    def trouble(self) -> str:
        """Why the pod can no longer be observed, in words; empty while it can."""
        if self.pod.presence is Presence.GONE:
            return ""
        if node := state.silent_node(self.pod.state):
            return f"node {node} has stopped reporting, and with it pod {self.id}"
        return ""

    @property
    def _in_reach(self) -> bool:
        """Whether its collector may still answer."""
        return self.pod.presence is Presence.MADE and not state.is_over(self.pod.state)

    # --- made

    async def make(self) -> None:
        """Create everything but the pod, which would run at once.

        Raises:
            StartError: Something could not be created; `remove` removes the rest.
        """
        spec, call = self.spec, self._pods.call
        await self._ports.open(spec, self._pods.tasks)
        self._environment = self.variables(self.inside())
        self._given = await anyio.to_thread.run_sync(UnitFiles.of, spec)
        try:
            owner = self._owner = await self._uncancelled(lambda: self._pods.run.owner(self.publish))
            secret = secret_body(
                spec,
                call,
                owner,
                environment=self._environment,
                files=self._given,
                token=self._token,
            )
            with unwrapped():
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._make, "secrets", secret)
                    if spec.ports and spec.clients:
                        tasks.start_soon(self._make_service)
                    if spec.network != "open":
                        tasks.start_soon(self._make, "networkpolicies", policy_body(spec, call, owner))
        except (ClusterRefused, ClusterGone) as error:
            raise self.pod.refused("objects", error) from error

    async def _make(self, kind: Any, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._uncancelled(lambda: self._cluster.create(kind, body))

    async def _make_service(self) -> None:
        # Those who come with it in a group are told where it is before its pod has an address
        grouped = bool(self._queue)
        made = await self._make("services", service_body(self.spec, self._pods.call, self._owner, has_address=grouped))
        if grouped:
            address = str(made["spec"]["clusterIP"])
            self._service = f"[{address}]" if ":" in address else address

    @property
    def _queue(self) -> str:
        return queue_of(self.spec.component, self._pods.options)

    async def _uncancelled(self, call: Callable[[], Awaitable[_T]]) -> _T:
        try:
            with anyio.fail_after(_CREATE_SECONDS, shield=True):
                return await call()
        except TimeoutError as error:
            raise ClusterGone("create", self._cluster.server, f"no answer within {_CREATE_SECONDS:g} s") from error

    # --- started

    async def launch(self) -> None:
        """Create the pod once the namespace has room for it, and wait until its container runs.

        Raises:
            StartError: It could not be started.
        """
        if self._queue and not self._held:
            self._gather()
        try:
            await self.pod.launch(
                None
                if self._held
                else lambda: self._pods.room.take(self.spec.run_id, self._make_pods, self._note_waiting),
                self._bring_files if self._given.large or self._held else None,
            )
        except StartError as error:
            for mate in self._mates:
                if mate is not self and not mate.pod.uid:
                    mate.pod.give_up(error.message)
            raise

    def _gather(self) -> None:
        """Have the pods of all units of the run that are yet to start made with this one's, as a group."""
        units = self._pods.run.units.values()
        self._mates = [
            unit
            for unit in units
            if unit._queue == self._queue and unit._owner and unit.pod.presence is Presence.UNMADE and not unit.exit
        ]
        group = PodGroup(self.pod.name, len(self._mates))
        for mate in self._mates:
            mate._group, mate._held = group, mate is not self
            mate.pod.expect()

    async def _make_pods(self) -> None:
        for mate in self._mates:
            if not mate.pod.uid:
                await mate._make_pod()

    def _note_waiting(self, reason: str) -> None:
        self.publish(Notice(message=f"{self.name} waits for room on the cluster: {reason}"))

    async def _make_pod(self) -> None:
        async def create() -> None:
            made = await self._cluster.create("pods", self._body())
            self.pod.uid = str(made["metadata"]["uid"])
            if not self.pod.state:
                self.pod.state = made

        try:
            await self._uncancelled(create)
        except ClusterRefused as error:
            run = self._pods.run
            if not is_restricted(error) or self._pods.options.run_as_user is not None:
                raise
            if not run.restricted:
                run.restricted = True
                self.publish(Notice(message=allows_no_root(self._cluster.namespace)))
            await self._uncancelled(create)

    def _body(self) -> dict[str, Any]:
        options = self._pods.options
        if self._pods.run.restricted:
            options = replace(options, run_as_user=RESTRICTED_USER)
        body = pod_body(
            self.spec,
            self._pods.call,
            self._owner,
            options=options,
            environment=self._environment,
            files=self._given,
            held=(self.spec.lifetime or options.lifetime) if self._held else 0,
        )
        return body if self._group is None else self._group.over(body)

    async def _bring_files(self) -> None:
        """Upload the files that are too large for a Secret; the unit is held back until they have arrived."""
        await self.pod.until(lambda: bool(state.pod_address(self.pod.state)) or self._has_node())
        until = anyio.current_time() + self._pods.room.wait_timeout
        try:
            while not await self._collector_answers():
                self.pod.raise_trouble()
                if anyio.current_time() >= until:
                    raise self.pod.trouble("start_failed", "its collector does not answer", "See the pod's events.")
            for name, path in self._given.large.items():
                await self._collector.put(name, path)
            await self._collector.call("POST", "/go")
        except CollectorGone as error:
            self.pod.raise_trouble()
            raise StartError(
                f"{self.name} could not be given its files: {error.message}",
                code="transfer_lost",
                hint=error.hint,
                context={"unit": self.name, "pod": self.id},
            ) from error

    async def _collector_answers(self) -> bool:
        try:
            await self._collector.call("GET", "/hello", retry_timeout=2)
        except CollectorGone:
            return False
        return True

    def _has_node(self) -> bool:
        return bool(self.pod.state.get("spec", {}).get("nodeName"))

    def _explain(self, trouble: state.Trouble) -> tuple[str, str]:
        """Return the code and the hint for a container that could not start."""
        own = trouble.container == MAIN
        image = self.spec.image if own else self._pods.options.collector_image
        hint = advice(trouble.code, image)
        if not own and trouble.code in IMAGE_CODES:
            hint = Hint(
                "collector_image_unreachable",
                "The pods' own helper runs in {image!r}: pass another image with Python as collector_image.",
                image=image,
            )
        more = f"kubectl describe pod -n {self._cluster.namespace} {self.pod.name} says more."
        return trouble.code, hint or more

    # --- followed

    async def _settle(self, ended: Exit) -> Exit:
        """Check whether the unit was killed for exceeding its disk limit, and report its last files."""
        if ended.signal == _SIGKILL and ended.reason == "signal" and self.spec.limits.of_disk:
            ended = await self._over_disk(ended)
        if self._in_reach:
            await self._written.drain()
        self._written.end()
        return ended

    async def _over_disk(self, ended: Exit) -> Exit:
        try:
            over = str((await self._collector.call("GET", "/used", retry_timeout=5))["over"])
        except BackendError:
            return ended
        return ended.model_copy(update={"reason": "disk", "detail": over}) if over else ended

    def finish(self, exit: Exit) -> None:
        """Record how the unit ended; no more files are reported."""
        self.pod.over.set()
        self._written.end()
        super().finish(exit)

    # --- used

    async def wait_ready(self, probe: HttpProbe) -> float:
        """Wait until the unit answers the collector in its pod, where no other program can be mistaken for it."""
        number = {item.name: item.number for item in self.spec.ports}[probe.port]
        reached = False

        async def ask(see: Callable[[str], None]) -> None:
            def note(seen: str, there: bool) -> None:
                nonlocal reached
                reached = there
                see(seen)

            await self._collector.until_ready(number, probe.path, probe.interval, note)

        while True:
            since = self.started_at or anyio.current_time()
            try:
                seconds = await wait_until_ready(self, probe, since=since, elsewhere=ask)
            except NotReadyError:
                if self.exit is not None or (reached and await self._collector_answers()):
                    raise
                # No request reached the unit: its time starts once the collector can be reached
                await self.reach()
            else:
                self.tell(UnitReady, seconds=seconds)
                return seconds

    async def reach(self) -> None:
        """Wait until the collector answers, since the path to it is the same, or the unit has ended."""
        async with nursery() as tasks:
            tasks.start_soon(cancel_after, self.ended, tasks.cancel_scope)
            while not await self._collector_answers():  # noqa: ASYNC110 - nothing reports that the path works again
                await anyio.sleep(_ASK_AGAIN)
            tasks.cancel_scope.cancel()

    def written(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[str]]:
        """Names of files in its directory as they are completed."""
        return self._written.names()

    async def left(self) -> tuple[str, ...]:
        """Names of the files in its directory; none once its pod is gone."""
        if self.spec.directory is None or not self.started.is_set() or not self._in_reach:
            return ()
        try:
            return await self._collector.left()
        except CollectorGone:
            # Fetching a required file reports the error
            return ()

    async def fetch(self, name: str, target: Path, *, limit: int | None = None) -> int:
        """Copy a file out of the unit's directory and check it against the collector's digest."""
        if self.spec.directory is None or not self.started.is_set():
            raise FileNotFoundError(f"{self.name} has no directory to read from.")
        if not self._in_reach:
            raise FileNotFoundError(f"The pod {self.id} is gone, and its directory with it.")
        try:
            return await self._collector.fetch(name, target, limit=limit)
        except CollectorGone as error:
            raise TransferError(error.message, code="transfer_lost", hint=error.hint, context=error.context) from error

    async def size(self, name: str) -> int | None:
        """Bytes of a file in its directory so far; None if there is no such file, or it cannot be read."""
        if not self.started.is_set() or self.pod.presence is Presence.GONE:
            return None
        return await self._collector.size(name)

    # --- ended

    async def terminate(self, grace: float) -> None:
        """Send TERM."""
        await self._signals.send("TERM")

    async def kill(self) -> None:
        """Send KILL."""
        await self._signals.send("KILL")

    async def _send(self, signal: Signal) -> bool:
        """Signal the unit through its collector; if that does not answer, delete the pod."""
        try:
            return bool(await self._collector.signal(signal))
        except BackendError:
            return self.pod.presence is not Presence.LOST and await self._delete(1)

    async def _delete(self, grace: int) -> bool:
        try:
            return await self._cluster.delete(
                "pods", self.pod.name, grace=grace, uid=self.pod.uid or None, retry_timeout=10
            )
        except BackendError:
            return False

    async def remove(self) -> None:
        """Remove the pod; publish that it is left behind if that fails."""
        if self.pod.presence in (Presence.MADE, Presence.LOST):
            await self._remove_pod()
        self.stop_watching()

    async def _remove_pod(self) -> None:
        try:
            if state.exit_of(self.pod.state) is None and self._has_node():
                # The unit may still run: kill it and wait until it has ended
                await self._cluster.delete("pods", self.pod.name, grace=1, uid=self.pod.uid or None)
                with anyio.move_on_after(_END_SECONDS):
                    while self._in_reach and not self.trouble:
                        await self.pod.changed.wait()
            # Only the collector is left, with nothing to do: do not wait for the node
            if self.pod.presence is not Presence.GONE:
                await self._cluster.delete("pods", self.pod.name, grace=0, uid=self.pod.uid or None)
        except BackendError as error:
            self.leak(f"pod {self.id}", _reason(error))


def _reason(error: BackendError) -> str:
    return re.sub(r"\s+", " ", error.message)
