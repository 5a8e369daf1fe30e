"""Append-only files, which one process at a time writes to."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from coworld_core.errors import EnvironmentFault, WorkspaceError

from .runs._files import cut_unfinished

__all__ = ["AppendedFile"]


class AppendedFile:
    """A file that this process has locked while the context is entered; the kernel drops the lock with the process.

    Args:
        path: The file; it may exist already.

    Raises:
        WorkspaceError: On entry: another process has the file locked (code ``workspace_busy``).
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> AppendedFile:
        import fcntl

        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            who = _holder(self._file)
            os.close(self._file)
            raise WorkspaceError(
                f"Another run is writing to {self.path}{f': {who}' if who else ''}.",
                code="workspace_busy",
                hint="Wait for it to end, or name another directory.",
                context={"path": str(self.path)},
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def cut_unfinished(self) -> None:
        """Remove an incomplete last line."""
        cut_unfinished(self._file)

    def append(self, lines: bytes) -> None:
        """Write whole lines, all or none of them.

        Raises:
            EnvironmentFault: They cannot be written; the file is unchanged.
        """
        size = os.fstat(self._file).st_size
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)
            raise EnvironmentFault(
                f"{self.path} cannot be written to: {error.strerror}.",
                code="disk_full",
                hint="Free some room on that disk, then go on with the same command.",
            ) from error


def _holder(file: int) -> str:
    """Return the process that has a file locked, in words; empty if the kernel does not tell (not Linux)."""
    inode = str(os.fstat(file).st_ino)
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode and int(words[4]) > 0:
                command = Path("/proc", words[4], "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                return f"process {words[4]} ({command.strip()[:120]})"
    return ""
