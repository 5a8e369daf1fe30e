"""Files as several programs share them: locked by one at a time, and written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

__all__ = ["lock_still", "write_whole"]


def lock_still(descriptor: int, path: Path) -> bool:
    """Lock an open file or directory of ours until it is closed. The kernel drops the lock with the process, too.

    Args:
        descriptor: It, open.
        path: Where it was found. Whoever had it before may have moved or removed it since.

    Returns:
        Whether it is locked now, and is still what the path leads to.

    Raises:
        OSError: The file system has no locks.
    """
    from filelock import lock_descriptor

    if not lock_descriptor(descriptor, blocking=False):
        return False
    status = os.fstat(descriptor)
    try:
        return os.path.samestat(status, path.lstat()) and status.st_uid == os.getuid()
    except FileNotFoundError:
        return False


def write_whole(path: Path, data: bytes, *, mode: int = 0o666, sync: bool = False) -> None:
    """Write a file beside its place and move it there, so that nobody ever sees half of it.

    Args:
        path: The file; its directory is there.
        data: All of its bytes.
        mode: Its permissions, less what the process masks.
        sync: Whether it must have reached the disk before it takes its place.

    Raises:
        OSError: It cannot be written; what was there before still is.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        with os.fdopen(os.open(part, flags, mode), "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
