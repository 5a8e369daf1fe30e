"""Append-only files, which one process at a time writes to."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from coworld_core.errors import EnvironmentFault
from coworld_core.files.locks import lock

from .lock_holder import busy

__all__ = ["AppendedFile"]

_CHUNK = 1 << 16


class AppendedFile:
    """A file that this process has locked while the context is entered; the kernel drops the lock with the process.

    Args:
        path: The file; it may exist already.
        place: What a refused process is told that another one writes to; None: the file.
        follow_links: Whether the file may be a symbolic link.

    Raises:
        WorkspaceError: On entry: another process has the file locked (code `workspace_busy`).
    """

    def __init__(self, path: Path, *, place: Path | None = None, follow_links: bool = True) -> None:
        self.path, self._place = path, place or path
        self._flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
        self._file: int | None = None

    def __enter__(self) -> AppendedFile:
        file = os.open(self.path, self._flags, 0o666)
        if not lock(file):
            os.close(file)
            raise busy(self._place, self.path)
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        file, self._file = self.fileno(), None
        # An error that a network file system reports only now is too late to act on
        with contextlib.suppress(OSError):
            os.close(file)

    @property
    def entered(self) -> bool:
        """Whether the context is entered, so that it can be written to."""
        return self._file is not None

    def fileno(self) -> int:
        """The descriptor of the open file."""
        assert self._file is not None, "The context is not entered"
        return self._file

    def clear(self) -> None:
        """Remove all lines."""
        os.ftruncate(self.fileno(), 0)

    def cut_unfinished(self) -> None:
        """Remove an incomplete last line, such as one left by a program that was killed."""
        file = self.fileno()
        size = at = os.fstat(file).st_size
        while at:
            begin = max(0, at - _CHUNK)
            found = os.pread(file, at - begin, begin).rfind(b"\n")
            if found >= 0:
                at = begin + found + 1
                break
            at = begin
        if at < size:
            os.ftruncate(file, at)

    def append(self, lines: bytes) -> None:
        """Write whole lines, all or none of them.

        Raises:
            EnvironmentFault: They cannot be written; the file is unchanged.
        """
        file = self.fileno()
        size = os.fstat(file).st_size
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(file, left) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(file, size)
            raise EnvironmentFault(
                f"{self.path} cannot be written to: {error.strerror}.",
                code="disk_full",
                hint="Free some room on that disk, then go on with the same command.",
            ) from error
