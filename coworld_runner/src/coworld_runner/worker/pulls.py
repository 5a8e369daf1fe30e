"""Players' images, pulled while the game boots: their pods come when the game is ready, and should not wait then."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from coworld_core.errors import BackendError

from .._concurrency import nursery
from ..backends._kube_api import Cluster
from ..backends._kube_state import has_started, is_over, start_trouble
from ..backends._kube_watch import follow
from .inputs import Settings
from .pods import ATTEMPT, COMPONENT, pull_pod

__all__ = ["Pulls"]

_log = logging.getLogger("coworld.worker")

_REMOVE_SECONDS = 10.0
_CALL_PATIENCE = 10.0


class Pulls:
    """A pod for each image, there until the image is. Whatever goes wrong is left for the players' pods to tell.

    Args:
        cluster: Where they are made.
        settings: The worker's settings.
        attempt: This life of the worker.
        images: What is pulled.
    """

    def __init__(self, cluster: Cluster, settings: Settings, attempt: str, images: Sequence[str]) -> None:
        self._cluster = cluster
        bodies = [pull_pod(settings, index, attempt, image) for index, image in enumerate(images)]
        self._bodies = {str(body["metadata"]["name"]): body for body in bodies}
        self._selector = f"{ATTEMPT}={attempt},{COMPONENT}=image"
        self._done = {name: anyio.Event() for name in self._bodies}

    async def run(self) -> None:
        """Pull them all, and leave nothing."""
        async with nursery() as beside:
            beside.start_soon(self._follow)
            async with anyio.create_task_group() as tasks:
                for name in self._bodies:
                    tasks.start_soon(self._pull, name)

    async def _follow(self) -> None:
        def see(pod: Mapping[str, Any]) -> None:
            if start_trouble(pod) or has_started(pod) or is_over(pod):
                gone(pod)

        def gone(pod: Mapping[str, Any]) -> None:
            if (done := self._done.get(pod["metadata"]["name"])) is not None:
                done.set()

        await follow(self._cluster, "pods", self._selector, on_object=see, on_gone=gone)

    async def _pull(self, name: str) -> None:
        try:
            await self._cluster.create("pods", self._bodies[name], patience=_CALL_PATIENCE)
            await self._done[name].wait()
        except BackendError as error:
            _log.info("an image is not pulled ahead: %s", error.message)
        finally:
            with anyio.move_on_after(_REMOVE_SECONDS, shield=True):
                try:
                    await self._cluster.delete("pods", name, grace=0, patience=_CALL_PATIENCE)
                except BackendError as error:
                    _log.warning("%s is still there, and goes with this pod: %s", name, error.message)
