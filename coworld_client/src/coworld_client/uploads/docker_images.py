"""Export of an image from the local Docker engine, as blobs on disk for a registry.

The engine writes an image as one tar, in one of two layouts: `<id>/layer.tar` up to version 24, an OCI layout with
`blobs/sha256/<digest>` from 25 on. The tar is unpacked as it arrives: each layer is written to its own file, and
hashed on the way. An image is never held in memory, and never stored twice.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Literal, TypeVar, cast

import anyio.from_thread
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from coworld_core.errors import EnvironmentFault, ImageError, first_mistake
from coworld_core.images import HOSTED_PLATFORM, Platform
from coworld_core.text.size_text import shown_size

if TYPE_CHECKING:
    from .docker_engine import DockerEngine, EngineImage

__all__ = [
    "Blob",
    "BlobKind",
    "ExportedImage",
    "check_image",
    "client_hash",
    "export_image",
    "read_export",
]

BlobKind = Literal["config", "layer"]

_T = TypeVar("_T")

OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"

_CHUNK = 1 << 20
_MAX_DOCUMENT = 8 << 20
"""Largest JSON document in bytes; the config of an image with a thousand steps has a few hundred KiB."""
_MAX_ENTRIES = 10_000


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A file whose name in a registry is its digest."""

    path: Path
    digest: str
    """`sha256:<hex>` of the file's bytes."""
    size: int
    media_type: str
    kind: BlobKind


@dataclass(frozen=True, kw_only=True)
class ExportedImage:
    """An image from the engine, as one file for its config and one for each layer."""

    config: Blob
    layers: tuple[Blob, ...]
    """In order; a layer that the image has twice is listed twice, and stored once."""
    platform: Platform

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(blob.size for blob in self.blobs)

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """Config and layers, each once."""
        return tuple({blob.digest: blob for blob in (self.config, *self.layers)}.values())

    @property
    def client_hash(self) -> str:
        """The key by which the platform recognises this image (see `client_hash`)."""
        return client_hash(self.config.digest, [layer.digest for layer in self.layers])


def client_hash(config: str, layers: list[str]) -> str:
    """The key by which the platform recognises an image it already has.

    Args:
        config: Digest of the image's config.
        layers: Digests of the layer files as the engine writes them, in order.

    Returns:
        `sha256:` and the digest of `{"config": ..., "layers": [...]}` as JSON with sorted keys and no spaces.
    """
    text = json.dumps({"config": config, "layers": layers}, sort_keys=True, separators=(",", ":"))
    return digest_of(hashlib.sha256(text.encode()).digest())


def digest_of(sha256: bytes) -> str:
    """A SHA-256 digest as registries write it."""
    return f"sha256:{sha256.hex()}"


# --- out of the engine --------------------------------------------------------------------------------------------


async def export_image(
    engine: DockerEngine,
    reference: str,
    directory: Path,
    *,
    on_progress: Callable[[int], object] | None = None,
) -> ExportedImage:
    """Export an image from the engine into files.

    Args:
        engine: The engine that has the image.
        reference: A reference or an id of the image.
        directory: An existing, empty directory that nothing else writes to.
        on_progress: Called with the bytes that the engine has sent so far.

    Raises:
        ImageError: The export is not an image, is damaged, has several images, or is not for linux/amd64.
        BackendError: The engine refused or stopped answering.
        EnvironmentFault: A file cannot be written, for example because the disk is full.
    """
    return await engine.save(
        reference, lambda pieces: read_export(pieces, directory, name=reference), on_progress=on_progress
    )


