"""Reads what is added to a run's log of events."""

from __future__ import annotations

from pathlib import Path

from coworld_core.documents.records import record_unreadable
from coworld_core.files.regular import MAX_FILE, open_regular, too_large

__all__ = ["EventTail"]

_AT_ONCE = 1 << 20
"""Bytes that are read at a time."""


class EventTail:
    """The complete lines of a log, each once; nothing stays open between two looks.

    A line that is not complete is read again: a run that is resumed cuts off what a killed one has left of it.

    Args:
        path: The log, which may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def more(self) -> list[bytes]:
        """Return the next lines; an empty list if there are none yet, or no more.

        Raises:
            UsageError: It cannot be read, is no regular file, or has a line that is too long (`record_unreadable`).
        """
        size = _AT_ONCE
        while True:
            try:
                with open_regular(self._path) as file:
                    file.seek(self._position)
                    data = file.read(size)
                if len(data) > MAX_FILE and b"\n" not in data:
                    raise too_large(self._path, "one of its lines has more", MAX_FILE)
            except FileNotFoundError:
                return []
            except OSError as error:
                raise record_unreadable(self._path, self._path.name, error) from error
            complete = data[: data.rfind(b"\n") + 1]
            if complete or len(data) < size:
                self._position += len(complete)
                return complete.splitlines()
            size *= 2
