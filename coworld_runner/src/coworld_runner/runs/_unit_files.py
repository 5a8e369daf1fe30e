"""Files that units write: detected when complete, fetched without trusting them, logs kept within a size limit."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import struct
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from coworld_core.errors import TransferError
from coworld_core.text.terminal import strip_controls

from ._task_groups import cancel_after, nursery

__all__ = [
    "LOGS",
    "CappedLog",
    "copy_input",
    "fetch_file",
    "list_files",
    "log_tail",
    "watch_directory",
    "write_sparse",
]

# --- watching ---------------------------------------------------------------------------------------------------

# <sys/inotify.h>
_IN_CLOSE_WRITE = 0x0000_0008
_IN_MOVED_TO = 0x0000_0080
_IN_Q_OVERFLOW = 0x0000_4000
_IN_ONLYDIR = 0x0100_0000
_IN_ISDIR = 0x4000_0000
_EVENT_HEAD = struct.Struct("iIII")

_POLL_SECONDS = 0.05
_POLLS_STABLE = 4
"""Without inotify, a file counts as closed when it has not changed for this many polls."""


@asynccontextmanager
async def watch_directory(
    directory: Path, *, until: Callable[[], Awaitable[object]] | None = None
) -> AsyncGenerator[MemoryObjectReceiveStream[str], None]:
    """Stream names of regular files directly in a directory as writers close them or rename them into place.

    Files present when the watch is opened are reported first, even if something is still writing to them; such a file
    is reported again when it is closed. Subdirectories are not watched. A slow reader loses no file: the kernel's queue
    is bounded, and when it overflows every file present is reported again.

    Args:
        directory: The directory; must exist.
        until: When this returns, pending names are reported and the stream ends. None: it ends with the
            context.

    Raises:
        FileNotFoundError: There is no such directory.
    """
    descriptor = _inotify_open(directory)
    # List after opening the watch: a file may be reported twice, but is never missed
    present = _regular_files(directory)
    send, receive = anyio.create_memory_object_stream[str](64)
    try:
        async with nursery() as tasks, receive:
            ended = anyio.Event()
            if descriptor is None:
                tasks.start_soon(_poll, directory, send, ended)
            else:
                tasks.start_soon(_follow, directory, descriptor, present, send, ended)
            if until is not None:
                tasks.start_soon(_set_after, until, ended)
            yield receive
    finally:
        send.close()
        receive.close()
        if descriptor is not None:
            os.close(descriptor)


async def _set_after(until: Callable[[], Awaitable[object]], ended: anyio.Event) -> None:
    await until()
    ended.set()


def _inotify_open(directory: Path) -> int | None:
    """Open an inotify descriptor that watches the directory; None if inotify is missing or its limit is reached."""
    if not stat.S_ISDIR(directory.stat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
    if sys.platform != "linux":
        return None
    import ctypes  # Takes 10 ms, so only runs pay for it

    libc = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except AttributeError:
        return None
    if descriptor < 0:
        return None
    mask = _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_ONLYDIR
    if libc.inotify_add_watch(descriptor, os.fsencode(directory), ctypes.c_uint32(mask)) < 0:
        os.close(descriptor)
        return None
    return descriptor


def _inotify_read(descriptor: int) -> tuple[list[str], bool]:
    """Read the events since the last read: names in order, and whether the kernel dropped events."""
    names: list[str] = []
    overflow = False
    while True:
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return names, overflow
        offset = 0
        while offset < len(data):
            _, mask, _, length = _EVENT_HEAD.unpack_from(data, offset)
            offset += _EVENT_HEAD.size
            name = os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
            offset += length
            if mask & _IN_Q_OVERFLOW:
                overflow = True
            elif name and not mask & _IN_ISDIR and name not in names:
                names.append(name)
        if len(names) > 256:
            # Enough for one read; the rest stays in the kernel's queue
            return names, overflow


async def _follow(
    directory: Path, descriptor: int, present: list[str], send: MemoryObjectSendStream[str], ended: anyio.Event
) -> None:
    with send:
        for name in present:
            await send.send(name)
        while True:
            over = ended.is_set()
            names, overflow = _inotify_read(descriptor)
            if overflow:
                names = [*_regular_files(directory)]
            for name in names:
                if _is_regular(directory / name):
                    await send.send(name)
            if names:
                continue
            if over:
                return
            async with nursery() as tasks:
                # Whichever comes first: an event to read, or the end
                tasks.start_soon(cancel_after, ended, tasks.cancel_scope)
                await anyio.wait_readable(descriptor)


async def _poll(directory: Path, send: MemoryObjectSendStream[str], ended: anyio.Event) -> None:
    seen: dict[str, tuple[int, int, int]] = {}
    reported: dict[str, tuple[int, int, int]] = {}
    stable: dict[str, int] = {}
    with send:
        first = True
        while True:
            over = ended.is_set()
            for name in _regular_files(directory):
                try:
                    now = (directory / name).lstat()
                except OSError:
                    continue
                state = (now.st_ino, now.st_size, now.st_mtime_ns)
                stable[name] = stable.get(name, 0) + 1 if seen.get(name) == state else 0
                seen[name] = state
                if reported.get(name) != state and (first or over or stable[name] >= _POLLS_STABLE):
                    reported[name] = state
                    await send.send(name)
            first = False
            if over:
                return
            with anyio.move_on_after(_POLL_SECONDS):
                await ended.wait()


def _regular_files(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    except OSError:
        return []


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


# --- fetching ---------------------------------------------------------------------------------------------------

LOGS = "logs/"
"""Name prefix of files in the one subdirectory of a unit's directory that is read."""
_CHUNK = 1 << 20
_ZEROS = bytes(1 << 16)
_LISTED = 3000
"""Maximum number of names to list of a unit's files."""


