"""The unit's directory: copies files into it, and tells which of its files are complete."""

from __future__ import annotations

import ctypes
import os
import select
import stat
import struct
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Files", "state_of"]

_NAMES = 10_000
"""How many complete files are remembered; beyond that, the oldest are forgotten."""

_LISTED = 3000
"""How many names of the files that a unit left are listed."""
_OPEN_BELOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# <sys/inotify.h>
_IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_Q_OVERFLOW, _IN_ISDIR = 0x8, 0x80, 0x4000, 0x4000_0000
_EVENT_HEAD = struct.Struct("iIII")


class Files:
    """Regular files directly in the unit's directory, and which of them are complete."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.changed = threading.Condition()
        self.complete: dict[str, int] = {}
        """File name → running number of its last close by a writer, oldest first."""
        self.count = 0
        self.drained = False
        self._ended = threading.Event()

    def open_watch(self) -> int | None:
        """Return an inotify descriptor that watches the directory, or None if there is none."""
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return None
        if descriptor < 0:
            return None
        mask = ctypes.c_uint32(_IN_CLOSE_WRITE | _IN_MOVED_TO)
        if libc.inotify_add_watch(descriptor, os.fsencode(self.directory), mask) < 0:
            os.close(descriptor)
            return None
        return descriptor

    def fill(self, source: str, inputs: str = "") -> None:
        """Copy the files given to the pod: `files` into the directory, `inputs` into the read-only one."""
        logs = os.path.join(self.directory, "logs")  # noqa: PTH118
        os.makedirs(logs, exist_ok=True)  # noqa: PTH103
        for place in (self.directory, logs):
            # The unit may run as any user. A volume is another's, and may be changed by nobody but root
            if os.stat(place).st_mode & 0o777 != 0o777:  # noqa: PTH116
                os.chmod(place, 0o777)  # noqa: PTH101, S103
        _copy_files(os.path.join(source, "files"), self.directory, 0o666)  # noqa: PTH118
        if inputs:
            _copy_files(os.path.join(source, "inputs"), inputs, 0o644)  # noqa: PTH118

    def follow(self, descriptor: int | None) -> None:
        """Record files as they are closed, until the unit has ended and no events are left."""
        self.note(self.regular())
        seen: dict[str, tuple[int, int, int]] = {}
        while True:
            ended = self._ended.is_set()
            names = self._read(descriptor) if descriptor is not None else self._changed(seen)
            if names:
                self.note(name for name in names if self._is_regular(name))
                continue
            if ended:
                with self.changed:
                    self.drained = True
                    self.changed.notify_all()
                return
            if descriptor is not None:
                select.select([descriptor], [], [], 0.2)
            else:
                self._ended.wait(0.1)

    def end(self) -> None:
        """Record that the unit has ended, so that only pending events remain."""
        self._ended.set()

    def note(self, names: Iterator[str] | list[str]) -> None:
        """Record that these files are complete."""
        with self.changed:
            for name in names:
                self.count += 1
                self.complete.pop(name, None)
                self.complete[name] = self.count
                if len(self.complete) > _NAMES:
                    del self.complete[next(iter(self.complete))]
            self.changed.notify_all()

    def regular(self) -> list[str]:
        """Names of all regular files in the directory."""
        try:
            with os.scandir(self.directory) as entries:
                return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        except OSError:
            return []

    def left(self) -> list[str]:
        """Names of the files that can be downloaded: those in the directory and those in its `logs`."""
        found = self.regular()
        try:
            logs = os.open(os.path.join(self.directory, "logs"), _OPEN_BELOW)  # noqa: PTH118
        except OSError:
            return found[:_LISTED]
        try:
            with os.scandir(logs) as entries:
                found += sorted("logs/" + entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        finally:
            os.close(logs)
        return found[:_LISTED]

    def _is_regular(self, name: str) -> bool:
        try:
            return stat.S_ISREG(os.lstat(os.path.join(self.directory, name)).st_mode)  # noqa: PTH118
        except OSError:
            return False

    def _read(self, descriptor: int) -> list[str]:
        names: list[str] = []
        while len(names) < 256:
            try:
                data = os.read(descriptor, 65536)
            except BlockingIOError:
                break
            offset = 0
            while offset < len(data):
                _, mask, _, length = _EVENT_HEAD.unpack_from(data, offset)
                offset += _EVENT_HEAD.size
                name = os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
                offset += length
                if mask & _IN_Q_OVERFLOW:
                    return self.regular()
                if name and not mask & _IN_ISDIR and name not in names:
                    names.append(name)
        return names

    def _changed(self, seen: dict[str, tuple[int, int, int]]) -> list[str]:
        """Without inotify: files that have not changed since the last check."""
        stable: list[str] = []
        for name in self.regular():
            try:
                now = os.lstat(os.path.join(self.directory, name))  # noqa: PTH118
            except OSError:
                continue
            state = (now.st_ino, now.st_size, now.st_mtime_ns)
            if seen.get(name) == state and seen.get(name + "\0") != state:
                seen[name + "\0"] = state
                stable.append(name)
            seen[name] = state
        return stable

    def open(self, name: str) -> int:
        """Open a regular file, also `logs/NAME`; nothing else is opened, and no link is followed.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It is not a regular file, or not a plain name.
        """
        place, plain = self.directory, name
        if name.startswith("logs/"):
            place, plain = os.path.join(self.directory, "logs"), name[5:]  # noqa: PTH118
        if plain in {"", ".", ".."} or "/" in plain or "\0" in plain:
            raise ValueError("not a plain file name")
        try:
            below = os.open(place, _OPEN_BELOW)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ValueError("not a regular file") from error
        try:
            # Check before opening, since opening a pipe or a device may have side effects
            if not stat.S_ISREG(os.stat(plain, dir_fd=below, follow_symlinks=False).st_mode):
                raise ValueError("not a regular file")
            descriptor = os.open(plain, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=below)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ValueError(f"not readable: {error.strerror}") from error
        finally:
            os.close(below)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ValueError("not a regular file")
        return descriptor


def _copy_files(source: str, target: str, mode: int) -> None:
    try:
        names = sorted(os.listdir(source))  # noqa: PTH208
    except FileNotFoundError:
        return
    for name in names:
        path, copy = os.path.join(source, name), os.path.join(target, name)  # noqa: PTH118
        if os.path.isdir(path):  # noqa: PTH112
            os.makedirs(copy, exist_ok=True)  # noqa: PTH103
            _copy_files(path, copy, mode)
            continue
        with open(path, "rb") as given, open(copy, "wb") as file:  # noqa: PTH123
            # From a Secret, so a mebibyte at most
            file.write(given.read())
        os.chmod(copy, mode)  # noqa: PTH101


def state_of(descriptor: int) -> str:
    """A string that changes when the file changes."""
    now = os.fstat(descriptor)
    return f'"{now.st_ino}-{now.st_size}-{now.st_mtime_ns}"'
