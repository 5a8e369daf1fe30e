"""Reads files that anyone may have put there: regular ones only, and no more of them than is allowed.

A pipe would be waited for without end, a device may never end, and a file of a gigabyte can be made in a moment.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import IO

from ..text.size_text import shown_size

__all__ = ["MAX_FILE", "open_regular", "read_regular", "regular_lines", "too_large"]

MAX_FILE = 64 << 20
"""Bytes that are read of one file, or of one of its lines, where nothing else is said."""


def open_regular(path: str | os.PathLike[str], *, most: int | None = None) -> IO[bytes]:
    """Open a regular file for reading.

    Args:
        path: The file; a link is followed.
        most: Bytes that it may have; None: any number.

    Raises:
        OSError: It cannot be opened, is no regular file, or is larger. This includes a path that cannot be one.
    """
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        descriptor = os.open(path, flags)
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), os.fspath(path)) from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        if most is not None and status.st_size > most:
            raise too_large(path, f"it has {shown_size(status.st_size)}", most)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | os.PathLike[str], *, most: int = MAX_FILE) -> bytes:
    """Read a regular file whole.

    Args:
        path: The file.
        most: Bytes that it may have.

    Raises:
        OSError: As for `open_regular`, or it cannot be read.
    """
    with open_regular(path, most=most) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise too_large(path, "it grows", most)
    return data


def regular_lines(path: str | os.PathLike[str], *, position: int = 0, longest: int = MAX_FILE) -> Iterator[bytes]:
    """Read the lines of a regular file one by one, with their ends; the last one may have none.

    Args:
        path: The file, of any size.
        position: Where to begin, in bytes.
        longest: Bytes that a line may have.

    Raises:
        OSError: On iteration: as for `open_regular`, it cannot be read, or a line is longer.
    """
    with open_regular(path) as file:
        file.seek(position)
        while line := file.readline(longest + 1):
            if len(line) > longest:
                raise too_large(path, "one of its lines has more", longest)
            yield line


def too_large(path: str | os.PathLike[str], why: str, most: int) -> OSError:
    """The error (`EFBIG`) for a file of which no more is read.

    Args:
        path: The file.
        why: What is too large about it: `it has 2 GiB`.
        most: Bytes that are read.
    """
    return OSError(errno.EFBIG, f"{why}, and at most {shown_size(most)} are read", os.fspath(path))