def read_export(pieces: Iterable[bytes], directory: Path, *, name: str) -> ExportedImage:
    """Unpack the tar that `docker image save` writes into files. Runs in a worker thread.

    Args:
        pieces: The tar, as it arrives.
        directory: As for `export_image`.
        name: The name of the image in messages.

    Raises:
        ImageError: The tar is not an image, is damaged, has several images, or is not for linux/amd64.
        EnvironmentFault: A file cannot be written, for example because the disk is full.
    """
    files: dict[str, _Spooled] = {}
    links: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", _Reader(pieces)), mode="r|", bufsize=_CHUNK) as archive:
            for number, entry in enumerate(archive):
                if number >= _MAX_ENTRIES:
                    raise _bad(name, f"it has more than {_MAX_ENTRIES} files")
                path = _inner(entry.name)
                if path is None or not _wanted(path):
                    continue
                if entry.issym() or entry.islnk():
                    base = PurePosixPath(path).parent if entry.issym() else PurePosixPath()
                    links[path] = _joined(base, entry.linkname) or ""
                elif entry.isreg():
                    source = archive.extractfile(entry)
                    if source is None or path in files:
                        raise _bad(name, f"it holds {path[:80]!r} twice")
                    # We choose the file's name: names in the archive are only keys
                    files[path] = _spool(source, directory / f"file-{number}", entry.size)
    except (tarfile.TarError, EOFError, zlib.error, UnicodeError, ValueError) as error:
        raise _bad(name, f"its tar is damaged or cut short ({error})") from error
    except OSError as error:
        raise EnvironmentFault(
            f"The image {name} could not be written to {directory}: {error.strerror or error}.",
            code="disk_full",
            hint="Free some room, or set TMPDIR to a directory with more.",
        ) from error
    return _assemble(files, links, name)


class _Reader:
    """A file that reads from an iterator."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._waiting = bytearray()

    def read(self, size: int) -> bytes:
        while len(self._waiting) < size and (piece := next(self._pieces, b"")):
            self._waiting += piece
        data = bytes(self._waiting[:size])
        del self._waiting[:size]
        return data


@dataclass(frozen=True)
class _Spooled:
    path: Path
    digest: str
    size: int


def _inner(name: str) -> str | None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        return None
    return str(path)


def _joined(base: PurePosixPath, target: str) -> str | None:
    parts: list[str] = []
    for part in (base / target).parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part != ".":
            parts.append(part)
    return _inner("/".join(parts))


def _wanted(path: str) -> bool:
    parts = path.split("/")
    return (
        (len(parts) == 1 and path.endswith(".json"))
        or (len(parts) == 2 and parts[1] == "layer.tar")
        or (len(parts) == 3 and path.startswith("blobs/sha256/"))
    )


def _spool(source: IO[bytes], path: Path, size: int) -> _Spooled:
    digest, written = write_hashed(iter(lambda: source.read(_CHUNK), b""), path)
    if written != size:
        raise tarfile.ReadError("unexpected end of data")
    return _Spooled(path, digest, size)


def write_hashed(pieces: Iterable[bytes], path: Path) -> tuple[str, int]:
    """Write a new file and return its digest and size; for worker threads, where cancelling the task ends it."""
    hashed, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        for piece in pieces:
            anyio.from_thread.check_cancelled()
            hashed.update(piece)
            size += file.write(piece)
    return digest_of(hashed.digest()), size


# --- what it holds ------------------------------------------------------------------------------------------------


class _Listed(BaseModel):
    """An image in `manifest.json`: the paths of its config and its layers."""

    config: str = Field(alias="Config")
    layers: list[str] = Field(alias="Layers")


class _RootFs(BaseModel):
    diff_ids: list[str]


class _Config(BaseModel):
    """The parts of an image's config that are used."""

    os: str
    architecture: str
    rootfs: _RootFs


