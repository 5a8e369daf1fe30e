"""Append-only files, which one process at a time writes to."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from coworld_core.errors import EnvironmentFault
from coworld_core.files.locks import lock

from ._unit_files import cut_unfinished
from .lock_holder import busy

__all__ = ["AppendedFile"]


class AppendedFile:
    """A file that this process has locked while the context is entered; the kernel drops the lock with the process.

    Args:
        path: The file; it may exist already.

    Raises:
        WorkspaceError: On entry: another process has the file locked (code `workspace_busy`).
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> AppendedFile:
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        if not lock(self._file):
            os.close(self._file)
            raise busy(self.path, self.path)
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
