"""A registry for pushing images: the distribution protocol as specified, blobs on disk, and faults on demand."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .fake_server import Ask, FakeServer, Reset, Say, serve

__all__ = ["Fault", "PushRegistry", "serve_push_registry"]

LOGIN = "cHVzaDpzM2NyZXQ="
"""`push:s3cret`, as in the answer to an upload."""


@dataclass
class Fault:
    """A fault that affects matching requests, up to `times` times."""

    method: str
    times: int = 1
    after: int | None = None
    """Reset the connection after receiving and storing this many bytes of the request's body."""
    late: bool = False
    """Handle the request, then reset the connection instead of answering."""
    say: Say | None = None
    """Send this answer instead."""

    def matches(self, ask: Ask) -> bool:
        """Whether a request has the method, and a body long enough to be cut off."""
        size = int(ask.headers.get("content-length", "0"))
        return ask.method == self.method and (not self.after or size > self.after)


@dataclass
class PushRegistry:
    """The registry's content, options and statistics."""

    directory: Path
    relative: bool = False
    """Whether locations in its answers are paths without a host."""
    status: bool = True
    """Whether it reports the progress of an upload."""
    blobs: dict[str, Path] = field(default_factory=dict[str, Path])
    manifests: dict[str, bytes] = field(default_factory=dict[str, bytes])
    faults: list[Fault] = field(default_factory=list[Fault])
    received: int = 0
    """Number of received bytes of blobs, including discarded ones."""
    pieces: int = 0
    """Number of requests with these bytes."""
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    url: str = ""
    on_request: Callable[[Ask], None] | None = None
    _uploads: dict[str, Path] = field(default_factory=dict[str, Path])
    _begun: int = 0

    def image(self, tag: str) -> dict[str, Any]:
        """The manifest under a tag; checks that all its blobs are complete and have the declared sizes."""
        manifest = json.loads(self.manifests[tag])
        for entry in (manifest["config"], *manifest["layers"]):
            assert self.blobs[entry["digest"]].stat().st_size == entry["size"]
        return manifest

    async def handle(self, ask: Ask) -> Say:
        self.requests.append((ask.method, ask.path))
        if self.on_request is not None:
            self.on_request(ask)
        if ask.headers.get("authorization") != f"Basic {LOGIN}":
            return self._error(401, "UNAUTHORIZED", "who are you?")
        fault = next((fault for fault in self.faults if fault.times > 0 and fault.matches(ask)), None)
        if fault is not None:
            fault.times -= 1
            if fault.say is not None:
                return fault.say
        match = re.fullmatch(r"/v2/(?P<name>[a-z0-9/_-]+?)/(?P<kind>blobs|manifests)/(?P<rest>.+)", ask.path)
        if match is None:
            return self._error(404, "NAME_UNKNOWN", "no such repository")
        rest = match["rest"]
        if match["kind"] == "manifests":
            said = await self._put_manifest(rest, ask)
        elif rest == "uploads/":
            said = self._begin(match["name"])
        elif rest.startswith("uploads/"):
            said = await self._upload(rest.removeprefix("uploads/"), ask, fault)
        else:
            said = self._blob(rest)
        if fault is not None and fault.late:
            raise Reset
        return said

    def _blob(self, digest: str) -> Say:
        if digest not in self.blobs:
            return self._error(404, "BLOB_UNKNOWN", "no such blob")
        return Say(200, headers={"Content-Length": str(self.blobs[digest].stat().st_size)})

    def _begin(self, name: str) -> Say:
        self._begun += 1
        number = f"{self._begun}"
        self._uploads[number] = self.directory / f"upload-{number}"
        self._uploads[number].touch()
        return Say(202, headers=self._place(name, number))

    def _place(self, name: str, number: str) -> dict[str, str]:
        path = f"/v2/{name}/blobs/uploads/{number}?state=a%2Fb"
        size = self._uploads[number].stat().st_size
        return {"Location": path if self.relative else f"{self.url}{path}", "Range": f"0-{max(size - 1, 0)}"}

    async def _upload(self, number: str, ask: Ask, fault: Fault | None) -> Say:
        file = self._uploads.get(number)
        if file is None:
            return self._error(404, "BLOB_UPLOAD_UNKNOWN", "no such upload")
        name = ask.path.removeprefix("/v2/").partition("/blobs/")[0]
        if ask.method == "GET":
            return Say(204, headers=self._place(name, number)) if self.status else self._error(404, "UNKNOWN", "no")
        if ask.method == "PATCH":
            self.pieces += 1
            start = int(ask.headers.get("content-range", "0-").partition("-")[0])
            if start != file.stat().st_size:
                return Say(416, headers=self._place(name, number))
        arrived = 0
        with file.open("ab") as sink:
            async for piece in ask.pieces():
                if fault is not None and fault.after is not None and arrived + len(piece) > fault.after:
                    sink.write(piece[: fault.after - arrived])
                    self.received += fault.after - arrived
                    raise Reset
                sink.write(piece)
                arrived += len(piece)
                self.received += len(piece)
        if ask.method == "PATCH":
            return Say(202, headers=self._place(name, number))
        del self._uploads[number]
        with file.open("rb") as content:
            digest = f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
        if ask.query.get("digest") != digest:
            return self._error(400, "DIGEST_INVALID", f"what came is {digest}")
        self.blobs[digest] = file
        return Say(201, headers={"Docker-Content-Digest": digest})

    async def _put_manifest(self, tag: str, ask: Ask) -> Say:
        content = await ask.read()
        manifest = json.loads(content)
        if any(entry["digest"] not in self.blobs for entry in (manifest["config"], *manifest["layers"])):
            return self._error(400, "MANIFEST_BLOB_UNKNOWN", "a blob is missing")
        self.manifests[tag] = content
        return Say(201, headers={"Docker-Content-Digest": f"sha256:{hashlib.sha256(content).hexdigest()}"})

    def _error(self, status: int, code: str, message: str) -> Say:
        return Say(status, json.dumps({"errors": [{"code": code, "message": message}]}).encode())


@asynccontextmanager
async def serve_push_registry(registry: PushRegistry) -> AsyncGenerator[FakeServer]:
    """Serve a registry on a free port of 127.0.0.1."""
    async with serve(registry.handle) as server:
        registry.url = server.url
        yield server
