"""Queues runs in the client until the cluster has room, instead of piling up pending pods.

A run is admitted as a whole, game and players: if two runs each got half of what they need, neither would end. The
cluster reports its room, as far as permissions allow; admitted runs are subtracted here until they end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import anyio

from coworld_core.errors import BackendError, StartError
from coworld_core.hints import Hint
from coworld_core.quantities import parse_quantity
from coworld_core.retries import Backoff, Tries

from ...backend import Component, UnitSpec
from ..engine import RUN
from ._admission import is_over_quota, never_fits
from ._cluster import Cluster, ClusterRefused
from ._object_parts import container
from ._pod_objects import CALL, COLLECTOR, COLLECTOR_REQUESTS, MAIN, PodOptions, label, object_name, section_of

__all__ = ["ClusterCapacity", "Need", "need_of", "wait_limit"]

_BACKOFF = Backoff(base=0.75, cap=6.0)
_SETTLE_SECONDS = 10.0
"""How long a cluster may go on to count pods that have gone against a quota."""
_SHARE = 0.8
"""The part of the caller's own time that may be spent on waiting for room. The rest is for telling what was lacking."""
_FRESH_SECONDS = 10.0
"""How long the cluster's answer is used."""
_MANY_NODES = 50
"""With more nodes, room is not computed here: the scheduler decides, pod by pod."""


@dataclass(frozen=True)
class Need:
    """Resources that pods request, or that are available."""

    cpu: Decimal = Decimal(0)
    memory: Decimal = Decimal(0)
    pods: Decimal = Decimal(0)

    def __add__(self, other: Need) -> Need:
        return Need(self.cpu + other.cpu, self.memory + other.memory, self.pods + other.pods)

    def __sub__(self, other: Need) -> Need:
        return Need(self.cpu - other.cpu, self.memory - other.memory, self.pods - other.pods)

    def fits(self, room: Need) -> bool:
        """Whether `room` has enough of everything."""
        return self.cpu <= room.cpu and self.memory <= room.memory and self.pods <= room.pods

    def at_most(self, other: Need) -> Need:
        """The smaller of each resource."""
        return Need(min(self.cpu, other.cpu), min(self.memory, other.memory), min(self.pods, other.pods))

    def __str__(self) -> str:
        return f"{float(self.cpu):.3g} processors, {float(self.memory) / 2**20:.0f} MiB, {int(self.pods)} pods"


_ENDLESS = Need(Decimal("Infinity"), Decimal("Infinity"), Decimal("Infinity"))


def need_of(specs: Sequence[UnitSpec], options: PodOptions) -> Need:
    """The resources that a run needs: its units, their future clients, and the pod of the owning Job."""
    components: list[Component] = [spec.component for spec in specs]
    made = {spec.name for spec in specs}
    coming = {name for spec in specs for name in spec.clients} - made
    total = Need(Decimal("0.001"), Decimal(2**20), Decimal(1))
    components.extend("player" for _ in coming)
    for component in components:
        requests = {MAIN: options.requests[component], COLLECTOR: COLLECTOR_REQUESTS}
        containers = [container(name, "", requests=asked.as_map()) for name, asked in requests.items()]
        total += _asked(options.overlay.applied(section_of(component), {"spec": {"containers": containers}}))
    return total


def wait_limit(seconds: float) -> float:
    """How long to wait for room: at most `seconds`, and not until the deadline of a caller that is to learn why."""
    return min(seconds, _SHARE * (anyio.current_effective_deadline() - anyio.current_time()))


