"""A registry with one image, on loopback, from which an engine can pull without configuration."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Registry", "image_archive", "serve_registry"]


def _layer(size: int) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        entry = tarfile.TarInfo("noise")
        entry.size = size
        archive.addfile(entry, io.BytesIO(os.urandom(size)))
    return content.getvalue()


def _config(layer: bytes, architecture: str) -> bytes:
    return json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Labels": {"coworld.test": "image"}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()


def image_archive(name: str, architecture: str) -> bytes:
    """An image for an architecture, without a command, in the format of ``docker load``."""
    layer = _layer(100)
    files = {
        "config.json": _config(layer, architecture),
        "layer.tar": layer,
        "manifest.json": json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode(),
    }
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


class Registry:
    """A registry's image, options, and record of requests.

    Args:
        size: Size of the only layer in bytes.
        login: The required ``user:password``, if any.
    """

    def __init__(self, *, size: int = 100, login: str = "") -> None:
        self.login = login
        self.manifests = 0
        """How often the manifest was fetched."""
        self.refused = threading.Event()
        """Set when a request without the login was refused."""
        self.layer_asked = threading.Event()
        """Set when the layer is requested."""
        self.release = threading.Event()
        """The layer's second half is sent once this is set."""
        self.release.set()
        self.address = ""
        layer = _layer(size)
        self.blobs: dict[str, bytes] = {}
        config, packed = _config(layer, "amd64"), gzip.compress(layer, 1)
        descriptors: list[dict[str, object]] = []
        for kind, data in (
            ("application/vnd.docker.container.image.v1+json", config),
            ("application/vnd.docker.image.rootfs.diff.tar.gzip", packed),
        ):
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            self.blobs[digest] = data
            descriptors.append({"mediaType": kind, "size": len(data), "digest": digest})
        self.layer = str(descriptors[1]["digest"])
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
                "config": descriptors[0],
                "layers": descriptors[1:],
            }
        ).encode()

    def image(self, tag: str = "1") -> str:
        """The reference for pulling the image."""
        return f"{self.address}/coworld/noise:{tag}"


@contextmanager
def serve_registry(registry: Registry) -> Generator[Registry, None, None]:
    """Serve a registry on a free port of 127.0.0.1, where engines allow plain HTTP by default."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            wanted = f"Basic {base64.b64encode(registry.login.encode()).decode()}"
            if registry.login and self.headers.get("Authorization") != wanted:
                self._send(401, b"{}", "application/json", body, {"WWW-Authenticate": 'Basic realm="test"'})
                registry.refused.set()
            elif self.path == "/v2/":
                self._send(200, b"{}", "application/json", body)
            elif "/manifests/" in self.path and "absent" not in self.path:
                registry.manifests += body
                kind = "application/vnd.docker.distribution.manifest.v2+json"
                digest = f"sha256:{hashlib.sha256(registry.manifest).hexdigest()}"
                self._send(200, registry.manifest, kind, body, {"Docker-Content-Digest": digest})
            elif (name := self.path.rpartition("/")[2]) in registry.blobs:
                self._blob(name, body)
            else:
                wrong = {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}
                self._send(404, json.dumps(wrong).encode(), "application/json", body)

        def _blob(self, name: str, body: bool) -> None:
            data = registry.blobs[name]
            self._head(200, len(data), "application/octet-stream", {})
            if not body:
                return
            half = len(data) // 2
            self.wfile.write(data[:half])
            self.wfile.flush()
            if name == registry.layer:
                registry.layer_asked.set()
                registry.release.wait(60)
            self.wfile.write(data[half:])

        def _send(self, status: int, data: bytes, kind: str, body: bool, headers: dict[str, str] | None = None) -> None:
            self._head(status, len(data), kind, headers or {})
            if body:
                self.wfile.write(data)

        def _head(self, status: int, length: int, kind: str, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(length), **headers}.items():
                self.send_header(name, value)
            self.end_headers()

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore errors; clients may disconnect."""

    with Server(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        registry.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield registry
        finally:
            registry.release.set()
            server.shutdown()
            thread.join()
