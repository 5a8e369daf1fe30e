"""Files shared between processes: exclusive locks and atomic writes."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

__all__ = ["lock_still", "write_whole"]


def lock_still(descriptor: int, path: Path) -> bool:
    """Try to lock an open file or directory until it is closed or the process ends.

    Args:
        descriptor: The open file or directory.
        path: The path it was opened from. Its previous owner may have moved or removed it since.

    Returns:
        Whether it is locked, belongs to this user, and is still at the path.

    Raises:
        OSError: The file system does not support locks.
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
    """Write a file atomically: to a temporary file beside it, which is then renamed.

    Args:
        path: The file, in an existing directory.
        data: The complete content.
        mode: Permissions, subject to the umask.
        sync: Whether to flush the content to disk before renaming.

    Raises:
        OSError: The file cannot be written; its previous content is kept.
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
