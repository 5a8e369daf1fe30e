"""Locks on open files: the kernel drops them with the process, so there is no stale lock to clean up."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..operating_system import plays_here, require_posix

__all__ = ["flock", "is_free", "lock", "while_opening"]

_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_LOOKS = 200
"""How often a lock is tried again that others only look at, a millisecond apart."""


def flock(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file or directory for as long as it is open.

    Args:
        descriptor: The open file; a directory only on POSIX.
        shared: Whether others may share the lock; only on POSIX.
        wait: Whether to wait until others have dropped theirs.

    Returns:
        False if another open file has the lock.

    Raises:
        OSError: The file system has no locks.
    """
    try:
        if sys.platform == "win32":
            from filelock import lock_descriptor

            return lock_descriptor(descriptor, blocking=wait)
        import fcntl

        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno not in _BUSY:
            raise
        return False
    return True


def lock(descriptor: int) -> bool:
    """Lock an open file for as long as it is open, although others may be looking at its lock.

    Returns:
        False if another open file has the lock. True also on a file system without locks, where nothing can be known.

    Raises:
        EnvironmentFault: This system has no such locks.
    """
    require_posix()
    try:
        for _ in range(_LOOKS):
            if flock(descriptor):
                return True
            # A process that only looks shares the lock with us, and is done in a moment.
            if not flock(descriptor, shared=True):
                return False
            time.sleep(0.001)
    except OSError:
        return True
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
        return flock(descriptor, shared=True)
    except OSError:
        return unknown
    finally:
        os.close(descriptor)


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
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            flock(descriptor, shared=shared, wait=True)
        yield
    finally:
        os.close(descriptor)
