"""Temporary directories of transfers: private, locked by their owner, and swept by later ones if left behind.

The lock is on the directory itself. The kernel drops it with the process, even after SIGKILL, so a directory that can
be locked is abandoned.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.errors import EnvironmentFault
from coworld_core.operating_system import plays_here

from .._file_lock import lock_still

__all__ = ["spool_directory"]

_PREFIX = "coworld-transfer-"


@asynccontextmanager
async def spool_directory() -> AsyncGenerator[Path]:
    """Provide a private temporary directory and remove it on exit. Leftovers of killed transfers are removed first.

    Raises:
        EnvironmentFault: The directory cannot be created.
    """
    if not plays_here():  # Nor can a directory be locked
        with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    path, lock = await anyio.to_thread.run_sync(_make)
    try:
        yield path
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_remove, path, lock)


def _make() -> tuple[Path, int]:
    try:
        _sweep(Path(tempfile.gettempdir()))
        while True:
            path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            # Another process may sweep the directory before we lock it
            with contextlib.suppress(FileNotFoundError):
                lock = _open(path)
                if lock_still(lock, path):
                    return path, lock
                os.close(lock)
    except OSError as error:
        raise EnvironmentFault(
            f"There is no place for temporary files: {error.strerror or error}.",
            code="spool_unwritable",
            hint="Free some room, or set TMPDIR to a directory you can write to.",
        ) from error


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def _sweep(root: Path) -> None:
    """Remove our abandoned directories, skipping those that cannot be opened."""
    for path in root.glob(f"{_PREFIX}*"):
        try:
            lock = _open(path)
        except OSError:
            continue
        if lock_still(lock, path):
            _remove(path, lock)
        else:
            os.close(lock)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
