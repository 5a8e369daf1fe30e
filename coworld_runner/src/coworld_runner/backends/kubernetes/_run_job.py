"""A run on a cluster: a Job owns all its objects, and the cluster removes them when the Job is no longer renewed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from coworld_core.episode.events import Notice
from coworld_core.hints import Hint

from ...backend import Publish
from ._cluster import Cluster, ClusterGone, ClusterRefused
from ._pod_objects import object_name, owner_body, owner_reference

if TYPE_CHECKING:
    from ._kubernetes_unit import KubernetesUnit

__all__ = ["SWEEP_CLUSTER", "Run"]

SWEEP_CLUSTER = Hint("sweep_cluster", "sweep removes them; newer clusters do so by themselves.")
"""The hint for leftovers on a cluster that does not remove finished Jobs."""

_AFTER_UNITS = 60
"""Seconds by which a run outlives its units: a pod that is deleted just as its own deadline ends it may never
disappear (seen with the kubelet of 1.20)."""


class Run:
    """State shared by the units of one run.

    Args:
        cluster: The cluster.
        run_id: The run's label.
        lease: Seconds after which the cluster removes the run unless it is renewed.
        lifetime: Seconds that units may live; where leases cannot be renewed, the run is removed a minute later.
        image: An image for the pod template of the owning Job; it is never pulled.
        owner: The reference to what the owning Job goes with; None: nothing.
    """

    def __init__(
        self,
        cluster: Cluster,
        run_id: str,
        *,
        lease: float,
        lifetime: float,
        image: str,
        owner: Mapping[str, Any] | None = None,
    ) -> None:
        self.run_id = run_id
        self.units: dict[str, KubernetesUnit] = {}
        self.restricted = False
        """Whether the namespace has refused a pod of images' own users."""
        self._cluster = cluster
        # Older controllers check a deadline only when it was first due, and never again after it was extended
        self._renewable = cluster.is_at_least(1, 23)
        self._lease = max(1, int(lease if self._renewable else lifetime + _AFTER_UNITS))
        self._image = image
        self._goes_with = owner
        self._opening = anyio.Lock()
        self._owner: Mapping[str, Any] | None = None
        self._begun = 0.0

    @property
    def name(self) -> str:
        """The name of the Job that owns the run's objects."""
        return object_name(self.run_id)

    async def owner(self, publish: Publish) -> Mapping[str, Any]:
        """Return the owner reference for the run's objects; the first call creates the owner."""
        async with self._opening:
            if self._owner is None:
                body = owner_body(self.run_id, lease=self._lease, image=self._image, owner=self._goes_with)
                self._begun = time.monotonic()
                job = await self._cluster.create("jobs", body)
                self._owner = owner_reference(job)
                if job["spec"].get("ttlSecondsAfterFinished") is None:
                    publish(
                        Notice(
                            level="warning",
                            message="This cluster does not remove finished Jobs: what a killed run leaves stays there.",
                            hint=SWEEP_CLUSTER,
                        )
                    )
        return self._owner

    async def renew(self) -> None:
        """Keep extending the run's deadline where the cluster supports that."""
        while self._renewable:
            await anyio.sleep(self._lease / 3)
            if self._owner is None:
                continue
            until = int(time.monotonic() - self._begun) + self._lease
            try:
                await self._cluster.call(
                    "PATCH",
                    self._cluster.path("jobs", self.name),
                    body={"spec": {"activeDeadlineSeconds": until}},
                    content_type="application/merge-patch+json",
                    retry_timeout=self._lease / 2,
                )
            except (ClusterRefused, ClusterGone):
                # If the Job has been removed, the watch reports its units as gone
                continue

    async def close(self) -> None:
        """Remove the owner.

        Raises:
            BackendError: The owner could not be removed.
        """
        async with self._opening:
            if self._owner is not None:
                await self._cluster.delete("jobs", self.name)
                self._owner = None
