"""The Kubernetes backend: units are pods of a cluster, reached only through its API server.

Each unit is a pod with two containers: the unit's own, and the *collector*, which fills the unit's directory, watches
it, serves its files with their digests, and signals the unit's processes. Nothing is shared with this machine, and only
the API server has to be reachable: ports and files use the pods' port-forwarding.

Everything of a run belongs to a Job that runs nothing. A live runner keeps postponing the Job's deadline; once the
runner is gone, the cluster removes the Job and everything it owns. Before Kubernetes 1.23 a deadline cannot be
postponed, so there it is set once, to slightly more than the lifetime of the run's units.

Defaults, besides the limits of a unit's spec: no service account token, the runtime's seccomp profile, no new
privileges, and no capabilities for players (a game keeps those that an image's start script needs to switch users).
Environment and files are in Secrets, never in the pod's own spec.

asyncio only, because `kubernetes_asyncio` is built on aiohttp.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from coworld_core.episode.events import LeakFound, Notice
from coworld_core.errors import BackendUnavailable, CoworldError, UsageError
from coworld_core.issues import Issue

from ...backend import Capabilities, Found, ImageInfo, Publish, UnitSpec
from ..base import BaseBackend, refuse_taken_names
from ..engine import helper_image
from ..registry import BackendOptions
from ._cluster import Cluster
from ._cluster_capacity import ClusterCapacity, need_of
from ._cluster_check import check_cluster, enforces_policies
from ._kubernetes_unit import KubernetesUnit, PodContext
from ._labelled_objects import find_labelled, reap_labelled
from ._node_images import Images, image_on_nodes
from ._pod_objects import PodOptions, Requests, call_selector, object_name, queue_of
from ._run_job import Run
from ._watched_unit import watch_until_lost
from .pod_overlay import PodOverlay

__all__ = ["KubernetesBackend", "PodOptions", "PodOverlay", "Requests"]


_SWEEP_SECONDS = 30.0
"""Seconds that removing the objects of the pods may take."""
_OLDEST = (1, 19)
"""The first version that keeps a seccomp profile instead of dropping it silently."""


class KubernetesBackend(BaseBackend):
    """Runs units as pods of a Kubernetes cluster.

    Args:
        context: A context of the kubeconfig; None: the current one.
        namespace: The namespace of all objects; None: the context's own, else `default`.
        kubeconfig: The kubeconfig; None: `KUBECONFIG`, `~/.kube/config`, or the pod's own service account.
        collector_image: An image with Python 3.9 or later for the container beside each unit; None:
            `COWORLD_COLLECTOR_IMAGE`, else `DEFAULT_HELPER_IMAGE`.
        pods: Options shared by all pods; `collector_image` takes precedence over the one in it.
        pull_secrets: Names of Secrets in the namespace for pulling images, in addition to those in `pods`.
        network_policy: Whether the cluster enforces network policies; None: detected from what is installed there.
        lease: Seconds after which the cluster removes the leftovers of a killed runner (from Kubernetes 1.23 on;
            before, a minute after the lifetime of the run's units).
        outage: Seconds without an answer from the API server after which units count as lost.
        pending: Seconds that a pod may wait for room on the cluster.
        owner: The reference to an object of the cluster that runs go with when it is removed; None: to none.
    """

    name = "kubernetes"
    remove_seconds = 90.0
    removal = (("pod",), ("service", "secret", "policy"), ("job",))

    def __init__(
        self,
        *,
        context: str | None = None,
        namespace: str | None = None,
        kubeconfig: Path | str | None = None,
        collector_image: str | None = None,
        pods: PodOptions | None = None,
        pull_secrets: Sequence[str] = (),
        network_policy: bool | None = None,
        lease: float = 900.0,
        outage: float = 180.0,
        pending: float = 600.0,
        owner: Mapping[str, Any] | None = None,
    ) -> None:
        image = collector_image or helper_image()
        self._where = (context, namespace, Path(kubeconfig) if kubeconfig is not None else None)
        pods = pods if pods is not None else PodOptions(collector_image=image)
        self._pods = dataclasses.replace(
            pods,
            collector_image=collector_image or pods.collector_image,
            image_pull_secrets=tuple(dict.fromkeys((*pods.image_pull_secrets, *pull_secrets))),
        )
        self._policies = network_policy
        self._enforced = bool(network_policy)
        self._lease = lease
        self._outage = outage
        self._pending = pending
        self._owner = owner
        self._cluster: Cluster | None = None
        self._images: Images | None = None
        self._room: ClusterCapacity | None = None
        self._runs: dict[str, Run] = {}

    @classmethod
    def of(cls, options: BackendOptions, *, owner: Mapping[str, Any] | None = None) -> Self:
        """Create the backend for the named cluster, or the current one; the entry point in `coworld.backends`."""
        cluster = options.cluster
        pods = PodOptions(
            collector_image=cluster.collector_image or helper_image(),
            overlay=PodOverlay.read(cluster.pods, allow_privileged=cluster.allow_privileged),
        )
        return cls(
            context=cluster.context,
            namespace=cluster.namespace,
            kubeconfig=cluster.kubeconfig,
            pods=pods,
            network_policy=cluster.network_policy,
            pull_secrets=cluster.pull_secrets,
            owner=owner,
        )

    @property
    def capabilities(self) -> Capabilities:
        """What the cluster enforces; network isolation may be known only once the backend is entered."""
        return Capabilities(
            images=True,
            network_isolation=self._enforced,
            file_isolation=True,
            memory_limit=True,
            cpu_limit=True,
            pids_limit=False,
            disk_limit=True,
            remote=True,
            gpu=True,
            separate_streams=False,
            proxies=self._enforced,
        )

    @property
    def starts_together(self) -> bool:
        """Whether pods name a queue, which admits a whole group when all of its pods are there."""
        return bool(queue_of("game", self._pods)) and queue_of("game", self._pods) == queue_of("player", self._pods)

    async def __aenter__(self) -> Self:
        context, namespace, kubeconfig = self._where
        cluster = await Cluster.connect(context=context, namespace=namespace, kubeconfig=kubeconfig)
        try:
            _refuse_old(cluster)
            if self._policies is None:
                self._enforced = bool(await enforces_policies(cluster))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await cluster.close()
            raise
        self._cluster = cluster
        self._room = ClusterCapacity(cluster, retry_timeout=self._pending)
        self._images = Images(cluster, self._pods, self._room)
        return self

    async def __aexit__(self, *exc: object) -> None:
        cluster, self._cluster, self._images = self._cluster, None, None
        if cluster is not None:
            with anyio.CancelScope(shield=True):
                await cluster.close()

    def _entered(self) -> Cluster:
        if self._cluster is None:
            raise UsageError("The kubernetes backend is used outside its `async with`.", code="backend_not_entered")
        return self._cluster

    def engine_version(self) -> str:
        """The cluster's version and location."""
        if self._cluster is None:
            return ""
        return f"Kubernetes {self._cluster.version} ({self._cluster.context}, namespace {self._cluster.namespace})"

    def trouble(self) -> str:
        """How long the API server has not answered, or which node stopped reporting; empty when all is well."""
        cluster = self._cluster
        if cluster is None:
            return ""
        if cluster.silent_since is None:
            units = (unit for run in self._runs.values() for unit in run.units.values())
            return next((unit.trouble for unit in units if unit.trouble), "")
        return (
            f"the cluster's API server {cluster.server} has not answered for "
            f"{anyio.current_time() - cluster.silent_since:.0f} s"
        )

    # --- before anything runs

    async def check(self) -> tuple[Issue, ...]:
        """Check that the cluster can be used: permissions, images, name service, quota, network policies."""
        context, namespace, kubeconfig = self._where
        try:
            cluster = await Cluster.connect(
                context=context, namespace=namespace, kubeconfig=kubeconfig, permitted=False
            )
        except BackendUnavailable as error:
            return (Issue(code=error.code, message=error.message, hint=error.hint),)
        try:
            _refuse_old(cluster)
            return await check_cluster(cluster, self._pods, policies=self._policies)
        except CoworldError as error:
            return (Issue(code=error.code, message=error.message, hint=error.hint or "Check the cluster itself."),)
        finally:
            with anyio.CancelScope(shield=True):
                await cluster.close()

    @property
    def helper_image(self) -> str:
        """The collectors' image."""
        return self._pods.collector_image

    async def has_image(self, image: str) -> bool:
        """Whether a node lists the image; nothing is pulled."""
        return await image_on_nodes(self._entered(), image) is not None

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        """Check that the cluster has an image or can pull it; nodes that get a pod later may still have to pull it."""
        self._entered()
        assert self._images is not None
        return await self._images.ensure(image, platform=platform, publish=publish)

    # --- units

    @asynccontextmanager
    async def group(
        self, specs: Sequence[UnitSpec], *, publish: Publish, tasks: TaskGroup
    ) -> AsyncGenerator[Sequence[KubernetesUnit], None]:
        """Yield the pods of one call once there is room for them; watch them, and renew the leases of their runs."""
        cluster = self._entered()
        assert self._room is not None
        room = self._room
        call = secrets.token_hex(5)
        units = [
            KubernetesUnit(
                spec,
                PodContext(
                    cluster=cluster,
                    run=self._run(spec.run_id, spec.lifetime),
                    call=call,
                    tasks=tasks,
                    options=self._pods,
                    room=room,
                ),
                backend=self,
                publish=publish,
            )
            for spec in specs
        ]
        self._register(units)
        runs = {unit.spec.run_id: self._run(unit.spec.run_id) for unit in units}
        for run in runs.values():
            tasks.start_soon(run.renew, name=f"lease of {run.run_id}")
        # Shielded: the ends of the units must be seen even after a cancellation
        watching = anyio.CancelScope(shield=True)

        async def watch() -> None:
            with watching:
                pods = [unit.pod for unit in units]
                await watch_until_lost(cluster, call_selector(call), pods, outage=self._outage, trouble=self.trouble)

        tasks.start_soon(watch, name=f"pods of {call}")

        def waits(words: str) -> None:
            publish(Notice(message=f"Waiting for room: {words}"))

        try:
            for run_id in runs:
                mine = [spec for spec in specs if spec.run_id == run_id]
                await room.enter(run_id, call, need_of(mine, self._pods), waits)
            yield units
        finally:
            with anyio.move_on_after(_SWEEP_SECONDS, shield=True) as sweeping:
                await self._sweep(cluster, units, call, publish)
            if sweeping.cancelled_caught:
                names = ", ".join(object_name(run_id) for run_id in runs)
                publish(
                    LeakFound(
                        what=f"what belongs to {names}, in namespace {cluster.namespace}",
                        reason=self.trouble() or f"the cluster did not remove it within {_SWEEP_SECONDS:g} s",
                    )
                )
            for unit in units:
                self._forget(unit)
            watching.cancel()

    def _run(self, run_id: str, lifetime: float | None = None) -> Run:
        if run_id not in self._runs:
            self._runs[run_id] = Run(
                self._entered(),
                run_id,
                lease=self._lease,
                lifetime=lifetime or self._pods.lifetime,
                image=self._pods.collector_image,
                owner=self._owner,
            )
        return self._runs[run_id]

    def _register(self, units: Sequence[KubernetesUnit]) -> None:
        refuse_taken_names(units, lambda run_id: self._run(run_id).units)
        for unit in units:
            self._run(unit.spec.run_id).units[unit.name] = unit

    def _forget(self, unit: KubernetesUnit) -> None:
        run_id = unit.spec.run_id
        run = self._run(run_id)
        run.units.pop(unit.name, None)
        if not run.units:
            self._runs.pop(run_id, None)
            if self._room is not None:
                self._room.leave(run_id)

    async def _sweep(self, cluster: Cluster, units: Sequence[KubernetesUnit], call: str, publish: Publish) -> None:
        """Remove the objects of the pods, and the owner of each run that has no other pods."""

        async def remove(what: str, act: Callable[[], Awaitable[object]]) -> None:
            try:
                await act()
            except CoworldError as error:
                publish(LeakFound(what=what, reason=error.message))

        run_ids = dict.fromkeys(unit.spec.run_id for unit in units)
        names = ", ".join(object_name(run_id) for run_id in run_ids)
        async with anyio.create_task_group() as tasks:
            selector = call_selector(call)
            tasks.start_soon(remove, f"secrets of {names}", lambda: cluster.delete_all("secrets", selector))
            if any(unit.spec.network != "open" for unit in units):
                tasks.start_soon(
                    remove, f"policies of {names}", lambda: cluster.delete_all("networkpolicies", selector)
                )
            for name in [unit.pod.name for unit in units if unit.spec.ports and unit.spec.clients]:
                # Older servers do not delete services by label
                tasks.start_soon(remove, f"service {name}", partial(cluster.delete, "services", name))
        ours = {(unit.spec.run_id, unit.name) for unit in units}
        for run_id in run_ids:
            run = self._run(run_id)
            if all((run_id, name) in ours for name in run.units):
                await remove(f"job {run.name}", run.close)

    # --- leftovers

    async def find_units(self, run_id: str | None) -> Sequence[Found]:
        """Pods, services, secrets, policies and Jobs, found by label."""
        return await find_labelled(self._entered(), run_id)

    async def remove_found(self, found: Found) -> str:
        """Remove a pod (waiting for its end), one of its objects, or a Job; returns why it still exists, if it does."""
        return await reap_labelled(self._entered(), found)


def _refuse_old(cluster: Cluster) -> None:
    if not cluster.is_at_least(*_OLDEST):
        raise BackendUnavailable(
            f"The cluster {cluster.server} runs Kubernetes {cluster.version}, which is older than "
            f"{_OLDEST[0]}.{_OLDEST[1]} and silently drops security settings.",
            code="cluster_too_old",
            hint="Use a newer cluster.",
        )