def _assemble(files: Mapping[str, _Spooled], links: Mapping[str, str], name: str) -> ExportedImage:
    listing = files.get("manifest.json")
    if listing is None:
        raise _bad(name, "there is no manifest.json in it")
    images = _document(TypeAdapter(list[_Listed]), listing, "manifest.json", name)
    if len(images) != 1:
        raise _bad(name, f"it holds {len(images)} images instead of one")
    config = _found(images[0].config, files, links, name)
    described = _document(TypeAdapter(_Config), config, "its config", name)
    layers = [_found(layer, files, links, name) for layer in images[0].layers]
    blobs = tuple(_layer(layer) for layer in layers)
    _check_layers(described.rootfs.diff_ids, blobs, name)
    try:
        platform = Platform.parse(f"{described.os}/{described.architecture}")
    except ValueError as error:
        raise _bad(name, "its config names no platform") from error
    require_hosted(platform, name)
    used = {config.path, *(layer.path for layer in layers)}
    for spooled in files.values():
        if spooled.path not in used:
            spooled.path.unlink()
    return ExportedImage(
        config=Blob(path=config.path, digest=config.digest, size=config.size, media_type=OCI_CONFIG, kind="config"),
        layers=blobs,
        platform=platform,
    )


def _found(named: str, files: Mapping[str, _Spooled], links: Mapping[str, str], name: str, depth: int = 0) -> _Spooled:
    path = _inner(named)
    if path is not None and path in links and depth < 8:
        return _found(links[path], files, links, name, depth + 1)
    if path is None or path not in files:
        raise _bad(name, f"{named[:120]!r}, which it names, is not in it")
    spooled = files[path]
    expected = PurePosixPath(path).name
    if path.startswith("blobs/sha256/") and spooled.digest != f"sha256:{expected}":
        raise _bad(name, f"the blob {expected[:80]!r} has the digest {spooled.digest}")
    return spooled


def _document(kind: TypeAdapter[_T], spooled: _Spooled, what: str, name: str) -> _T:
    if spooled.size > _MAX_DOCUMENT:
        raise _bad(name, f"{what} has more than {shown_size(_MAX_DOCUMENT)}")
    try:
        return kind.validate_json(spooled.path.read_bytes())
    except ValidationError as error:
        place, problem = first_mistake(error)
        raise _bad(name, f"{what} is not as it should be ({place}{': ' if place else ''}{problem})") from error


def _layer(spooled: _Spooled) -> Blob:
    with spooled.path.open("rb") as file:
        head = file.read(4)
    packed = "+gzip" if head[:2] == b"\x1f\x8b" else "+zstd" if head == b"\x28\xb5\x2f\xfd" else ""
    return Blob(
        path=spooled.path,
        digest=spooled.digest,
        size=spooled.size,
        media_type=f"{OCI_LAYER}{packed}",
        kind="layer",
    )


def _check_layers(expected: list[str], layers: tuple[Blob, ...], name: str) -> None:
    if len(expected) != len(layers):
        raise _bad(name, f"its config lists {len(expected)} layers, and it has {len(layers)}")
    for number, (digest, layer) in enumerate(zip(expected, layers, strict=True)):
        # A compressed layer was checked by its blob's name; its uncompressed digest is not known here
        if layer.media_type == OCI_LAYER and digest != layer.digest:
            raise _bad(name, f"layer {number} has the digest {layer.digest} instead of {digest[:80]}")


async def check_image(reference: str) -> EngineImage:
    """Look at an image of the local Docker engine as an upload does; nothing is sent.

    Raises:
        ImageError: The engine has no such image, or it is for another platform.
        BackendError: There is no engine, or it failed.
    """
    from .docker_engine import connect_docker

    async with connect_docker() as engine:
        found = await engine.inspect(reference)
    require_hosted(found.platform, reference)
    return found


def require_hosted(platform: Platform, name: str) -> None:
    """Refuse an image that the platform could not run.

    Raises:
        ImageError: Code `image_platform`.
    """
    if not platform.hosted:
        raise ImageError(
            f"The image {name} is for {platform}, and the platform runs {HOSTED_PLATFORM}.",
            code="image_platform",
            hint=f"Build it again with: docker build --platform {HOSTED_PLATFORM}.",
            context={"image": name, "platform": str(platform)},
        )


def _bad(name: str, why: str) -> ImageError:
    return ImageError(
        f"The engine's export of the image {name} cannot be read: {why}.",
        code="image_export",
        hint="Try again; if that does not help, pull or build the image again.",
        context={"image": name},
    )
