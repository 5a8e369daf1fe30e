"""The pod of one episode, seen from inside: game and players are its other containers, which the cluster starts.

Nothing here creates or deletes anything. Containers begin in the order in which the pod lists them: the game, the
worker (this process), the players. The cluster starts no player before the gate is open, a file for which a hook of the
worker's container waits. Until then it does not report how containers fare, either. A container ends when the port on
which its liveness is checked closes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import anyio
from anyio.abc import TaskGroup, TaskStatus

from coworld_core.episode.events import Notice
from coworld_core.episode.outcome import Exit
from coworld_core.errors import UsageError

from ..backend import Endpoint, Found, Publish, UnitSpec
from ..backends.base import LOCALHOST, BaseBackend, BaseUnit, nursery
from ..backends.kubernetes._cluster import Cluster, ClusterRefused
from ..backends.kubernetes._pod_objects import owner_reference
from ..backends.kubernetes._pod_state import image_digest
from ..backends.kubernetes._watched_unit import WatchedPod, watch_pods
from ..backends.kubernetes.kubernetes_backend import KubernetesBackend
from ..backends.registry import BackendOptions, ClusterOptions
from ..package.plan import EpisodePlan
from ..worker.health_port import health_port
from ..worker.pod_backend import PodBackend
from ..worker.worker_job import WORKDIR
from ..worker.worker_units import explain_start

__all__ = [
    "GAME_PORT",
    "GATE",
    "SECRETS",
    "TOKENS",
    "OwnPod",
    "OwnPodBackend",
    "alive_port",
    "artifacts_of",
]

GAME_PORT = 8080
GATE = "/coworld-gate/open"
"""The file that lets players start."""
TOKENS, SECRETS = "COWORLD_TOKENS", "COWORLD_SECRETS"
"""The variables with the tokens of an episode, and with the secrets of its players."""
_ARTIFACTS = "/coworld-artifacts"
_GATE_SHARE = 0.5
"""The share of a game's time to become ready after which players may start although it does not listen: what ails it
is known only then."""
_KNOCK_SECONDS = 0.1
_ALIVE_PORT = 9100


def alive_port(slot: int | None) -> int:
    """The port by which the cluster sees that the container of a seat, or of the game (None), is still wanted."""
    return _ALIVE_PORT if slot is None else _ALIVE_PORT + 1 + slot


def artifacts_of(slot: int) -> str:
    """The worker's directory with what the player of a seat leaves."""
    return f"{_ARTIFACTS}/{slot}"


@dataclass(frozen=True)
class OwnPod:
    """The pod that this process is in."""

    namespace: str
    job: str
    """The name of its Job, which labels it."""
    name: str
    uid: str
    job_uid: str
    """The uid of its Job."""
    tokens: tuple[str, ...] = field(default=(), repr=False)
    """The tokens that the game and its players were given, by slot."""
    secrets: tuple[Mapping[str, str], ...] = field(default=(), repr=False)
    """The secrets of players, by slot, if it starts them."""
    apart: ClusterOptions | None = None
    """Where game and players have pods of their own; None: they are containers of this one."""

    @classmethod
    def of(cls, environ: Mapping[str, str], *, apart: ClusterOptions | None = None) -> Self:
        """The pod that the downward API has put into an environment.

        Raises:
            UsageError: It is not there.
        """
        names = ("POD_NAMESPACE", "JOB_NAME", "POD_NAME", "POD_UID", "JOB_UID", TOKENS)
        if missing := [name for name in names if not environ.get(name)]:
            raise UsageError(f"This needs {', '.join(missing)} in its environment.", code="environment_incomplete")
        *place, tokens = (environ[name] for name in names)
        secrets = json.loads(environ.get(SECRETS) or "[]")
        return cls(*place, tokens=tuple(json.loads(tokens)), secrets=tuple(secrets), apart=apart)

    def informed(self, plan: EpisodePlan) -> EpisodePlan:
        """A plan with what is in no store: tokens, and the secrets of players that this pod starts."""
        seats = plan.seats
        if self.secrets:
            pairs = zip(seats, self.secrets, strict=True)
            seats = tuple(replace(seat, secret_env=known) for seat, known in pairs)
        return replace(plan, tokens=self.tokens, seats=seats)

    def backend(self, *, ready_seconds: float) -> BaseBackend:
        """The backend that plays its episode.

        Args:
            ready_seconds: How long the game may take to become ready.
        """
        if self.apart is None:
            return OwnPodBackend(self, ready_seconds=ready_seconds)
        # Whoever removes the Job of this pod removes what it has made
        owner = owner_reference({"metadata": {"name": self.job, "uid": self.job_uid}})
        return KubernetesBackend.of(BackendOptions(cluster=self.apart), owner=owner)


