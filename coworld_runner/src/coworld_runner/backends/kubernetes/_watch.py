"""Follows objects of a cluster: lists them, watches from that version, and lists again once the version expires."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio

from coworld_core.retries import Backoff

from ._cluster import Cluster, ClusterGone, ClusterRefused, Kind

__all__ = ["follow"]

_SERVER_SECONDS = 240
"""How long the server keeps a watch open; it is then reopened where it ended."""
_SILENCE = 150.0
"""A server sends a bookmark about once a minute; one that is silent for this long counts as gone."""
_BACKOFF = Backoff(base=0.15, cap=4.0)
_LOOK_SECONDS = 1.0
"""Longest pause between two listings where watching is not permitted."""

ObjectCallback = Callable[[Mapping[str, Any]], object]


async def follow(
    cluster: Cluster,
    kind: Kind,
    selector: str,
    *,
    on_object: ObjectCallback,
    on_gone: ObjectCallback,
    listed: anyio.Event | None = None,
    on_error: Callable[[ClusterRefused], object] | None = None,
) -> None:
    """Report every object with these labels, each time it changes and when it is deleted. Never returns.

    A server that does not answer is asked again for as long as this runs. Where watching is not permitted, objects are
    listed repeatedly.

    Args:
        cluster: The cluster.
        kind: The kind of objects.
        selector: Their labels.
        on_object: Called with each object, and again when it may have changed.
        on_gone: Called with the last known state of a deleted object.
        listed: Set once all initial objects have been reported.
        on_error: Called with a refusal, such as a revoked permission.
    """
    known: dict[str, Mapping[str, Any]] = {}
    version: str | None = None
    pauses = _BACKOFF.pauses()
    while True:
        longest = math.inf
        try:
            if version is None:
                version = await _list(cluster, kind, selector, known, on_object, on_gone)
                if listed is not None:
                    listed.set()
            async with cluster.stream(
                cluster.path(kind),
                {
                    "watch": True,
                    "labelSelector": selector,
                    "resourceVersion": version,
                    "allowWatchBookmarks": True,
                    "timeoutSeconds": _SERVER_SECONDS,
                },
                silence=_SILENCE,
            ) as chunks:
                pauses = _BACKOFF.pauses()
                async for event in _events(chunks):
                    version = _take(event, known, on_object, on_gone)
                    if version is None:
                        break
                else:
                    continue
        except ClusterRefused as error:
            if error.status in (400, 401, 403, 404, 410):
                version = None
            if error.status in (401, 403):
                longest = _LOOK_SECONDS
                if on_error is not None:
                    on_error(error)
        except ClusterGone:
            pass
        await anyio.sleep(min(next(pauses), longest))


async def _list(
    cluster: Cluster,
    kind: Kind,
    selector: str,
    known: dict[str, Mapping[str, Any]],
    on_object: ObjectCallback,
    on_gone: ObjectCallback,
) -> str:
    listing = await cluster.list(kind, selector, retry_timeout=0)
    present = {item["metadata"]["uid"]: item for item in listing["items"]}
    for uid in known.keys() - present.keys():
        # Before new objects that may have the same name
        on_gone(known.pop(uid))
    for item in listing["items"]:
        on_object(item)
    known.update(present)
    return str(listing["metadata"]["resourceVersion"])


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Mapping[str, Any]]:
    rest = b""
    async for data in chunks:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _take(
    event: Mapping[str, Any], known: dict[str, Mapping[str, Any]], on_object: ObjectCallback, on_gone: ObjectCallback
) -> str | None:
    """Report one event; return the version to continue from, or None if everything must be listed again."""
    kind, item = event.get("type"), event["object"]
    if kind == "ERROR":
        return None
    metadata = item["metadata"]
    if kind == "DELETED":
        known.pop(metadata["uid"], None)
        on_gone(item)
    elif kind != "BOOKMARK":
        known[metadata["uid"]] = item
        on_object(item)
    return str(metadata["resourceVersion"])
