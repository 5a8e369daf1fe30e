"""Files shared between processes: exclusive locks."""

from __future__ import annotations

import os
from pathlib import Path

from coworld_core.files.locks import flock
from coworld_core.operating_system import user_id

__all__ = ["lock_still"]


def lock_still(descriptor: int, path: Path) -> bool:
    """Try to lock an open file or directory. The lock lasts until it is closed or the process ends.

    Args:
        descriptor: The open file or directory.
        path: The path it was opened from. A previous lock holder may have moved or removed it since.

    Returns:
        Whether it is locked, belongs to this user, and is still at the path.

    Raises:
        OSError: The file system does not support locks.
    """
    if not flock(descriptor):
        return False
    status = os.fstat(descriptor)
    try:
        return os.path.samestat(status, path.lstat()) and status.st_uid == user_id()
    except FileNotFoundError:
        return False
