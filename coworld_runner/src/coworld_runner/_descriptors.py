"""How many files this process may have open: raised when that is too few, and shared out among episodes."""

from __future__ import annotations

import os
import sys

import anyio

__all__ = ["Room", "of_units"]

_SPARE = 64
"""For all that is not one of an episode's units: the caller's own files, connections, an event loop."""
_MOST = 1 << 16
"""As high as we raise the limit; some systems allow so many that their own tables get large."""
_of_units = 0


def of_units() -> int:
    """The limit that programs we start are to have: what it was before we raised ours; 0 while we have not.

    A program may go through all descriptors that it could have, or select() among them, so a high limit is no favour.
    """
    return _of_units


def _raised() -> int:
    """Raise this process's limit as far as it may be; returns what it is now."""
    global _of_units
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            return soft  # some systems allow less than they say
        _of_units = _of_units or soft
    return max(soft, wanted)


def _open() -> int:
    for place in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(place))  # noqa: PTH208
        except OSError:
            continue
    return _SPARE


class Room:
    """Open files that can be had at once by whoever takes of them, and gives them back."""

    def __init__(self) -> None:
        self._held = 0
        self._freed = anyio.Event()
        self._limit = self._size = sys.maxsize
        if sys.platform != "win32":
            import resource

            self._limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            self._before = _open()
            self._size = self._limit - self._before - _SPARE

    @property
    def limit(self) -> int:
        """How many files this process may have open."""
        return self._limit

    def has(self, count: int) -> bool:
        """Whether so many can be had now; one taker always gets what it wants. Raises the limit if that helps."""
        if self._held and self._held + count > self._size:
            self._limit = _raised()
            self._size = self._limit - self._before - _SPARE
        return not self._held or self._held + count <= self._size

    async def take(self, count: int) -> None:
        """Wait until so many can be had, and have them."""
        while not self.has(count):
            freed = self._freed
            await freed.wait()
        self._held += count

    def give_back(self, count: int) -> None:
        """Let others have them."""
        self._held -= count
        self._freed.set()
        self._freed = anyio.Event()
