"""Finds objects on a cluster by their labels, and removes them."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from typing import Any, Literal

import anyio

from coworld_core.errors import BackendError

from ...backend import Found
from ..engine import RUN, owner_lives
from ._cluster import Cluster, ClusterRefused, Kind
from ._pod_objects import run_selector
from ._pod_state import is_over, silent_node
from ._watch import follow

__all__ = ["find_labelled", "reap_labelled"]

_FoundKind = Literal["job", "pod", "service", "secret", "policy"]
_KINDS: dict[_FoundKind, Kind] = {
    "pod": "pods",
    "service": "services",
    "secret": "secrets",
    "policy": "networkpolicies",
    "job": "jobs",
}
"""The kinds of objects that a run may have on a cluster."""
_END_SECONDS = 60.0
"""How long a killed pod may take to end before it is deleted without waiting for its node."""


async def find_labelled(cluster: Cluster, run_id: str | None) -> tuple[Found, ...]:
    """Find the pods, services, secrets, policies and Jobs of one run, or of all runs, in the namespace."""
    found: dict[_FoundKind, list[Found]] = {}

    async def look(kind: _FoundKind) -> None:
        found[kind] = []
        try:
            listing = await cluster.list(_KINDS[kind], run_selector(run_id))
        except ClusterRefused as error:
            # Objects that may not even be listed were not created with these rights
            if error.status != 403:
                raise
            return
        found[kind] = [_found(kind, item) for item in listing["items"]]

    async with anyio.create_task_group() as tasks:
        for kind in _KINDS:
            tasks.start_soon(look, kind)
    return tuple(item for kind in _KINDS for item in found[kind])


def _found(kind: _FoundKind, item: Mapping[str, Any]) -> Found:
    metadata: Mapping[str, Any] = item["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    made = dt.datetime.fromisoformat(str(metadata["creationTimestamp"]).replace("Z", "+00:00"))
    return Found(
        kind=kind,
        id=f"{metadata['namespace']}/{metadata['name']} {metadata['uid']}",
        name=str(metadata["name"]),
        run_id=annotations.get(RUN) or metadata["labels"][RUN],
        # A runner on another machine counts as alive until the cluster removes the Job it no longer renews
        alive=owner_lives(annotations),
        age_seconds=max(0.0, time.time() - made.timestamp()),
    )


async def reap_labelled(cluster: Cluster, found: Found) -> str:
    """Remove an object from `find_labelled`, a pod after its end; return why it remains, else an empty string."""
    _, _, uid = found.id.partition(" ")
    try:
        if found.kind == "pod":
            await _end_pod(cluster, found.name, uid)
        else:
            await cluster.delete(_KINDS[found.kind], found.name, uid=uid)  # type: ignore[index]
    except BackendError as error:
        return error.message
    return ""


async def _end_pod(cluster: Cluster, name: str, uid: str) -> None:
    """Kill a pod, wait until it has ended, and delete it; do not wait for a node that has stopped reporting."""
    if not await cluster.delete("pods", name, grace=1, uid=uid):
        return
    ended = anyio.Event()

    def look(pod: Mapping[str, Any]) -> None:
        if pod["metadata"]["uid"] != uid or is_over(pod) or silent_node(pod):
            ended.set()

    with anyio.move_on_after(_END_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_follow_one, cluster, name, look, ended)
            await ended.wait()
            tasks.cancel_scope.cancel()
    await cluster.delete("pods", name, grace=0, uid=uid)


async def _follow_one(cluster: Cluster, name: str, look: Any, ended: anyio.Event) -> None:
    listed = anyio.Event()
    present: list[str] = []

    def seen(pod: Mapping[str, Any]) -> None:
        if pod["metadata"]["name"] == name:
            present.append(name)
            look(pod)

    def gone(pod: Mapping[str, Any]) -> None:
        if pod["metadata"]["name"] == name:
            ended.set()

    async with anyio.create_task_group() as tasks:

        async def absent() -> None:
            await listed.wait()
            if not present:
                ended.set()

        tasks.start_soon(absent)
        await follow(cluster, "pods", run_selector(None), on_object=seen, on_gone=gone, listed=listed)
