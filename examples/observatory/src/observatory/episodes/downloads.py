"""Sending artifacts, whole or in part, with conditional requests."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncGenerator, Mapping
from typing import Literal
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from coworld_core.files import ZipWriter
from coworld_core.roles import BundlePlan

from ..errors import Refusal
from ..store.artifacts import ArtifactStore, StoredObject
from ..store.models import Artifact

__all__ = ["chunks", "filename_of", "plain_chunks", "send", "send_plain", "send_stored", "stream_bundle"]

_RANGE = re.compile(r"bytes=(?:(?P<first>\d{1,18})-(?P<last>\d{0,18})|-(?P<suffix>\d{1,18}))", re.ASCII)

_NAMES = {
    "results": "results.json",
    "replay": "replay.z",
    "events": "events.ndjson",
    "error_info": "error_info.json",
    "game_logs": "game.log",
    "player_logs": "policy_agent_{}.log",
    "player_artifact": "policy_artifact_{}.zip",
}


def filename_of(artifact: Artifact) -> str:
    """The file name of an artifact in its stored form."""
    return _NAMES[artifact.kind].format(artifact.position)


async def chunks(
    store: ArtifactStore, artifact: Artifact | StoredObject, *, start: int = 0, stop: int | None = None
) -> AsyncGenerator[bytes]:
    """The stored bytes."""
    async with store.reading(artifact.key, start=start, stop=stop) as pieces:
        async for piece in pieces:
            yield piece


async def plain_chunks(store: ArtifactStore, artifact: Artifact) -> AsyncGenerator[bytes]:
    """The bytes as the episode wrote them."""
    if artifact.encoding != "zlib":
        async for piece in chunks(store, artifact):
            yield piece
        return
    # Compressed by the worker, which has checked the original size.
    unpacker = zlib.decompressobj()
    async for piece in chunks(store, artifact):
        waiting = piece
        while waiting:
            yield unpacker.decompress(waiting, 1 << 18)
            waiting = unpacker.unconsumed_tail
    yield unpacker.flush()


async def stream_bundle(store: ArtifactStore, plan: BundlePlan[Artifact]) -> AsyncGenerator[bytes]:
    """The bytes of a bundle; memory does not grow with its size."""
    ready: list[bytes] = []
    with ZipWriter(ready.append) as archive:
        for name, content in plan.documents:
            archive.add(name, content)
        for item in plan.items:
            with archive.entry(item.name, compress=item.compress) as file:
                async for piece in plain_chunks(store, item.source):
                    file.write(piece)
                    yield b"".join(ready)
                    ready.clear()
    yield b"".join(ready)


def send(store: ArtifactStore, request: Request, artifact: Artifact, *, name: str | None = None) -> Response:
    """Send an artifact's stored bytes, according to the request's conditions and range.

    Args:
        store: The store.
        request: The request.
        artifact: What to send.
        name: Its file name; by default that of its kind.

    Raises:
        Refusal: As by `send_stored`.
    """
    stored = StoredObject(artifact.key, artifact.size, artifact.sha256)
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name or filename_of(artifact))}",
        "Cache-Control": "private, max-age=3600, immutable",
    }
    return send_stored(store, request, stored, headers=headers, media_type=artifact.media_type)


def send_stored(
    store: ArtifactStore, request: Request, stored: StoredObject, *, headers: Mapping[str, str], media_type: str
) -> Response:
    """Send stored bytes, according to the request's conditions and range.

    Args:
        store: The store.
        request: The request.
        stored: What to send; its digest is the entity tag.
        headers: Further headers.
        media_type: The type of the content.

    Raises:
        Refusal: 412 if `If-Match` names another version, 416 for a range beyond the end.
    """
    etag = f'"{stored.sha256}"'
    headers = {"ETag": etag, "Accept-Ranges": "bytes", **headers}
    wanted = request.headers.get("if-match")
    if wanted is not None and not _names(wanted, etag):
        raise Refusal(412, "The artifact has changed since the given version. Look it up again.", code="changed")
    known = request.headers.get("if-none-match")
    if known is not None and _names(known, etag):
        return Response(status_code=304, headers=headers)
    start, stop, status = 0, stored.size, 200
    asked = request.headers.get("range")
    if asked is not None and request.headers.get("if-range", etag) == etag:
        part = _part(asked, stored.size)
        if isinstance(part, str):
            raise Refusal(
                416,
                f"The range is outside the content, which has {stored.size} bytes.",
                code="range_not_satisfiable",
                headers={"Content-Range": f"bytes */{stored.size}", "ETag": etag},
            )
        if part is not None:
            start, stop = part
            status = 206
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{stored.size}"
    headers["Content-Length"] = str(stop - start)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=media_type)
    return StreamingResponse(
        chunks(store, stored, start=start, stop=stop),
        status_code=status,
        headers=headers,
        media_type=media_type,
    )


def send_plain(store: ArtifactStore, request: Request, artifact: Artifact) -> Response:
    """Send the bytes as the episode wrote them; a range only if they are stored uncompressed."""
    if artifact.encoding == "identity":
        return send(store, request, artifact)
    headers = {"ETag": f'W/"{artifact.sha256}"', "Accept-Ranges": "none"}
    if request.method == "HEAD":
        return Response(headers=headers, media_type="application/octet-stream")
    return StreamingResponse(plain_chunks(store, artifact), headers=headers, media_type="application/octet-stream")


def _names(header: str, etag: str) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return "*" in tags or etag in tags or etag.strip('"') in tags


def _part(header: str, size: int) -> tuple[int, int] | Literal["beyond"] | None:
    """The requested range; None to send everything."""
    match = _RANGE.fullmatch(header.strip())
    if match is None:
        return None
    if match["suffix"] is not None:
        length = int(match["suffix"])
        return "beyond" if length == 0 or size == 0 else (max(0, size - length), size)
    first = int(match["first"])
    last = int(match["last"]) if match["last"] else size - 1
    if first >= size:
        return "beyond"
    return (first, min(last + 1, size)) if last >= first else None