class ClusterCapacity:
    """Decides when runs may create pods; one object for all runs of a backend.

    Args:
        cluster: The cluster.
        retry_timeout: Seconds that a run or a single pod may wait for room.
    """

    def __init__(self, cluster: Cluster, *, retry_timeout: float) -> None:
        self.wait_timeout = retry_timeout
        self._cluster = cluster
        self._entering = anyio.Lock()
        self._inside: dict[str, Need] = {}
        self._calls: set[str] = set()
        self._left = anyio.Event()
        self._room: Need | None = None
        self._asked_at = 0.0

    # --- runs

    async def enter(self, run_id: str, call: str, need: Need, note: Callable[[str], object]) -> None:
        """Wait until there is room for a run, behind those already waiting.

        Args:
            run_id: The run; nothing happens if it was already admitted.
            call: The label of the pods to be created.
            need: The run's total need.
            note: Called once with the reason if the run has to wait.

        Raises:
            StartError: There was no room in time.
        """
        self._calls.add(call)
        if run_id in self._inside:
            return
        longest = wait_limit(self.wait_timeout)
        until = anyio.current_time() + longest
        told = False
        async with self._entering:
            # A run alone is always admitted: the cluster describes better what it lacks
            while self._inside and not (need + self._taken()).fits(room := await self._look()):
                left = until - anyio.current_time()
                if left <= 0:
                    raise StartError(
                        f"There was no room on the cluster for run {run_id} within {longest:.3g} s: "
                        f"it needs {need}, and there is {room - self._taken()}.",
                        code="no_room",
                        hint=Hint("run_fewer", "Run fewer episodes at a time (parallel), or ask for less."),
                        context={"run_id": run_id},
                    )
                if not told:
                    told = True
                    note(f"{len(self._inside)} runs are on the cluster, and it has no room for another yet ({need}).")
                departure = self._left
                with anyio.move_on_after(min(left, _FRESH_SECONDS)):
                    await departure.wait()
            self._inside[run_id] = need

    def leave(self, run_id: str) -> None:
        """Release the room of a run that has ended."""
        self._inside.pop(run_id, None)
        if not self._inside:
            self._calls.clear()
        self._left.set()
        self._left = anyio.Event()

    def _taken(self) -> Need:
        return sum(self._inside.values(), Need())

    async def _look(self) -> Need:
        """The room on the cluster, not counting our own pods."""
        now = anyio.current_time()
        if self._room is None or now - self._asked_at > _FRESH_SECONDS:
            self._room = await _on_nodes(self._cluster, self._calls)
            self._room = self._room.at_most(await _in_quota(self._cluster, self._calls))
            self._asked_at = now
        return self._room

    # --- single pods

    async def take(self, run_id: str, make: Callable[[], Awaitable[None]], note: Callable[[str], object]) -> None:
        """Create a pod; while the namespace's quota is full and others may give some of it back, wait and try again.

        Args:
            run_id: The run that the pod belongs to.
            make: Creates the pod.
            note: Called once with the reason if the pod has to wait.

        Raises:
            ClusterRefused: The pod was refused for another reason, nobody else uses the quota, or there was no room in
                time.
        """
        tries = Tries(_BACKOFF, retry_timeout=wait_limit(self.wait_timeout), clock=anyio.current_time)
        settled = anyio.current_time() + _SETTLE_SECONDS
        told = False
        while True:
            try:
                await make()
            except ClusterRefused as error:
                if not is_over_quota(error) or never_fits(error.server_message):
                    raise
                if await self._shared(run_id):
                    settled = anyio.current_time() + _SETTLE_SECONDS
                pause = tries.again() if anyio.current_time() < settled else None
                if pause is None:
                    raise
                if not told:
                    told = True
                    note(error.server_message)
            else:
                return
            await anyio.sleep(pause)

    async def _shared(self, run_id: str) -> bool:
        """Whether the namespace has pods besides a run's own, or some that are about to go; True if that is hidden."""
        try:
            pods = (await self._cluster.list("pods", retry_timeout=5))["items"]
        except BackendError:
            return True
        return any(_is_live(pod) and (_is_going(pod) or not _is_of_run(pod, run_id)) for pod in pods)


def _is_live(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _is_going(pod: Mapping[str, Any]) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _is_of_run(pod: Mapping[str, Any], run_id: str) -> bool:
    """Whether a pod belongs to a run, as one of its units or as the pod of its owner."""
    metadata: Mapping[str, Any] = pod["metadata"]
    labels: Mapping[str, str] = metadata.get("labels") or {}
    owners = [owner["name"] for owner in metadata.get("ownerReferences") or ()]
    return labels.get(RUN) == label(run_id) or object_name(run_id) in owners


def _asked(pod: Mapping[str, Any]) -> Need:
    """The resources that a pod requests; none once it has ended."""
    if not _is_live(pod):
        return Need()
    total = Need(pods=Decimal(1))
    for part in pod["spec"].get("containers") or ():
        resources: Mapping[str, Mapping[str, Any]] = part.get("resources") or {}
        requests: Mapping[str, Any] = resources.get("requests") or {}
        total += Need(*(parse_quantity(str(requests.get(name, "0"))) for name in ("cpu", "memory")))
    return total


def _is_ours(pod: Mapping[str, Any], calls: set[str]) -> bool:
    return (pod["metadata"].get("labels") or {}).get(CALL) in calls


async def _on_nodes(cluster: Cluster, calls: set[str]) -> Need:
    """The nodes' resources, less those of others' pods; infinite if they cannot be read."""
    try:
        nodes = await cluster.call("GET", "/api/v1/nodes", query={"limit": 500}, retry_timeout=5)
        if len(nodes["items"]) > _MANY_NODES:
            return _ENDLESS
        pods = await cluster.call("GET", "/api/v1/pods", query={"limit": 5000}, retry_timeout=5)
    except BackendError:
        return _ENDLESS
    total = Need()
    for node in nodes["items"]:
        if not node["spec"].get("unschedulable"):
            has: Mapping[str, str] = node["status"].get("allocatable") or {}
            total += Need(*(parse_quantity(has.get(name, "0")) for name in ("cpu", "memory", "pods")))
    for pod in pods["items"]:
        if pod["spec"].get("nodeName") and not _is_ours(pod, calls):
            total -= _asked(pod)
    return total


async def _in_quota(cluster: Cluster, calls: set[str]) -> Need:
    """The room in the namespace's quotas, not counting our own pods; infinite without a quota."""
    try:
        quotas = (await cluster.list("resourcequotas", retry_timeout=5))["items"]
        pods: Sequence[Any] = (await cluster.list("pods", CALL, retry_timeout=5))["items"] if quotas else ()
    except BackendError:
        return _ENDLESS
    ours = sum((_asked(pod) for pod in pods if _is_ours(pod, calls)), Need())
    room = _ENDLESS
    for quota in quotas:
        status: Mapping[str, Any] = quota.get("status") or {}
        hard: Mapping[str, str] = status.get("hard") or {}
        used: Mapping[str, str] = status.get("used") or {}

        def left(own: Decimal, *names: str, hard: Mapping[str, str] = hard, used: Mapping[str, str] = used) -> Decimal:
            found = [parse_quantity(hard[name]) - parse_quantity(used.get(name, "0")) for name in names if name in hard]
            return min(found) + own if found else Decimal("Infinity")

        room = room.at_most(
            Need(
                left(ours.cpu, "requests.cpu", "cpu"),
                left(ours.memory, "requests.memory", "memory"),
                left(ours.pods, "pods", "count/pods"),
            )
        )
    return room
