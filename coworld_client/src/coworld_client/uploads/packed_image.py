"""Preparing an exported image for a registry: compressing its layers, and writing the manifest that names them."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import anyio
import anyio.from_thread
import anyio.to_thread

from coworld_core.errors import EnvironmentFault, unwrapped

from .docker_images import OCI_LAYER, Blob, ExportedImage, digest_of, write_hashed

__all__ = ["PackedImage", "pack_image"]

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"

_CHUNK = 1 << 20
_GZIP_LEVEL = 1
"""Better compression takes longer than a network needs for the bytes that it saves."""


@dataclass(frozen=True, kw_only=True)
class PackedImage:
    """An image ready for a registry."""

    blobs: tuple[Blob, ...]
    """Layers and config, each once."""
    manifest: bytes
    """The OCI image manifest."""
    media_type: str = OCI_MANIFEST

    @property
    def size(self) -> int:
        """Bytes of all blobs."""
        return sum(blob.size for blob in self.blobs)

    @property
    def digest(self) -> str:
        """Digest of the manifest, which is the digest of the image in a registry."""
        return digest_of(hashlib.sha256(self.manifest).digest())


async def pack_image(
    image: ExportedImage,
    directory: Path,
    *,
    compress: bool = True,
    concurrency: int = 2,
    on_progress: Callable[[int], object] | None = None,
) -> PackedImage:
    """Compress an image's layers and write the manifest that names them.

    A plain tar layer is compressed with gzip, always to the same bytes, and its plain file is removed. Layers that are
    already compressed stay as they are.

    Args:
        image: The exported image.
        directory: The directory for compressed layers: the one that the image was exported to.
        compress: Whether to compress plain layers.
        concurrency: Number of layers to compress at a time.
        on_progress: Called with the bytes of layers that are done.

    Raises:
        EnvironmentFault: A layer cannot be written, for example because the disk is full.
    """
    packed: dict[str, Blob] = {}
    done = 0
    limiter = anyio.CapacityLimiter(concurrency)

    def report(more: int) -> None:
        nonlocal done
        done += more
        if on_progress is not None:
            on_progress(done)

    async def pack(number: int, layer: Blob) -> None:
        if not compress or layer.media_type != OCI_LAYER:
            packed[layer.digest] = layer
            report(layer.size)
            return
        target = directory / f"layer-{number}"

        def progress(more: int) -> None:
            anyio.from_thread.run_sync(report, more)

        packed[layer.digest] = await anyio.to_thread.run_sync(_gzip, layer, target, progress, limiter=limiter)

    distinct = list({layer.digest: layer for layer in image.layers}.values())
    with unwrapped():
        async with anyio.create_task_group() as group:
            for number, layer in enumerate(distinct):
                group.start_soon(pack, number, layer)
    layers = [packed[layer.digest] for layer in image.layers]
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": _descriptor(image.config),
        "layers": [_descriptor(layer) for layer in layers],
    }
    blobs = {blob.digest: blob for blob in (*layers, image.config)}
    return PackedImage(blobs=tuple(blobs.values()), manifest=json.dumps(manifest, separators=(",", ":")).encode())


def _descriptor(blob: Blob) -> dict[str, object]:
    return {"mediaType": blob.media_type, "size": blob.size, "digest": blob.digest}


def _gzip(layer: Blob, target: Path, progress: Callable[[int], None]) -> Blob:
    # No time or name in the header, so that a layer becomes the same blob wherever it is compressed
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31)

    def packed(source: IO[bytes]) -> Iterator[bytes]:
        while piece := source.read(_CHUNK):
            yield packer.compress(piece)
            progress(len(piece))
        yield packer.flush()

    try:
        with layer.path.open("rb") as source:
            digest, size = write_hashed(packed(source), target)
    except OSError as error:
        raise EnvironmentFault(
            f"A layer could not be packed in {target.parent}: {error.strerror or error}.",
            code="disk_full",
            hint="Free some room, or set TMPDIR to a directory with more.",
        ) from error
    layer.path.unlink()
    return Blob(path=target, digest=digest, size=size, media_type=f"{OCI_LAYER}+gzip", kind="layer")
