"""Open and extract an episode bundle in a worker thread; `coworld_core.roles.bundle_file` checks and reads it."""

from __future__ import annotations

from pathlib import Path

import anyio.from_thread
import anyio.to_thread

from coworld_core.files.zips import open_zip
from coworld_core.roles import bundle_file
from coworld_core.roles.bundle_file import Bundle, BundleFile

from ._parts import storage
from .files import DEFAULT_LIMIT, TransferRefused

__all__ = ["Bundle", "BundleFile", "extract_bundle", "extract_files", "open_bundle"]

_HINT = "Download it again; if it persists, tell whoever runs the server."


async def open_bundle(path: Path, *, limit: int = DEFAULT_LIMIT) -> Bundle:
    """Check a bundle and list its files.

    Args:
        path: The zip.
        limit: Maximum unpacked size in bytes.

    Raises:
        UsageError: There is no such file (`path_missing`).
        TransferRefused: The file is not a valid bundle, or is unsafe to unpack (`bundle_unreadable`,
            `bundle_name`, `bundle_bomb`, `bundle_too_large`).
    """
    return await anyio.to_thread.run_sync(_open, path, limit)


async def extract_bundle(path: Path, directory: Path, *, limit: int = DEFAULT_LIMIT) -> Bundle:
    """Extract a bundle: `manifest.json`, `results.json`, `replay`, `logs/…`, `artifacts/…`.

    Args:
        path: The zip.
        directory: The target directory; must not exist, and is created only if everything was extracted.
        limit: Maximum unpacked size in bytes.

    Raises:
        UsageError: There is no such file (`path_missing`), or the directory exists (`path_exists`).
        TransferRefused: As for `open_bundle`, or the contents are damaged.
        EnvironmentFault: The directory cannot be written.
    """
    return await anyio.to_thread.run_sync(_extract, path, directory, limit)


async def extract_files(path: Path, directory: Path, *, limit: int = DEFAULT_LIMIT) -> None:
    """Extract all files of a zip under their own names, which cannot lead out of the directory.

    Args:
        path: The zip.
        directory: The target directory; must not exist, and is created only if everything was extracted.
        limit: Maximum unpacked size in bytes.

    Raises:
        UsageError: There is no such file (`path_missing`), or the directory exists (`path_exists`).
        TransferRefused: The file is not a valid zip, or is unsafe to unpack.
        EnvironmentFault: The directory cannot be written.
    """
    await anyio.to_thread.run_sync(_extract_files, path, directory, limit)


def _open(path: Path, limit: int) -> Bundle:
    return bundle_file.read_bundle(path, limit=limit, error=TransferRefused, hint=_HINT)


def _extract(path: Path, directory: Path, limit: int) -> Bundle:
    with storage(directory):
        return bundle_file.extract_bundle(
            path, directory, limit=limit, error=TransferRefused, hint=_HINT, pause=anyio.from_thread.check_cancelled
        )


def _extract_files(path: Path, directory: Path, limit: int) -> None:
    with (
        storage(directory),
        bundle_file.unpack_directory(directory) as place,
        open_zip(path, limit=limit, what="zip", error=TransferRefused, hint=_HINT) as archive,
    ):
        archive.extract_all(place, pause=anyio.from_thread.check_cancelled)
