"""Images on a cluster: nodes list those they have; an image that no node has is pulled once as a test."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio

from coworld_core.episode.events import ImageReady, Notice
from coworld_core.errors import ImageError, StartError

from ...backend import ImageInfo, Publish
from ...runs._task_groups import nursery
from ...runs.scratch import open_scratch
from ..engine import RUN
from ..start_causes import IMAGE_CODES
from . import _pod_state as state
from ._admission import advice_on
from ._cluster import Cluster, ClusterRefused
from ._cluster_capacity import ClusterCapacity, wait_limit
from ._cordoned_nodes import without_node
from ._object_parts import thing
from ._pod_objects import (
    MANAGED,
    PULL_SECONDS,
    PodOptions,
    annotations_of,
    nodes_of,
    object_name,
    owner_body,
    owner_reference,
    pull_spec,
)
from ._start_attempts import StartAttempts, advice
from ._watch import follow

__all__ = ["Images", "image_on_nodes", "pull"]

_UNPUBLISHED = re.compile(r"img_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHECK = "coworld.image-check"
_REMOVE_SECONDS = 30


class Images:
    """The images of a cluster.

    Args:
        cluster: The cluster.
        options: How pods are created, pull secrets included.
        room: Decides when a pod may be created.
    """

    def __init__(self, cluster: Cluster, options: PodOptions, room: ClusterCapacity) -> None:
        self._cluster = cluster
        self._options = options
        self._room = room
        self._known: dict[tuple[str, str | None], ImageInfo] = {}
        self._asking: dict[str, anyio.Lock] = {}

    async def ensure(self, image: str, *, platform: str | None, publish: Publish | None) -> ImageInfo:
        """Make sure that the cluster can get an image.

        Raises:
            ImageError: The cluster cannot get the image, in its own words.
            StartError: It cannot try, for want of room say.
        """
        if _UNPUBLISHED.fullmatch(image):
            raise ImageError(
                f"{image} is the id of an image that the platform has not published yet.",
                code="image_unpublished",
                hint="Download the package again once it is published, or build its image and name that instead.",
                context={"image": image},
            )
        async with self._asking.setdefault(image, anyio.Lock()):
            if (image, platform) not in self._known:
                info = await image_on_nodes(self._cluster, image, platform)
                info = info or await self._try(image, platform, publish)
                self._known[image, platform] = info
        info = self._known[image, platform]
        if publish is not None:
            publish(ImageReady(image=image, digest=info.digest, platform=info.platform))
        return info

    async def _try(self, image: str, platform: str | None, publish: Publish | None) -> ImageInfo:
        """Pull the image with a pod whose program does not exist, so that nothing runs."""
        check = f"image-{secrets.token_hex(6)}"

        def note(what: str) -> None:
            if publish is not None:
                publish(Notice(message=f"A look at the image {image} waits {what}"))

        # Locked meanwhile, so that it is not taken for the remains of a killed runner
        async with open_scratch(check):
            try:
                job = await self._cluster.create("jobs", owner_body(check, lease=PULL_SECONDS, image=image))
                body = self._body(check, image, platform, owner_reference(job))
                pod, trouble = await pull(
                    self._cluster,
                    body,
                    f"{_CHECK}={object_name(check)}",
                    until=_has_no_node,
                    admit=lambda make: self._room.take(
                        check, make, lambda why: note(f"for room on the cluster: {why}")
                    ),
                    on_retry=lambda why: note(f"for the node's next attempt: {why}"),
                )
            except ClusterRefused as error:
                code, hint = advice_on(error, self._cluster.namespace, None)
                raise self._untried(image, code, error.server_message, hint) from error
            finally:
                with anyio.move_on_after(_REMOVE_SECONDS, shield=True):
                    await self._cluster.delete("jobs", object_name(check))
        if trouble is not None and trouble.code in IMAGE_CODES:
            raise ImageError(
                f"The cluster cannot get the image {image!r}: {trouble.message.rstrip('.')}.",
                code=trouble.code,
                hint=advice(trouble.code, image),
                context={"image": image},
            )
        if words := state.unschedulable(pod):
            raise self._untried(image, "unschedulable", *await without_node(self._cluster, pod, words))
        return ImageInfo(image=image, digest=state.image_digest(pod), platform=platform or "")

    def _body(self, check: str, image: str, platform: str | None, owner: Mapping[str, Any]) -> dict[str, Any]:
        """The pod that pulls the image."""
        options = self._options
        metadata = {
            "name": object_name(check),
            "labels": {**MANAGED, RUN: check, _CHECK: object_name(check)},
            "annotations": annotations_of(check),
            "ownerReferences": [dict(owner)],
        }
        overlay = options.overlaid
        user = {"user": own} if (own := overlay.user(None)) else {}
        spec = pull_spec(image, policy=options.pull_policy, **user, **nodes_of(platform))
        return overlay.applied(None, thing("Pod", metadata, spec=spec), program=None)

    def _untried(self, image: str, code: str | None, reason: str, hint: str | None) -> StartError:
        message = f"The cluster cannot try the image {image!r}: {reason.rstrip('.')}."
        return StartError(message, code=code, hint=hint, context={"image": image})


async def image_on_nodes(cluster: Cluster, image: str, platform: str | None = None) -> ImageInfo | None:
    """Return a node's description of an image; None if no node has it, or nodes may not be listed."""
    try:
        listing = await cluster.call("GET", "/api/v1/nodes", query={"limit": 500}, retry_timeout=10)
    except ClusterRefused:
        return None
    wanted = _spellings(image)
    for node in listing.get("items") or ():
        status: Mapping[str, Any] = node["status"]
        info: Mapping[str, str] = status.get("nodeInfo") or {}
        its = f"{info.get('operatingSystem')}/{info.get('architecture')}"
        if platform is not None and its != "/".join(platform.split("/")[:2]):
            continue
        for entry in status.get("images") or ():
            names: list[str] = entry.get("names") or []
            if wanted & set(names):
                digests = [name.partition("@")[2] for name in names if "@" in name]
                return ImageInfo(image=image, digest=digests[0] if digests else "", platform=its)
    return None


