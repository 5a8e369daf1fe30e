"""Queueing in the client for room on the cluster, instead of piling up pods that wait there.

A run is let in as a whole, game and players: of two runs that each got half of what they need, neither would end. What
there is room for is asked of the cluster, as far as it may be asked; what was let in is reckoned here until it ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import anyio

from coworld_core.errors import BackendError, StartError
from coworld_core.quantities import parse_quantity
from coworld_core.retrying import Backoff, Tries

from ...backend import Component, UnitSpec
from ._api import Cluster, ClusterRefused
from ._pod import CALL, COLLECTOR_REQUESTS, PodOptions

__all__ = ["Need", "Room", "need_of"]

_BACKOFF = Backoff(base=0.75, cap=6.0)
_FRESH_SECONDS = 10.0
"""How long what the cluster said counts."""
_MANY_NODES = 50
"""A cluster of more nodes is not reckoned up: its own scheduler is asked, pod by pod."""


@dataclass(frozen=True)
class Need:
    """What pods ask for, or what there is."""

    cpu: Decimal = Decimal(0)
    memory: Decimal = Decimal(0)
    pods: Decimal = Decimal(0)

    def __add__(self, other: Need) -> Need:
        return Need(self.cpu + other.cpu, self.memory + other.memory, self.pods + other.pods)

    def __sub__(self, other: Need) -> Need:
        return Need(self.cpu - other.cpu, self.memory - other.memory, self.pods - other.pods)

    def fits(self, room: Need) -> bool:
        """Whether there is enough of everything."""
        return self.cpu <= room.cpu and self.memory <= room.memory and self.pods <= room.pods

    def at_most(self, other: Need) -> Need:
        """The lesser of the two, each for itself."""
        return Need(min(self.cpu, other.cpu), min(self.memory, other.memory), min(self.pods, other.pods))

    def __str__(self) -> str:
        return f"{float(self.cpu):.3g} processors, {float(self.memory) / 2**20:.0f} MiB, {int(self.pods)} pods"


_ENDLESS = Need(Decimal("Infinity"), Decimal("Infinity"), Decimal("Infinity"))


def need_of(specs: Sequence[UnitSpec], options: PodOptions) -> Need:
    """What a run needs: these units, the clients that will come to them, and the pod of its owner."""
    components: list[Component] = [spec.component for spec in specs]
    made = {spec.name for spec in specs}
    coming = {name for spec in specs for name in spec.clients} - made
    total = Need(Decimal("0.001"), Decimal(2**20), Decimal(1))
    components.extend("player" for _ in coming)
    for component in components:
        for asked in (options.requests[component], COLLECTOR_REQUESTS):
            total += Need(parse_quantity(asked.cpu), parse_quantity(asked.memory))
        total += Need(pods=Decimal(1))
    return total


class Room:
    """Who may make pods now; one for all runs of a backend.

    Args:
        cluster: Where they are made.
        patience: Seconds that a run, or a single pod, may wait for room.
    """

    def __init__(self, cluster: Cluster, *, patience: float) -> None:
        self.patience = patience
        self._cluster = cluster
        self._entering = anyio.Lock()
        self._inside: dict[str, Need] = {}
        self._calls: set[str] = set()
        self._left = anyio.Event()
        self._room: Need | None = None
        self._asked_at = 0.0

    # --- runs

    async def enter(self, run_id: str, call: str, need: Need, note: Callable[[str], object]) -> None:
        """Wait until there is room for a run, behind those that wait already.

        Args:
            run_id: The run; does nothing for one that is inside.
            call: The label of what is going to be made.
            need: What it asks for in all.
            note: Told once why it has to wait.

        Raises:
            StartError: There was no room in time.
        """
        self._calls.add(call)
        if run_id in self._inside:
            return
        until = anyio.current_time() + self.patience
        told = False
        async with self._entering:
            # the only one always is let in: what it lacks, the cluster itself says in better words
            while self._inside and not (need + self._taken()).fits(room := await self._look()):
                left = until - anyio.current_time()
                if left <= 0:
                    raise StartError(
                        f"There was no room on the cluster for run {run_id} within {self.patience:g} s: "
                        f"it needs {need}, and there is {room - self._taken()}.",
                        code="no_room",
                        hint="Run fewer episodes at a time (--parallel), or ask for less.",
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
        """A run has ended, and what it had is free again."""
        self._inside.pop(run_id, None)
        if not self._inside:
            self._calls.clear()
        self._left.set()
        self._left = anyio.Event()

    def _taken(self) -> Need:
        return sum(self._inside.values(), Need())

    async def _look(self) -> Need:
        """What there would be room for if we had nothing there."""
        now = anyio.current_time()
        if self._room is None or now - self._asked_at > _FRESH_SECONDS:
            self._room = await _on_nodes(self._cluster, self._calls)
            self._room = self._room.at_most(await _in_quota(self._cluster, self._calls))
            self._asked_at = now
        return self._room

    # --- single pods

    async def take(self, make: Callable[[], Awaitable[None]], note: Callable[[str], object]) -> None:
        """Make a pod; when the namespace's quota has no room for it, wait until it has.

        Args:
            make: Makes it.
            note: Told once why it has to wait.

        Raises:
            ClusterRefused: It was refused for another reason, or there was no room in time.
        """
        tries = Tries(_BACKOFF, patience=self.patience)
        told = False
        while True:
            try:
                await make()
            except ClusterRefused as error:
                pause = tries.again() if error.over_quota else None
                if pause is None:
                    raise
                if not told:
                    told = True
                    note(error.words)
            else:
                return
            await anyio.sleep(pause)


def _asked(pod: Mapping[str, Any]) -> Need:
    """What a pod asks for; nothing when it has ended."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return Need()
    total = Need(pods=Decimal(1))
    for container in pod["spec"].get("containers") or ():
        resources: Mapping[str, Mapping[str, str]] = container.get("resources") or {}
        requests: Mapping[str, str] = resources.get("requests") or {}
        total += Need(parse_quantity(requests.get("cpu", "0")), parse_quantity(requests.get("memory", "0")))
    return total


def _is_ours(pod: Mapping[str, Any], calls: set[str]) -> bool:
    return (pod["metadata"].get("labels") or {}).get(CALL) in calls


async def _on_nodes(cluster: Cluster, calls: set[str]) -> Need:
    """What the nodes have, less what others have taken; endless when that may not be asked."""
    try:
        nodes = await cluster.call("GET", "/api/v1/nodes", query={"limit": 500}, patience=5)
        if len(nodes["items"]) > _MANY_NODES:
            return _ENDLESS
        pods = await cluster.call("GET", "/api/v1/pods", query={"limit": 5000}, patience=5)
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
    """What the namespace's quotas leave us, were nothing of ours there; endless without one."""
    try:
        quotas = (await cluster.list("resourcequotas", patience=5))["items"]
        pods: Sequence[Any] = (await cluster.list("pods", CALL, patience=5))["items"] if quotas else ()
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