def list_files(directory: Path | None) -> list[str]:
    """List the regular files that a unit has left, as names for `fetch_file`; none if `directory` is None."""
    if directory is None:
        return []
    found = _regular_files(directory)
    with contextlib.suppress(OSError), _below(directory) as logs, os.scandir(logs) as entries:
        found += sorted(LOGS + entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    return found[:_LISTED]


@contextlib.contextmanager
def _below(directory: Path) -> Generator[int, None, None]:
    """Open a descriptor of the directory of logs; a link in its place is not followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(directory / LOGS.rstrip("/"), flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def fetch_file(directory: Path, name: str, target: Path, *, limit: int | None = None) -> int:
    """Copy one regular file out of a directory that another program writes to.

    No link is followed. A pipe or device is opened only long enough to see what it is. The target appears whole or not
    at all: a temporary file beside it is renamed into place.

    Args:
        directory: Where the file is.
        name: A plain file name, without any directory, or `logs/NAME`.
        target: The path of the copy; an existing file is replaced.
        limit: The most bytes it may have; None: any number.

    Returns:
        Its size in bytes.

    Raises:
        FileNotFoundError: There is no such file.
        TransferError: The name is not a plain file name, the file is not regular or larger than `limit`, or it could
            not be read or written.
    """
    check_name(name.removeprefix(LOGS))
    return await anyio.to_thread.run_sync(_fetch, directory, name, target, limit)


def copy_input(source: Path, target: Path) -> None:
    """Copy a file, or a directory with everything in it, readable for every user. Runs in a worker thread.

    If `source` itself is a link, it is followed; inside a directory only files and directories are copied.

    Raises:
        OSError: There is no such file, or a directory cannot be read.
        TransferError: It contains something that is not a regular file, or it could not be read or written.
    """
    source = source.resolve(strict=True)
    if not source.is_dir():
        _copy_input(source.parent, source.name, target)
        return
    target.mkdir()
    target.chmod(0o755)
    for entry in sorted(source.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            copy_input(entry, target / entry.name)
        else:
            _copy_input(source, entry.name, target / entry.name)


def _copy_input(directory: Path, name: str, target: Path) -> None:
    _fetch(directory, name, target, None)
    target.chmod(0o644)


def check_name(name: str) -> None:
    """Refuse a name that is not a plain file name.

    Raises:
        TransferError: `file_name`.
    """
    if name in {"", ".", ".."} or "/" in name or "\\" in name or "\0" in name:
        raise TransferError(f"{name!r} is not a plain file name.", code="file_name", context={"name": name})


def check_size(size: int, limit: int | None, context: Mapping[str, object]) -> None:
    """Refuse a file that is too large.

    Args:
        size: The file's size in bytes.
        limit: The most bytes it may have; None: any number.
        context: Context of the error; its `name` is the file's.

    Raises:
        TransferError: `file_too_large`.
    """
    if limit is not None and size > limit:
        raise TransferError(
            f"{context['name']} has more than the {limit} bytes it may have.",
            code="file_too_large",
            hint="Write less, or raise the limit.",
            context={**context, "limit": limit},
        )


def not_regular(context: Mapping[str, object]) -> TransferError:
    """Return the error for something that is not a regular file; the context's `name` is its name."""
    return TransferError(
        f"{context['name']} is not a regular file, so it is not fetched.",
        code="not_regular",
        hint="Write the file itself; links, pipes and directories are not followed.",
        context=context,
    )


def not_written(error: OSError, context: Mapping[str, object]) -> TransferError:
    """Return the error for a copy that could not be written; the context has the file's `name` and `target`."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    return TransferError(
        f"{context['name']} could not be written to {context['target']}: {error.strerror}.",
        code="disk_full" if full else "not_writable",
        hint="Free some room on that disk." if full else "Write to a directory of your own.",
        context=context,
    )


def _fetch(directory: Path, name: str, target: Path, limit: int | None) -> int:
    context: dict[str, object] = {"name": name, "target": str(target)}
    with _open_regular(directory, name, context) as source:
        size = os.fstat(source).st_size
        check_size(size, limit, context)
        # Created with the caller's umask, like the caller's other files; mkstemp would make it private
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            sink = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
            try:
                copied = 0
                while chunk := _read(source, name, context):
                    anyio.from_thread.check_cancelled()
                    copied += len(chunk)
                    check_size(copied, limit, context)
                    write_sparse(sink, chunk)
            finally:
                os.close(sink)
            part.replace(target)
        except OSError as error:
            raise not_written(error, context) from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink()
    return copied


@contextlib.contextmanager
def _open_regular(directory: Path, name: str, context: dict[str, object]) -> Generator[int, None, None]:
    flags = os.O_RDONLY
    for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
        flags |= getattr(os, flag, 0)
    wrong = not_regular(context)
    try:
        with contextlib.ExitStack() as stack:
            path: str | Path = directory / name
            below = None
            if name.startswith(LOGS):
                below, path = stack.enter_context(_below(directory)), name.removeprefix(LOGS)
            # Checked before opening it, since opening a device may have side effects
            if not stat.S_ISREG(os.stat(path, dir_fd=below, follow_symlinks=False).st_mode):
                raise wrong
            descriptor = os.open(path, flags, dir_fd=below)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory / name)) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise wrong from error
        raise TransferError(
            f"{name} cannot be read: {error.strerror}.",
            hint="The program that writes it must leave it readable for everyone (mode 0644).",
            context=context,
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise wrong
        yield descriptor
    finally:
        os.close(descriptor)


def write_sparse(descriptor: int, data: bytes) -> None:
    """Append to a copy, writing zeros as holes, so that a sparse file stays sparse.

    Raises:
        OSError: The write failed, for example because the disk is full.
    """
    hole = False
    for start in range(0, len(data), len(_ZEROS)):
        piece = data[start : start + len(_ZEROS)]
        hole = piece == _ZEROS[: len(piece)]
        if hole:
            os.lseek(descriptor, len(piece), os.SEEK_CUR)
            continue
        view = memoryview(piece)
        while view:
            view = view[os.write(descriptor, view) :]
    if hole:
        # The hole may be the end of the file
        os.ftruncate(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR))


def _read(source: int, name: str, context: dict[str, object]) -> bytes:
    try:
        return os.read(source, _CHUNK)
    except OSError as error:
        raise TransferError(f"{name} cannot be read: {error.strerror}.", context=context) from error


# --- logs -------------------------------------------------------------------------------------------------------


class CappedLog:
    """A log file that never grows beyond its limit and never fails its writer.

    When the limit is reached, the file ends with one line that says so and holds `limit` bytes in all (without the
    line if there is no room for it); everything later is counted and dropped.

    Args:
        path: The file; created, or emptied.
        limit: The most bytes it may hold.
        on_truncated: Called once, when the first byte is dropped because of the limit.
    """

    def __init__(self, path: Path, limit: int, on_truncated: Callable[[], None]) -> None:
        self.path = path
        self.limit = limit
        self.written = 0
        """Bytes offered so far, kept or not."""
        self.truncated = False
        """Whether bytes were dropped because of the limit."""
        self.error: OSError | None = None
        """The first failure to write, after which nothing more is written."""
        self._on_truncated = on_truncated
        self._kept = 0
        self._descriptor: int | None = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
        try:
            self._descriptor = os.open(path, flags, 0o666)
        except OSError as error:
            self.error = error

    def write(self, data: bytes) -> None:
        """Append, as far as there is room. Never raises."""
        self.written += len(data)
        if self.truncated:
            return
        room = self.limit - self._kept
        self._append(data[:room])
        if len(data) > room:
            self.truncated = True
            self._mark()
            self._on_truncated()

    def close(self) -> None:
        """Close the file; writing afterwards only counts."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            try:
                os.close(descriptor)
            except OSError as error:
                self.error = self.error or error

    def _append(self, data: bytes) -> None:
        if self._descriptor is None or self.error is not None:
            return
        view = memoryview(data)
        try:
            while view:
                count = os.write(self._descriptor, view)
                self._kept += count
                view = view[count:]
        except OSError as error:
            self.error = error

    def _mark(self) -> None:
        mark = f"\n[log truncated at {self.limit} bytes]\n".encode()
        if self._descriptor is None or self.error is not None or len(mark) > self.limit:
            return
        try:
            os.ftruncate(self._descriptor, self.limit - len(mark))
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as error:
            self.error = error
            return
        self._kept = self.limit - len(mark)
        self._append(mark)


def log_tail(paths: Sequence[Path], limit: int = 4000) -> str:
    """Return the end of one or more logs as text, reading no more than needed.

    Args:
        paths: The files, in the order to show them. Missing ones count as empty, and a repeated one counts once.
        limit: The most bytes in all; what a short log does not use is left to the others.

    Returns:
        Text with undecodable bytes replaced and control sequences stripped. A line that was cut at the start is omitted
        if that loses little.
    """
    sizes: dict[Path, int] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            sizes[path] = path.stat().st_size
    room = limit
    share: dict[Path, int] = {}
    for index, (path, size) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        share[path] = min(size, room // (len(sizes) - index))
        room -= share[path]
    parts = [_tail(path, share[path]) for path in sizes if share[path] > 0]
    return "\n".join(part for part in parts if part)


def _tail(path: Path, limit: int) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - limit)
            file.seek(start)
            data = file.read(limit)
    except OSError:
        return ""
    if start:
        data = data.lstrip(bytes(range(0x80, 0xC0)))
        line = data.find(b"\n", 0, len(data) // 4)
        data = data[line + 1 :]
    return strip_controls(data.decode("utf-8", "replace"))
