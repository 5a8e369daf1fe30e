"""What the backends have in common that run inside of a pod, and have the cluster's programs play."""

from __future__ import annotations

from typing import Self

import anyio

from coworld_core.errors import UsageError

from ..backend import Capabilities, ImageInfo, Publish
from ..backends.base import BaseBackend
from ..backends.kubernetes._cluster import Cluster

__all__ = ["POD_CAPABILITIES", "PodBackend"]

POD_CAPABILITIES = Capabilities(
    images=True,
    network_isolation=False,
    file_isolation=True,
    memory_limit=True,
    cpu_limit=True,
    pids_limit=False,
    disk_limit=True,
    remote=True,
    separate_streams=False,
)
"""The limits that pods enforce. Whether networks are isolated is the operator's to say, by network policies."""


class PodBackend(BaseBackend):
    """A backend that runs in a pod, and reaches the cluster by the pod's account.

    Args:
        namespace: The pod's namespace.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._cluster: Cluster | None = None

    @property
    def capabilities(self) -> Capabilities:
        """The limits that a pod enforces."""
        return POD_CAPABILITIES

    @property
    def cluster(self) -> Cluster:
        """The connection to the API server."""
        if self._cluster is None:
            raise UsageError("The job backend is used outside its `async with`.", code="backend_not_entered")
        return self._cluster

    async def __aenter__(self) -> Self:
        self._cluster = await Cluster.connect(namespace=self._namespace)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            with anyio.CancelScope(shield=True):
                await cluster.close()

    def engine_version(self) -> str:
        """The cluster's version."""
        return f"Kubernetes {self._cluster.version}" if self._cluster is not None else ""

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        """Take the image as it is: its node has it, or pulls it while the game is watched."""
        del platform, publish
        return ImageInfo(image=image)
