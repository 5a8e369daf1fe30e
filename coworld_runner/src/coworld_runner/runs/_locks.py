"""Locks on files that a run writes: the kernel drops them with the process, so there is no stale lock to clean up."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from coworld_core.errors import WorkspaceError
from coworld_core.operating_system import plays_here, require_posix

__all__ = ["busy", "is_free", "lock", "while_opening"]

_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_LOOKS = 200
"""How often a lock is tried again that others only look at, a millisecond apart."""


def lock(descriptor: int) -> bool:
    """Lock an open file for as long as it is open.

    Returns:
        False if another open file has the lock. True also on a file system without locks, where nothing can be known.
    """
    for _ in range(_LOOKS):
        if _locked(descriptor, shared=False) is not False:
            return True
        # A process that only looks shares the lock with us, and is done in a moment.
        if _locked(descriptor, shared=True) is False:
            return False
        time.sleep(0.001)
    return False


def is_free(path: Path, *, unknown: bool = True) -> bool:
    """Return whether no process has a file locked.

    Args:
        path: The file; one that does not exist is free.
        unknown: The answer if the file cannot be opened, or its system or file system has no locks.
    """
    if not plays_here():
        return unknown
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return unknown
    try:
        found = _locked(descriptor, shared=True)
        return unknown if found is None else found
    finally:
        os.close(descriptor)


def _locked(descriptor: int, *, shared: bool) -> bool | None:
    """Lock an open file without waiting; None on a file system without locks."""
    require_posix()
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _BUSY else None
    return True


@contextmanager
def while_opening(directory: Path, *, shared: bool = False) -> Generator[None]:
    """Let one process at a time look at a directory and create its locked file; does nothing without such locks.

    Args:
        directory: The directory.
        shared: Whether others that share it may do so at the same time.

    Raises:
        EnvironmentFault: This system has no such locks.
    """
    require_posix()
    import fcntl

    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
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
