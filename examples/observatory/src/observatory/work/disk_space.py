"""Free space for episodes: an episode that could not be stored is not started."""

from __future__ import annotations

import errno
import logging
import shutil
from pathlib import Path

import anyio.to_thread

__all__ = ["DiskSpace", "is_full"]

_log = logging.getLogger("observatory.work.worker")


class DiskSpace:
    """The disk that episodes are written to.

    Args:
        directory: The directory of the episodes.
        spare: The number of bytes that must stay free.
    """

    def __init__(self, directory: Path, *, spare: int) -> None:
        self._directory = directory
        self._spare = spare
        self.trouble: str | None = None
        """Why no episode can be played, as of the last check; None if there is room."""

    async def has_room(self) -> bool:
        """Whether there is room for another episode. Changes are logged."""
        try:
            free = (await anyio.to_thread.run_sync(shutil.disk_usage, self._directory)).free
        except OSError:
            return True  # The error of a write will say more.
        if free >= self._spare:
            if self.trouble is not None:
                _log.warning("The disk has room again: episodes resume.")
            self.trouble = None
        elif self.trouble is None:
            self.trouble = (
                f"The disk of {self._directory} is full: {free >> 20} MiB are free, and an episode needs "
                f"{self._spare >> 20} MiB to begin. Free some space; until then, episodes wait."
            )
            _log.warning("%s", self.trouble)
        return self.trouble is None


def is_full(error: BaseException | None) -> bool:
    """Whether an error or one of its causes is that of a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False
