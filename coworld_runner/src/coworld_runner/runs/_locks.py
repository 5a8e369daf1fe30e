"""Locks on files that a run writes: the kernel drops them with the process, so there is no stale lock to clean up."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from coworld_core.errors import WorkspaceError
from coworld_core.text.terminal import strip_controls

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
    who = _holder(file)
    return WorkspaceError(
        f"Another run is writing to {place}{f': {who}' if who else ''}.",
        code="workspace_busy",
        hint="Wait for it to end, or name another directory.",
        context={"path": str(place)},
    )


def _holder(file: Path) -> str:
    """Return the process that has a file locked, in words; empty if the kernel does not tell (not Linux)."""
    import psutil

    with contextlib.suppress(OSError, ValueError, IndexError, psutil.Error):
        inode = str(file.stat().st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode and int(words[4]) > 0:
                process = psutil.Process(int(words[4]))
                command = " ".join(strip_controls(" ".join(process.cmdline())).split())[:120]
                begun = dt.datetime.fromtimestamp(process.create_time()).astimezone()
                return f"process {process.pid} ({command}), which began at {begun:%Y-%m-%d %H:%M:%S}"
    return ""