class OwnPodBackend(PodBackend):
    """Plays an episode with the containers of this pod.

    Args:
        pod: The pod.
        ready_seconds: How long the game may take to become ready.
    """

    name = "kubernetes-pod"

    def __init__(self, pod: OwnPod, *, ready_seconds: float) -> None:
        super().__init__(pod.namespace)
        self._pod = pod
        self.gate_seconds = _GATE_SHARE * ready_seconds

    @asynccontextmanager
    async def group(
        self, specs: Sequence[UnitSpec], *, publish: Publish, tasks: TaskGroup
    ) -> AsyncGenerator[Sequence[OwnUnit], None]:
        """Follow the containers of these units while they are wanted."""
        cluster = self.cluster
        units = [OwnUnit(spec, self._pod, cluster, tasks, backend=self, publish=publish) for spec in specs]
        # Shielded: how they ended must be seen even after a cancellation
        beside = anyio.CancelScope(shield=True)

        def refused(error: ClusterRefused) -> None:
            publish(Notice(level="warning", message=f"The pod cannot be watched: {error.server_message}"))

        async def watch() -> None:
            with beside:
                pods = [unit.pod for unit in units]
                await watch_pods(cluster, f"job-name={self._pod.job}", pods, on_error=refused)

        tasks.start_soon(watch)
        try:
            yield units
        finally:
            beside.cancel()

    async def find_units(self, run_id: str | None) -> Sequence[Found]:
        """Nothing: all of it goes with this pod."""
        del run_id
        return ()

    async def remove_found(self, found: Found) -> str:
        """Nothing is found here."""
        return f"{found.name} goes with its pod"


class OwnUnit(BaseUnit):
    """A container of this pod."""

    def __init__(
        self,
        spec: UnitSpec,
        pod: OwnPod,
        cluster: Cluster,
        tasks: TaskGroup,
        *,
        backend: OwnPodBackend,
        publish: Publish,
    ) -> None:
        # What it leaves is on a volume that it shares with this process; its two streams are merged
        directory = Path(WORKDIR if spec.slot is None else artifacts_of(spec.slot))
        super().__init__(replace(spec, directory=directory, stderr=None), backend=backend, publish=publish)
        self._tasks = tasks
        self._gate_seconds = backend.gate_seconds
        self._wanted = anyio.CancelScope()
        self._listens = False
        self.pod = WatchedPod(
            self,
            cluster=cluster,
            tasks=tasks,
            name=pod.name,
            container=spec.name,
            explain=lambda trouble: explain_start(trouble, spec.image),
            forbidden_hint="Give the account of these pods the right to it: docs/kubernetes has the rules.",
            log_seconds=10.0,
        )
        self.pod.uid = pod.uid

    @property
    def id(self) -> str:
        """The pod's namespace and name."""
        return self.pod.id

    @property
    def image_digest(self) -> str:
        """The digest by which the node names the image."""
        return image_digest(self.pod.state, self.spec.name)

    def endpoint(self, port: str = "http") -> Endpoint:
        """The game's address, the same for all containers."""
        if port != "http" or self.spec.slot is not None:
            raise KeyError(port)
        return Endpoint(here=f"{LOCALHOST}:{GAME_PORT}", there=f"{LOCALHOST}:{GAME_PORT}")

    async def make(self) -> None:
        """Open the port that keeps it alive."""
        await self._tasks.start(self._keep_alive)

    async def _keep_alive(self, *, task_status: TaskStatus[None]) -> None:
        with self._wanted:
            async with health_port(alive_port(self.spec.slot)):
                task_status.started()
                await anyio.sleep_forever()

    async def launch(self) -> None:
        """Wait until it runs; the first player opens the gate.

        Raises:
            StartError: It will never run; the message has the cluster's reason.
        """
        if self.spec.slot is not None:
            _open_gate()
            await self.pod.launch()
            return
        async with nursery() as tasks:
            tasks.start_soon(self._knock)
            await self.pod.launch(runs=lambda: self._listens)
            if not self._listens:
                # The cluster reports it, so the gate is open
                return
        self._tasks.start_soon(self._open_gate_if_it_ends)

    async def _knock(self) -> None:
        """Wait until the game listens, or open the gate, so that the cluster reports how it fares."""
        with anyio.move_on_after(self._gate_seconds):
            while not await _listens():  # noqa: ASYNC110 - nobody else reports it
                await anyio.sleep(_KNOCK_SECONDS)
            self._listens = True
            self.pod.wake()
            return
        _open_gate()

    async def _open_gate_if_it_ends(self) -> None:
        """A game that ends before it is ready is seen to have ended once the gate is open."""
        while not _gate_is_open() and await _listens():  # noqa: ASYNC110 - nobody else reports it
            await anyio.sleep(_KNOCK_SECONDS)
        _open_gate()

    async def terminate(self, grace: float) -> None:
        """Close the port that keeps it alive: the node ends it, within the grace of the pod."""
        del grace
        self.ended_by = self.ended_by or "stopped"
        self._wanted.cancel()

    async def kill(self) -> None:
        """Have it ended, too: the node has the grace of the pod for it."""
        await self.terminate(0)

    def finish(self, exit: Exit) -> None:
        """Record its end; nothing more comes from it."""
        self.pod.over.set()
        super().finish(exit)

    async def remove(self) -> None:
        """Stop following it."""
        self._wanted.cancel()
        self.stop_watching()


def _open_gate() -> None:
    Path(GATE).touch()


def _gate_is_open() -> bool:
    return Path(GATE).exists()


async def _listens() -> bool:
    try:
        stream = await anyio.connect_tcp(LOCALHOST, GAME_PORT)
    except OSError:
        return False
    await stream.aclose()
    return True
