"""The process that has a file locked, as the kernel tells of it: the one that writes to a workspace."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coworld_core.episode.events import read_starts
from coworld_core.errors import WorkspaceError
from coworld_core.text.terminal import strip_controls

if TYPE_CHECKING:
    import psutil

__all__ = ["LockHolder", "busy", "find_holder", "process_identity"]

_LOCKS = Path("/proc/locks")


def process_identity(pid: int | str = "self") -> tuple[int, float] | None:
    """What tells a process from every other: its number in its own container, and when it began.

    Args:
        pid: Its number here.

    Returns:
        The number, and the seconds from the start of the machine; None if it has ended or the kernel does not tell.
    """
    place = Path("/proc", str(pid))
    try:
        began = int((place / "stat").read_bytes().rpartition(b")")[2].split()[19])
        status = (place / "status").read_bytes().splitlines()
        numbers = next(line for line in status if line.startswith(b"NSpid:"))
        return int(numbers.split()[-1]), began / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None


@dataclass(frozen=True)
class LockHolder:
    """A process that has files locked.

    It is the same process for as long as this value is used: `psutil` compares the time at which it began before it
    sends a signal, so that none reaches another process that has got its number since.
    """

    process: psutil.Process
    locked: tuple[Path, ...]
    """The files that it has locked, as far as this user may see them."""

    def has_started(self, log: Path) -> bool:
        """Whether a log says that this process plays its run, rather than that any program has locked the file."""
        identity = process_identity(self.process.pid)
        return any((one.pid, one.process_start) == identity for one in read_starts(log))

    def __str__(self) -> str:
        import psutil

        with contextlib.suppress(psutil.Error):
            command = " ".join(strip_controls(" ".join(self.process.cmdline())).split())[:120]
            begun = dt.datetime.fromtimestamp(self.process.create_time()).astimezone()
            return f"process {self.process.pid} ({command}), which began at {begun:%Y-%m-%d %H:%M:%S}"
        return f"process {self.process.pid}"


def find_holder(file: Path) -> LockHolder | None:
    """Return the process that has a file locked.

    None if there is none; if the kernel does not tell (not Linux); and if the process is another user's, or another
    container's, so that nobody here can know that it is the one.
    """
    import psutil

    with contextlib.suppress(OSError, psutil.Error):
        inode = file.stat().st_ino
        locks = _locks()
        for pid in [pid for pid, inodes in locks.items() if inode in inodes]:
            process = psutil.Process(pid)
            # Numbers of inodes are only unique on one file system
            opened = [Path(found.path) for found in process.open_files()]
            held = tuple(path for path in opened if _inode(path) in locks[pid])
            if any(path.samefile(file) for path in held):
                return LockHolder(process, held)
    return None


def busy(directory: Path, file: Path) -> WorkspaceError:
    """Return the error for a place that another run writes to (code `workspace_busy`).

    Args:
        directory: What the run writes to.
        file: The file that it has locked.
    """
    who = find_holder(file)
    return WorkspaceError(
        f"Another run is writing to {directory}{f': {who}' if who is not None else ''}.",
        code="workspace_busy",
        hint="Wait for it to end, or name another directory.",
        context={"path": str(directory)},
    )


def _locks() -> dict[int, set[int]]:
    """The inodes that each process has locked."""
    found: dict[int, set[int]] = {}
    for line in _LOCKS.read_text().splitlines():
        words = line.split()
        # A process outside this container has no number here; `->` is one that waits
        if len(words) > 5 and words[1] == "FLOCK" and (pid := int(words[4])) > 0:
            found.setdefault(pid, set()).add(int(words[5].rpartition(":")[2]))
    return found


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
