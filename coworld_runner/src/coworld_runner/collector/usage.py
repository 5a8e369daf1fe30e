"""How much a unit takes of a disk: bytes, and files and directories, however it tries to have that look like less.

It is looked at from beside the unit in a pod, from the runner, and by a bare interpreter, so it stands on the standard
library alone. A look ends as soon as either number is over its limit, so that what is left decides how long it takes.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FreeRoom", "disk_usage", "too_much"]

_NO_LIMIT = float("inf")
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_LONGEST = 1000
"""Bytes of a path from an open directory: what is deeper is reached from another one, so that no depth hides it."""
_MOST_OPEN = 100
"""Directories that are kept open for that; who has so many deep trees beside each other means to hide something."""
_ANY_LIMIT = 1 << 62


def disk_usage(
    directories: Iterable[str],
    *,
    most_bytes: float = _NO_LIMIT,
    most_entries: float = _NO_LIMIT,
    processes: Iterable[int] = (),
) -> tuple[int, int]:
    """What is below some directories: the bytes of it, and how many files and directories. Blocks.

    Each counts with its length or its blocks, whichever is more; one with several names counts once. What vanishes
    meanwhile is gone, and what cannot be seen is nothing.

    Args:
        directories: Where to look.
        most_bytes: Look no further when it is more than this.
        most_entries: Look no further when there are more than this.
        processes: Whose open files count too, if they have no name any more: on the same disks like all others, and
            elsewhere, as in memory, with their blocks alone, for programs reserve there what they may never need.
    """
    look = _Look(most_bytes, most_entries)
    for directory in directories:
        look.into(directory)
    for pid in processes:
        look.open_files(pid)
    return look.bytes, look.entries


def too_much(used: tuple[int, int], most_bytes: float | None, most_entries: float | None) -> str:
    """In what way ``disk_usage`` is more than is allowed, in words; empty when it is not. None: any number is."""
    if most_bytes is not None and used[0] > most_bytes:
        return f"{used[0]} bytes on disk, {most_bytes:.0f} allowed"
    if most_entries is not None and used[1] > most_entries:
        return f"{used[1]} files and directories or more, {most_entries:.0f} allowed"
    return ""


class FreeRoom:
    """What is free of the disks that a unit writes to: cheap to see, so that it is looked at once when much is gone.

    Room can be reserved far quicker than it is written, all of a disk between two looks at a directory.

    Args:
        places: Somewhere on each disk; what cannot be seen never changes.
        most_bytes: What the unit may write in all; None: any number.
        most_entries: How many files and directories it may make; None: any number.
    """

    def __init__(self, places: Iterable[str], most_bytes: float | None, most_entries: float | None) -> None:
        self._places = [*places]
        self._most = tuple(_NO_LIMIT if most is None else most for most in (most_bytes, most_entries))
        self._before: list[tuple[int, int]] = []
        self.note()

    def note(self) -> None:
        """Go by what is free now; for the beginning of a look."""
        self._before = self._now()

    def fell(self) -> bool:
        """Whether so much is gone since then that the unit alone may have taken too much; others may have, too."""
        now = self._now()
        return any(
            before[what] - now[disk][what] > most
            for disk, before in enumerate(self._before)
            for what, most in enumerate(self._most)
        )

    def _now(self) -> list[tuple[int, int]]:
        return [self._free(place) for place in self._places]

    @staticmethod
    def _free(place: str) -> tuple[int, int]:
        try:
            status = os.statvfs(place)
        except (OSError, AttributeError):
            return 0, 0
        return status.f_bavail * status.f_frsize, status.f_favail


class _Base:
    """An open directory, as long as something is to be reached from it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.wanted = 0

    def give_up(self) -> None:
        self.wanted -= 1
        if not self.wanted:
            os.close(self.descriptor)


class _Look:
    def __init__(self, most_bytes: float, most_entries: float) -> None:
        self.bytes = self.entries = 0
        self._most_bytes, self._most_entries = most_bytes, most_entries
        self._seen: set[tuple[int, int]] = set()
        """Files that could be met again."""
        self._disks: set[int] = set()
        self._open = 0

    def _over(self) -> bool:
        return self.bytes > self._most_bytes or self.entries > self._most_entries

    def into(self, directory: str) -> None:
        try:
            top = _Base(os.open(directory, _DIRECTORY))
        except OSError:
            return
        self._disks.add(os.fstat(top.descriptor).st_dev)
        top.wanted += 1
        ahead = [(top, ".")]
        self._open += 1
        while ahead:
            base, path = ahead.pop()
            try:
                if not self._over():
                    self._one(base, path, ahead)
            finally:
                base.give_up()
                self._open -= not base.wanted

    def _one(self, base: _Base, path: str, ahead: list[tuple[_Base, str]]) -> None:
        try:
            descriptor = os.open(path, _DIRECTORY, dir_fd=base.descriptor)
        except OSError:
            return
        here: _Base | None = None
        try:
            if len(os.fsencode(path)) > _LONGEST:
                if self._open == _MOST_OPEN:
                    self.bytes = self.entries = _ANY_LIMIT
                    return
                here = _Base(descriptor)
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    self.entries += 1
                    self._count(status)
                    if self._over():
                        return
                    if stat.S_ISDIR(status.st_mode):
                        below = (here, entry.name) if here is not None else (base, f"{path}/{entry.name}")
                        below[0].wanted += 1
                        ahead.append(below)
        except OSError:
            return
        finally:
            if here is not None and here.wanted:
                self._open += 1
            else:
                os.close(descriptor)

    def _count(self, status: os.stat_result, *, here: bool = True) -> None:
        if not stat.S_ISDIR(status.st_mode) and status.st_nlink != 1:
            if (status.st_dev, status.st_ino) in self._seen:
                return
            self._seen.add((status.st_dev, status.st_ino))
        self.bytes += max(status.st_size if here else 0, getattr(status, "st_blocks", 0) * 512)

    def open_files(self, pid: int) -> None:
        """Count files that a process has open, and that nobody finds by a name."""
        place = f"/proc/{pid}/fd"
        try:
            numbers = os.listdir(place)  # noqa: PTH208
        except OSError:
            return
        for number in numbers:
            if self._over():
                return
            try:
                status = os.stat(f"{place}/{number}")  # noqa: PTH116
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                self.entries += 1
                self._count(status, here=status.st_dev in self._disks)
