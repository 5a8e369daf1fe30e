"""Locks on files that a run writes: the kernel drops them with the process, so there is no stale lock to clean up."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from coworld_core.errors import WorkspaceError

__all__ = ["busy", "is_free", "lock", "while_opening"]

_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


def lock(descriptor: int) -> bool:
    """Lock an open file for as long as it is open.

    Returns:
        False if another open file has the lock. True also on a file system without locks, where nothing can be known.
    """
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _BUSY
    return True


def is_free(path: Path) -> bool:
    """Return whether no run has a file locked; True also if it cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        return lock(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def while_opening(directory: Path) -> Generator[None]:
    """Let one process at a time look at a directory and create its locked file; does nothing without such locks."""
    import fcntl

    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def busy(place: Path, file: Path) -> WorkspaceError:
    """Return the error for a place that another run writes to (code `workspace_busy`).

    Args:
        place: What the run writes to.
        file: The file that it has locked.
    """
    # Few runs need it, and it imports psutil
    from .lock_holder import find_holder

    who = find_holder(file)
    return WorkspaceError(
        f"Another run is writing to {place}{f': {who}' if who is not None else ''}.",
        code="workspace_busy",
        hint="Wait for it to end, or name another directory.",
        context={"path": str(place)},
    )
