"""The static replay viewer of a package: a directory with a page, named by the manifest and hosted by platforms."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.manifest.features import ReplayViewer
from coworld_core.text.size_text import shown_size

from .resolver import Package

__all__ = ["VIEWER_PAGE", "ViewerBundle", "bundle_in", "bundle_name", "find_bundle", "is_uploaded", "read_bundle"]

MOST_FILES: Final = 4096
MOST_BYTES: Final = 512 << 20
"""The most files and bytes that platforms accept in an unpacked bundle."""
VIEWER_PAGE: Final = "index.html"


@dataclass(frozen=True, kw_only=True)
class ViewerBundle:
    """A viewer's files, checked."""

    directory: Path
    files: Mapping[str, Path]
    """Files by path within the directory, with forward slashes."""


def is_uploaded(bundle: str) -> bool:
    """Whether a manifest names an uploaded viewer by its digest, rather than a directory."""
    return re.fullmatch(r"sha256:[0-9a-fA-F]{64}", bundle) is not None


def bundle_name(bundle: str) -> PurePosixPath:
    """Return the directory that a manifest names, relative to the manifest.

    Raises:
        UsageError: The path does not lead to a subdirectory of the manifest's directory.
    """
    path = PurePosixPath(bundle)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\\" in bundle or "\0" in bundle:
        raise UsageError(
            f"game.replay_viewer.bundle is {bundle!r}, which is not a subdirectory of the manifest's directory.",
            code="viewer_place",
            hint="Name a directory that holds nothing else, such as build/viewer.",
            context={"bundle": bundle},
        )
    return path


def find_bundle(package: Package) -> Path | None:
    """Return the directory of a package's viewer; None if there is none on this machine.

    Raises:
        UsageError: The manifest does not name a subdirectory of its own directory.
    """
    return bundle_in(package.directory, package.manifest.game.replay_viewer)


def bundle_in(directory: Path | None, viewer: ReplayViewer | None) -> Path | None:
    """Return the directory of a viewer, given its package's directory; None if it is not on this machine.

    Raises:
        UsageError: The manifest does not name a subdirectory of its own directory.
    """
    if viewer is None or is_uploaded(viewer.bundle) or directory is None:
        return None
    return directory / bundle_name(viewer.bundle)


def read_bundle(directory: Path) -> ViewerBundle:
    """List and check a viewer's files. Blocks.

    Raises:
        UsageError: The directory is missing or cannot be read, has no page or an empty one, contains a symbolic link,
            or exceeds the limits of platforms.
    """
    files: dict[str, Path] = {}
    size = 0
    try:
        if directory.is_symlink() or not directory.is_dir():
            raise _wrong(
                "viewer_missing", directory, "is no directory", Hint("build_viewer", "build_coworld makes the viewer.")
            )
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
        raise _wrong("viewer_unreadable", directory, f"cannot be read: {error.strerror}", "Fix permissions.") from error
    return ViewerBundle(directory=directory, files=files)


def _raise(error: OSError) -> None:
    raise error


def _wrong(code: str, directory: Path, problem: str, hint: str) -> UsageError:
    return UsageError(
        f"The replay viewer {directory} {problem}.", code=code, hint=hint, context={"directory": str(directory)}
    )
