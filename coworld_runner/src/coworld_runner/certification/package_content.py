"""What a package consists of, by digest: its files here, and its images on a backend."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import anyio.from_thread

from coworld_core.certificate import CertifiedContent, ContentPart, PartKind, directory_part
from coworld_core.errors import UsageError
from coworld_core.manifest.features import WasmReporter
from coworld_core.manifest.manifest_file import MANIFEST_NAME, TEMPLATE_NAME, manifest_sha256
from coworld_core.manifest.models import Manifest
from coworld_core.text.terminal import writable

from ..images.build_context import ContextError, dockerfile_of
from ..images.compose import Build, Contexts
from ..images.source_files import source_files
from ..package.resolver import Package
from ..package.viewer_bundle import find_bundle, is_uploaded, read_bundle

__all__ = ["content_of", "package_files"]

_PIECE = 1 << 20
_DIGEST = "sha256:"
"""Begins the digest by which a manifest names a file that a platform has."""


def content_of(manifest: Manifest, files: Iterable[ContentPart], images: Mapping[str, str] | None) -> CertifiedContent:
    """Put the content of a Coworld together.

    Args:
        manifest: Its manifest.
        files: Its files (`package_files`).
        images: The digest of each image that is known; None: it is run from its sources.
    """
    parts = list(files)
    if images is not None:
        parts += [ContentPart(kind="image", name=name, digest=images.get(name, "")) for name in manifest.images()]
    return CertifiedContent.of(manifest_sha256(manifest), parts)


def package_files(package: Package, *, sources: bool) -> tuple[ContentPart, ...]:
    """Digest the files of a package. Blocks; runs in a worker thread, and stops when its task is cancelled.

    Args:
        package: The package.
        sources: Whether it is run from the directories that its images are built from, which are then included.

    Returns:
        The directories and files; one that is missing, cannot be read or is not on this machine has no digest.
    """
    parts = list(_named_files(package))
    viewer = None
    if package.manifest.game.replay_viewer is not None:
        part, viewer = _viewer(package, package.manifest.game.replay_viewer.bundle)
        parts.append(part)
    if sources:
        beside = {package.default_results_dir(), *([viewer] if viewer else [])}
        if package.directory is not None:
            # Only its content counts, which has a digest of its own
            beside |= {package.directory / name for name in (MANIFEST_NAME, TEMPLATE_NAME)}
        if package.path is not None:
            beside.add(package.path)
        known: dict[Path, ContentPart] = {}
        for image in package.manifest.images():
            context = package.contexts.get(image)
            if context is None:
                parts.append(ContentPart(kind="sources", name=image, digest=""))
                continue
            if context not in known:
                known[context] = _directory("sources", image, _sources(package, image, context, beside))
            parts.append(known[context].model_copy(update={"name": image}))
    return tuple(parts)


def _sources(package: Package, image: str, context: Path, beside: set[Path]) -> Iterator[tuple[str, Path]]:
    """The files of a build context, and its Dockerfile, which usually is not part of what it builds."""
    listed = dict(source_files(context, without=beside))
    build = package.contexts.build(image) if isinstance(package.contexts, Contexts) else None
    with suppress(ContextError):
        _, name, path = dockerfile_of(build or Build(context=context))
        if path is not None:
            listed.setdefault(name, path)
    yield from sorted(listed.items())


def _viewer(package: Package, bundle: str) -> tuple[ContentPart, Path | None]:
    if is_uploaded(bundle):
        return ContentPart(kind="viewer", name=bundle, digest=bundle), None
    directory: Path | None = None
    files: Mapping[str, Path] = {}
    try:
        directory = find_bundle(package)
        if directory is not None:
            files = read_bundle(directory).files
    except UsageError:
        pass  # Another step says what is wrong with it
    if directory is None or not files:
        return ContentPart(kind="viewer", name=bundle, digest=""), directory
    return _directory("viewer", bundle, files.items()), directory


def _named_files(package: Package) -> Iterator[ContentPart]:
    manifest = package.manifest
    named = [entry.file for entry in manifest.player if entry.file is not None]
    named += [entry.wasm for entry in manifest.reporter if isinstance(entry, WasmReporter)]
    for name in dict.fromkeys(named):
        path = package.directory / name if package.directory is not None else None
        if name.startswith(_DIGEST):
            yield ContentPart(kind="file", name=name, digest=name)
        elif path is not None and path.is_dir():
            yield _directory("file", name, source_files(path))
        else:
            found = _digests([(name, path)]) if path is not None else None
            yield ContentPart(kind="file", name=name, digest=_DIGEST + found[name] if found else "")


def _directory(kind: PartKind, name: str, files: Iterable[tuple[str, Path]]) -> ContentPart:
    found = _digests(files)
    return directory_part(kind, name, found) if found is not None else ContentPart(kind=kind, name=name, digest="")


def _digests(files: Iterable[tuple[str, Path]]) -> dict[str, str] | None:
    """Return the SHA-256 of each file, and of the target of each link; None if one cannot be read."""
    found: dict[str, str] = {}
    try:
        for inside, path in files:
            anyio.from_thread.check_cancelled()
            told = hashlib.sha256()
            if path.is_symlink():
                told.update(b"link\0" + os.fsencode(path.readlink()))
            elif path.is_file():
                with path.open("rb") as file:
                    while piece := file.read(_PIECE):
                        anyio.from_thread.check_cancelled()
                        told.update(piece)
            else:
                continue  # A socket or a pipe
            found[writable(inside)] = told.hexdigest()
    except OSError:
        return None
    return found
