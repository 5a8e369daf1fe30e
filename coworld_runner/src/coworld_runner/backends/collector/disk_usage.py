"""How much disk a unit uses: bytes, files and directories, even if it tries to hide them.

The collector in a pod, the runner and a bare interpreter use this module, so it needs only the standard library.
Counting stops as soon as a number is over its limit, so the limits bound how long it takes.
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
"""Bytes of a path below an open directory; deeper entries are reached from another one, so that depth hides nothing."""
_MOST_OPEN = 100
"""The most directories kept open for that; a unit with more deep trees side by side is trying to hide something."""
_ANY_LIMIT = 1 << 62


def disk_usage(
    directories: Iterable[str],
    *,
    most_bytes: float = _NO_LIMIT,
    most_entries: float = _NO_LIMIT,
    processes: Iterable[int] = (),
) -> tuple[int, int]:
    """Count the bytes, and the files and directories, below some directories. Blocks.

    Each counts with its length or its blocks, whichever is more; a file with several names counts once. Entries that
    vanish or cannot be read are skipped.

    Args:
        directories: The directories.
        most_bytes: Stop once there are more bytes than this.
        most_entries: Stop once there are more files and directories than this.
        processes: Processes whose open but deleted files count too. Files on other disks, as in memory, count with
            their blocks alone, because programs reserve space there that they may never need.
    """
    look = _Look(most_bytes, most_entries)
    for directory in directories:
        look.into(directory)
    for pid in processes:
        look.open_files(pid)
    return look.bytes, look.entries


def too_much(used: tuple[int, int], most_bytes: float | None, most_entries: float | None) -> str:
    """Describe how `disk_usage` exceeds the limits; empty if it does not. None means no limit."""
    if most_bytes is not None and used[0] > most_bytes:
        return f"{used[0]} bytes on disk, {most_bytes:.0f} allowed"
    if most_entries is not None and used[1] > most_entries:
        return f"{used[1]} files and directories or more, {most_entries:.0f} allowed"
    return ""


class FreeRoom:
    """Free space on the disks that a unit writes to: cheap to read, and shows when the unit must be counted at once.

    Space can be reserved far faster than it is written: a whole disk between two counts of a directory.

    Args:
        places: A path on each disk; a disk that cannot be read never changes.
        most_bytes: Bytes that the unit may write; None: any number.
        most_entries: Files and directories that it may create; None: any number.
    """

    def __init__(self, places: Iterable[str], most_bytes: float | None, most_entries: float | None) -> None:
        self._places = [*places]
        self._most = tuple(_NO_LIMIT if most is None else most for most in (most_bytes, most_entries))
        self._before: list[tuple[int, int]] = []
        self.note()

    def note(self) -> None:
        """Record the free space, at the beginning of a count."""
        self._before = self._now()

    def fell(self) -> bool:
        """Whether free space fell by more than the unit may use; other programs may have used it, too."""
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
    """A directory that stays open while entries are to be reached from it."""

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
        """Files with several names, or none, that were already counted."""
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
        """Count files that a process has open and that no longer have a name."""
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
