"""Whether there is room on the disk to play: an episode that cannot be written down is not begun."""

from __future__ import annotations

import errno
import logging
import shutil
from pathlib import Path

import anyio.to_thread

__all__ = ["Disk", "is_full"]

_log = logging.getLogger("observatory.work.worker")


class Disk:
    """The disk that episodes are written to.

    Args:
        directory: Where they are.
        spare: Bytes that must be free.
    """

    def __init__(self, directory: Path, *, spare: int) -> None:
        self._directory = directory
        self._spare = spare
        self.trouble: str | None = None
        """Why nothing can be played, as it was found last; None: there is room."""

    async def has_room(self) -> bool:
        """Whether there is room for another episode. When that has changed, the log says so."""
        try:
            free = (await anyio.to_thread.run_sync(shutil.disk_usage, self._directory)).free
        except OSError:
            return True  # whatever is wrong there, writing to it says it better
        if free >= self._spare:
            if self.trouble is not None:
                _log.warning("There is room on the disk again: episodes go on.")
            self.trouble = None
        elif self.trouble is None:
            self.trouble = (
                f"The disk of {self._directory} is full: {free >> 20} MiB are free, and {self._spare >> 20} MiB must "
                "be before an episode begins. Make room; until then episodes wait."
            )
            _log.warning("%s", self.trouble)
        return self.trouble is None


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, is that of a disk without room."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False
