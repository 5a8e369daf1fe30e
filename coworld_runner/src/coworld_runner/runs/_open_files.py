"""What episodes share: programs, and the open files of this process, whose limit is raised when it is too low."""

from __future__ import annotations

import os
import sys

import anyio

from coworld_core.operating_system import plays_here

__all__ = ["Budget", "FileBudget", "of_units"]

_SPARE = 64
"""Files kept free for everything but the units of episodes: the caller's own files, connections, an event loop."""
_MOST = 1 << 16
"""The limit is raised to at most this; some systems allow so many that their own tables get large."""
_of_units = 0


def of_units() -> int:
    """Return the limit for the programs we start: ours before we raised it; 0 if we have not raised it.

    A high limit can harm a program that loops over all possible descriptors or calls select().
    """
    return _of_units


def _raised() -> int:
    """Raise this process's limit as far as allowed, and return the new limit."""
    global _of_units
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            return soft  # Some systems allow less than they report
        _of_units = _of_units or soft
    return max(soft, wanted)


def _open() -> int:
    for place in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(place))  # noqa: PTH208
        except OSError:
            continue
    return _SPARE


class Budget:
    """Something of which only so much is had at a time: episodes take a part of it and give it back.

    One that needs more than all of it gets it once nothing is taken.

    Args:
        size: How much there is.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._held = 0
        self._freed = anyio.Event()

    def has(self, count: int) -> bool:
        """Return whether so much is available; always True if nothing is taken."""
        return not self._held or self._held + count <= self._size

    async def take(self, count: int) -> None:
        """Wait until so much is available, and take it."""
        while not self.has(count):
            freed = self._freed
            await freed.wait()
        self._held += count

    def give_back(self, count: int) -> None:
        """Return what was taken."""
        self._held -= count
        self._freed.set()
        self._freed = anyio.Event()


class FileBudget(Budget):
    """The open files of this process, with its limit raised if needed."""

    def __init__(self) -> None:
        super().__init__(sys.maxsize)
        self._limit = sys.maxsize
        if plays_here():
            import resource

            self._limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            self._before = _open()
            self._size = self._limit - self._before - _SPARE

    @property
    def limit(self) -> int:
        """The number of files that this process may have open."""
        return self._limit

    def has(self, count: int) -> bool:
        """As `Budget.has`, raising the limit if needed."""
        if not super().has(count):
            self._limit = _raised()
            self._size = self._limit - self._before - _SPARE
        return super().has(count)
