"""Pulling players' images while the game boots, so that their pods start at once when the game is ready."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio

from coworld_core.errors import BackendError

from ..backends.kubernetes._cluster import Cluster
from ..backends.kubernetes._node_images import pull
from .player_pods import ATTEMPT, COMPONENT, pull_pod
from .worker_settings import Settings

__all__ = ["pull_images"]

_log = logging.getLogger("coworld.worker")


async def pull_images(cluster: Cluster, settings: Settings, attempt: str, images: Sequence[str]) -> None:
    """Pull images, each with a pod that exists until the image does. Failures show later, in the players' pods.

    Args:
        cluster: The connection to the API server.
        settings: The worker's settings.
        attempt: The worker's attempt.
        images: The images to pull.
    """

    async def one(index: int, image: str) -> None:
        body = pull_pod(settings, index, attempt, image)
        try:
            await pull(cluster, body, f"{ATTEMPT}={attempt},{COMPONENT}=image")
        except BackendError as error:
            _log.info("an image is not pulled ahead, or its pod goes with this one: %s", error.message)

    async with anyio.create_task_group() as tasks:
        for index, image in enumerate(images):
            tasks.start_soon(one, index, image)
