"""The limit on this process's open files: raised when it is too low, and shared among episodes."""

from __future__ import annotations

import os
import sys

import anyio

from coworld_core.operating_system import plays_here

__all__ = ["FileBudget", "of_units"]

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


class FileBudget:
    """A budget of open files: episodes take a number of them and give it back."""

    def __init__(self) -> None:
        self._held = 0
        self._freed = anyio.Event()
        self._limit = self._size = sys.maxsize
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
        """Return whether `count` files are available, raising the limit if needed; always True if none is taken."""
        if self._held and self._held + count > self._size:
            self._limit = _raised()
            self._size = self._limit - self._before - _SPARE
        return not self._held or self._held + count <= self._size

    async def take(self, count: int) -> None:
        """Wait until `count` files are available, and take them."""
        while not self.has(count):
            freed = self._freed
            await freed.wait()
        self._held += count

    def give_back(self, count: int) -> None:
        """Return files to the budget."""
        self._held -= count
        self._freed.set()
        self._freed = anyio.Event()
