"""The static replay viewer of a package: a directory with a page, as a manifest names it and platforms take it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from coworld_core.errors import UsageError
from coworld_core.manifest.features import ReplayViewer
from coworld_core.sizes import shown_size

from .resolving import Package

__all__ = ["VIEWER_PAGE", "ViewerBundle", "bundle_in", "bundle_name", "find_bundle", "is_uploaded", "read_bundle"]

MOST_FILES: Final = 4096
MOST_BYTES: Final = 512 << 20
"""What platforms take of a bundle, unpacked."""
VIEWER_PAGE: Final = "index.html"


@dataclass(frozen=True, kw_only=True)
class ViewerBundle:
    """A viewer's files, which were looked at."""

    directory: Path
    files: Mapping[str, Path]
    """By path within the directory, with forward slashes."""


def is_uploaded(bundle: str) -> bool:
    """Whether a manifest names a viewer that a platform has, by its digest, rather than a directory."""
    return re.fullmatch(r"sha256:[0-9a-fA-F]{64}", bundle) is not None


def bundle_name(bundle: str) -> PurePosixPath:
    """The directory that a manifest names, relative to the manifest.

    Raises:
        UsageError: It is not a directory of its own below the manifest's.
    """
    path = PurePosixPath(bundle)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\\" in bundle or "\0" in bundle:
        raise UsageError(
            f"game.replay_viewer.bundle is {bundle!r}, which is no directory of its own below the manifest's.",
            code="viewer_place",
            hint="Name a directory that holds nothing else, such as build/viewer.",
            context={"bundle": bundle},
        )
    return path


def find_bundle(package: Package) -> Path | None:
    """Where the viewer of a package is; None where it has none on this machine.

    Raises:
        UsageError: The manifest names no directory of its own for it.
    """
    return bundle_in(package.directory, package.manifest.game.replay_viewer)


def bundle_in(directory: Path | None, viewer: ReplayViewer | None) -> Path | None:
    """Where a viewer is in the directory of its package; None if it is not on this machine.

    Raises:
        UsageError: The manifest names no directory of its own for it.
    """
    if viewer is None or is_uploaded(viewer.bundle) or directory is None:
        return None
    return directory / bundle_name(viewer.bundle)


def read_bundle(directory: Path) -> ViewerBundle:
    """Look at a viewer's files. Blocks.

    Raises:
        UsageError: There is no page, a link, or more than platforms take; or it cannot be read.
    """
    files: dict[str, Path] = {}
    size = 0
    try:
        if directory.is_symlink() or not directory.is_dir():
            raise _wrong("viewer_missing", directory, "is no directory", "`coworld build` makes the viewer.")
        for place, directories, names in os.walk(directory, onerror=_raise):
            for name in sorted((*directories, *names)):
                path = Path(place, name)
                inside = path.relative_to(directory).as_posix()
                if path.is_symlink():
                    words = f"has a symbolic link, {inside}, which platforms refuse"
                    raise _wrong("viewer_link", directory, words, "Copy what it points to.")
                if name in names:
                    files[inside] = path
                    size += path.stat().st_size
            if len(files) > MOST_FILES:
                words = f"has more than the {MOST_FILES} files that platforms take"
                raise _wrong("viewer_too_large", directory, words, "Pack them into fewer.")
        if size > MOST_BYTES:
            words = f"has {shown_size(size)}, and platforms take {shown_size(MOST_BYTES)}"
            raise _wrong("viewer_too_large", directory, words, "Leave out what it does not need.")
        if VIEWER_PAGE not in files:
            raise _wrong(
                "viewer_without_page", directory, f"has no {VIEWER_PAGE}", "It is the page that shows a replay."
            )
        if not files[VIEWER_PAGE].stat().st_size:
            raise _wrong("viewer_without_page", directory, f"has an empty {VIEWER_PAGE}", "It shows nothing.")
    except OSError as error:
        raise _wrong("viewer_unreadable", directory, f"cannot be read: {error.strerror}", "May you read it?") from error
    return ViewerBundle(directory=directory, files=files)


def _raise(error: OSError) -> None:
    raise error


def _wrong(code: str, directory: Path, words: str, hint: str) -> UsageError:
    return UsageError(
        f"The replay viewer {directory} {words}.", code=code, hint=hint, context={"directory": str(directory)}
    )
