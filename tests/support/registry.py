"""A registry with one image to pull, on loopback, where engines allow plain HTTP by default."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Any

import anyio

from .archives import tar_of
from .fake_server import Ask, Say, Site, json_say, site_in_thread

__all__ = ["Registry", "image_archive", "serve_registry"]


_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _layer(size: int) -> bytes:
    return tar_of({"noise": os.urandom(size)})


def _config(layer: bytes, platform: str) -> bytes:
    system, _, architecture = platform.partition("/")
    return json.dumps(
        {
            "architecture": architecture,
            "os": system,
            "config": {"Labels": {"coworld.test": "image"}},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    ).encode()


def image_archive(name: str, architecture: str) -> bytes:
    """An image for an architecture, without a command, in the format of `docker load`."""
    layer = _layer(100)
    files = {
        "config.json": _config(layer, f"linux/{architecture}"),
        "layer.tar": layer,
        "manifest.json": json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode(),
    }
    return tar_of(files)


class Registry(Site):
    """A registry's image, options, and record of requests.

    Args:
        size: Size of the only layer in bytes.
        login: The required `user:password`, if any.
        platform: The image's platform.
        busy: How many requests are refused at first, with status 503.
    """

    def __init__(self, *, size: int = 100, login: str = "", platform: str = "linux/amd64", busy: int = 0) -> None:
        super().__init__()
        self.busy = busy
        self.login = login
        self.manifests = 0
        """How often the manifest was fetched."""
        self.refused = threading.Event()
        """Set when a request without the login is refused."""
        self.layer_asked = threading.Event()
        """Set when the layer is requested."""
        self.release = threading.Event()
        """The layer's second half is sent once this is set."""
        self.release.set()
        layer = _layer(size)
        self.blobs: dict[str, bytes] = {}
        config, packed = _config(layer, platform), gzip.compress(layer, 1)
        descriptors: list[dict[str, object]] = []
        for kind, data in (
            ("application/vnd.docker.container.image.v1+json", config),
            ("application/vnd.docker.image.rootfs.diff.tar.gzip", packed),
        ):
            self.blobs[_digest(data)] = data
            descriptors.append({"mediaType": kind, "size": len(data), "digest": _digest(data)})
        self.layer = str(descriptors[1]["digest"])
        self.manifest = json.dumps(
            {"schemaVersion": 2, "mediaType": _MANIFEST, "config": descriptors[0], "layers": descriptors[1:]}
        ).encode()
        self.digest = _digest(self.manifest)

    @property
    def address(self) -> str:
        """Host and port."""
        return self.url.removeprefix("http://")

    def image(self, tag: str = "1") -> str:
        """The reference for pulling the image; the tag `absent` does not exist, any other does."""
        return f"{self.address}/coworld/noise:{tag}"

    def otherwise(self, ask: Ask) -> Any:
        name = ask.path.rpartition("/")[2]
        if self.busy > 0:
            self.busy -= 1
            return Say(503)
        wanted = f"Basic {base64.b64encode(self.login.encode()).decode()}"
        if self.login and ask.headers.get("authorization") != wanted:
            self.refused.set()
            return json_say({}, 401, www_authenticate='Basic realm="test"')
        if ask.path == "/v2/":
            return {}
        if "/manifests/" in ask.path and name != "absent":
            self.manifests += ask.method == "GET"
            return Say(200, self.manifest, {"Content-Type": _MANIFEST, "Docker-Content-Digest": self.digest})
        if name in self.blobs:
            size = str(len(self.blobs[name]))
            return Say(200, self._blob(name), {"Content-Type": "application/octet-stream", "Content-Length": size})
        return json_say({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}, 404)

    async def _blob(self, name: str) -> AsyncIterator[bytes]:
        data = self.blobs[name]
        half = len(data) // 2
        yield data[:half]
        if name == self.layer:
            self.layer_asked.set()
            await anyio.to_thread.run_sync(self.release.wait, 60)
        yield data[half:]


@contextmanager
def serve_registry(registry: Registry) -> Generator[Registry]:
    """Serve a registry on a free port of 127.0.0.1."""
    with site_in_thread(registry):
        try:
            yield registry
        finally:
            registry.release.set()
