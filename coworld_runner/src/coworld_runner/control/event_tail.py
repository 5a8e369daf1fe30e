"""Reads what is added to a run's log of events."""

from __future__ import annotations

from pathlib import Path

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
        """Return the next lines; an empty list if there are none yet, or no more."""
        size = _AT_ONCE
        while True:
            try:
                with self._path.open("rb") as file:
                    file.seek(self._position)
                    data = file.read(size)
            except FileNotFoundError:
                return []
            complete = data[: data.rfind(b"\n") + 1]
            if complete or len(data) < size:
                self._position += len(complete)
                return complete.splitlines()
            size *= 2
