"""Detects whether the sources of a package have changed since its images were built."""

from __future__ import annotations

import os
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.images import ImageRef

from .images.build_context import ContextError, Ignore
from .resolver import Package
from .viewer_bundle import find_bundle

__all__ = ["changed_since_build"]

_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
"""Directories that tools write beside the sources."""


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
    try:
        ignore = Ignore((context / ".dockerignore").read_text(encoding="utf-8", errors="replace"))
    except (OSError, ContextError):
        ignore = Ignore("")
    for place, directories, names in os.walk(context):
        here = Path(place)
        directories[:] = sorted(name for name in directories if name not in _LEFT_OUT and here / name not in beside)
        for name in sorted(names):
            path = here / name
            inside = path.relative_to(context).as_posix()
            try:
                if path.lstat().st_mtime_ns > built and not ignore.ignores(inside):
                    return inside
            except OSError:
                continue
    return ""