async def pull(
    cluster: Cluster,
    body: Mapping[str, Any],
    selector: str,
    *,
    until: Callable[[Mapping[str, Any]], bool] = lambda _: False,
    admit: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]] = lambda make: make(),
    on_retry: Callable[[str], object] = lambda _: None,
) -> tuple[Mapping[str, Any], state.Trouble | None]:
    """Create a pod that pulls its image, and remove it once it has the image or will never have it.

    Args:
        cluster: The cluster.
        body: The pod, built with `pull_spec`.
        selector: Labels that match the pod; they may match others as well.
        until: Whether a state of the pod settles the matter, too.
        admit: Creates the pod with the given function, when there is room for it.
        on_retry: Called with the cluster's words when the node is left to try again.

    Returns:
        The last known state of the pod, empty if it was never seen, and the trouble it had.

    Raises:
        BackendError: The pod could not be created or removed.
    """
    name = str(body["metadata"]["name"])
    last: Mapping[str, Any] = {}
    done = anyio.Event()
    attempts = StartAttempts(on_retry=on_retry)

    def look(pod: Mapping[str, Any]) -> None:
        nonlocal last
        if pod["metadata"]["name"] == name:
            last = pod
            if attempts.trouble(pod) is not None or state.has_started(pod) or state.is_over(pod) or until(pod):
                done.set()

    def gone(pod: Mapping[str, Any]) -> None:
        if pod["metadata"]["name"] == name:
            done.set()

    async def make() -> None:
        await cluster.create("pods", body)

    try:
        await admit(make)
        async with nursery() as beside:
            beside.start_soon(partial(follow, cluster, "pods", selector, on_object=look, on_gone=gone))
            with anyio.move_on_after(wait_limit(PULL_SECONDS)):
                await done.wait()
    finally:
        with anyio.move_on_after(_REMOVE_SECONDS, shield=True):
            await cluster.delete("pods", name, grace=0)
    return last, attempts.last


def _has_no_node(pod: Mapping[str, Any]) -> bool:
    words = state.unschedulable(pod)
    return bool(words) and not state.lacks_room(words)


def _spellings(image: str) -> set[str]:
    """The names under which a node may list an image."""
    tagged = image if re.search(r"(:[^/@]+|@sha256:[0-9a-f]+)$", image) else f"{image}:latest"
    names = {image, tagged}
    first = tagged.partition("/")[0]
    if "/" not in tagged:
        names |= {f"docker.io/library/{tagged}", f"library/{tagged}"}
    elif "." not in first and ":" not in first and first != "localhost":
        names.add(f"docker.io/{tagged}")
    return names
