"""Detects whether the sources of a package have changed since its images were built."""

from __future__ import annotations

import contextlib
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.images import ImageRef

from ..images.source_files import source_files
from .resolver import Package
from .viewer_bundle import find_bundle

__all__ = ["changed_since_build"]


def changed_since_build(package: Package) -> str:
    """Find a source file that is newer than the manifest, which the build writes last. Blocks.

    Files excluded by `.dockerignore`, results and a built replay viewer do not count.

    Returns:
        The file's path, relative to the build context; empty if there is none, or if `coworld build` did not make
        the game's image.
    """
    if package.path is None or ImageRef.parse(package.manifest.game.runnable.image).kind != "content":
        return ""
    images = [package.manifest.game.runnable.image, *(player.image for player in package.manifest.player)]
    contexts = dict.fromkeys(package.contexts[image] for image in images if image in package.contexts)
    try:
        built = package.path.stat().st_mtime_ns
        viewer = find_bundle(package)
    except (OSError, UsageError):
        return ""
    beside = {path for path in (package.default_results_dir(), viewer) if path is not None}
    return next((found for context in contexts if (found := _newer(context, built, beside))), "")


def _newer(context: Path, built: int, beside: set[Path]) -> str:
    for inside, path in source_files(context, without=beside):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime_ns > built:
                return inside
    return ""
