"""Following objects of a cluster: list, watch from that version, list again when the server has forgotten it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio

from coworld_core.retrying import Backoff

from ._kube_api import Chunks, Cluster, ClusterGone, ClusterRefused, Kind

__all__ = ["follow"]

_SERVER_SECONDS = 240
"""How long the server keeps a watch; then it is opened anew where it ended."""
_SILENCE = 150.0
"""A server sends a bookmark about once a minute; one that sends nothing for this long is taken for gone."""
_BACKOFF = Backoff(base=0.15, cap=4.0)

OnObject = Callable[[Mapping[str, Any]], object]
OnGone = Callable[[str, Mapping[str, Any] | None], object]


async def follow(
    cluster: Cluster,
    kind: Kind,
    selector: str,
    *,
    on_object: OnObject,
    on_gone: OnGone,
    listed: anyio.Event | None = None,
    on_error: Callable[[ClusterRefused], object] | None = None,
) -> None:
    """Tell of every object that carries these labels, each time it changes, and when it is gone. Never returns.

    A server that does not answer is asked again for as long as this runs.

    Args:
        cluster: The cluster.
        kind: What is followed.
        selector: Which of them, by label.
        on_object: Told each object as it is; told again when it may have changed.
        on_gone: Told the name of one that was deleted, and its last state where the server said it.
        listed: Set when everything that was there at the beginning has been told.
        on_error: Told of a refusal, such as a right that was taken away.
    """
    known: dict[str, str] = {}
    version: str | None = None
    pauses = _BACKOFF.pauses()
    while True:
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
            if error.status in (410, 400, 404):
                version = None
            elif on_error is not None and error.status in (401, 403):
                on_error(error)
        except ClusterGone:
            pass
        await anyio.sleep(next(pauses))


async def _list(
    cluster: Cluster, kind: Kind, selector: str, known: dict[str, str], on_object: OnObject, on_gone: OnGone
) -> str:
    listing = await cluster.list(kind, selector, patience=0)
    present: dict[str, str] = {}
    for item in listing["items"]:
        metadata = item["metadata"]
        present[metadata["name"]] = metadata["uid"]
        on_object(item)
    for name in [name for name, uid in known.items() if present.get(name) != uid]:
        on_gone(name, None)
    known.clear()
    known.update(present)
    return str(listing["metadata"]["resourceVersion"])


async def _events(chunks: Chunks) -> AsyncIterator[Mapping[str, Any]]:
    rest = b""
    async for data in chunks:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _take(event: Mapping[str, Any], known: dict[str, str], on_object: OnObject, on_gone: OnGone) -> str | None:
    """Tell of one event; returns the version to go on from, None when everything has to be listed again."""
    kind, item = event.get("type"), event["object"]
    if kind == "ERROR":
        return None
    metadata = item["metadata"]
    if kind == "DELETED":
        known.pop(metadata["name"], None)
        on_gone(metadata["name"], item)
    elif kind != "BOOKMARK":
        known[metadata["name"]] = metadata["uid"]
        on_object(item)
    return str(metadata["resourceVersion"])
