"""Following objects of a cluster: list, watch from that version, list again when the server has forgotten it."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio

from coworld_core.retrying import Backoff

from ._api import Cluster, ClusterGone, ClusterRefused, Kind

__all__ = ["follow"]

_SERVER_SECONDS = 240
"""How long the server keeps a watch; then it is opened anew where it ended."""
_SILENCE = 150.0
"""A server sends a bookmark about once a minute; one that sends nothing for this long is taken for gone."""
_BACKOFF = Backoff(base=0.15, cap=4.0)
_LOOK_SECONDS = 1.0
"""At most between two looks where watching is not permitted."""

Told = Callable[[Mapping[str, Any]], object]


async def follow(
    cluster: Cluster,
    kind: Kind,
    selector: str,
    *,
    on_object: Told,
    on_gone: Told,
    listed: anyio.Event | None = None,
    on_error: Callable[[ClusterRefused], object] | None = None,
) -> None:
    """Tell of every object that carries these labels, each time it changes, and when it is gone. Never returns.

    A server that does not answer is asked again for as long as this runs; where only looking is permitted, they are
    looked at again and again.

    Args:
        cluster: The cluster.
        kind: What is followed.
        selector: Which of them, by label.
        on_object: Told each object as it is; told again when it may have changed.
        on_gone: Told one that was deleted, as it was seen last.
        listed: Set when everything that was there at the beginning has been told.
        on_error: Told of a refusal, such as a right that was taken away.
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
    cluster: Cluster, kind: Kind, selector: str, known: dict[str, Mapping[str, Any]], on_object: Told, on_gone: Told
) -> str:
    listing = await cluster.list(kind, selector, patience=0)
    present = {item["metadata"]["uid"]: item for item in listing["items"]}
    for uid in known.keys() - present.keys():
        # before those that may have its name now
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


def _take(event: Mapping[str, Any], known: dict[str, Mapping[str, Any]], on_object: Told, on_gone: Told) -> str | None:
    """Tell of one event; returns the version to go on from, None when everything has to be listed again."""
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
