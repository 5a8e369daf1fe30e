"""Pointers of Git LFS: what a clone has in place of a large file until `git lfs pull` brings the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ..errors import UsageError

__all__ = ["LFS_HINT", "is_lfs_pointer", "read_whole", "refuse_lfs_pointer"]

LFS_HINT: Final = "Get the file itself: git lfs pull"


def is_lfs_pointer(content: bytes | str) -> bool:
    """Whether content, of which the beginning is enough, is a pointer and not the file."""
    start = content[:100] if isinstance(content, str) else content[:100].decode(errors="replace")
    return start.startswith("version https://git-lfs.github.com/spec/")


def refuse_lfs_pointer(content: bytes, path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file of the user's.

    Raises:
        UsageError: It is a pointer of Git LFS (`lfs_pointer`).
    """
    if is_lfs_pointer(content):
        name = os.fspath(path)
        message = f"{name} is a Git LFS pointer, not the file itself."
        raise UsageError(message, code="lfs_pointer", hint=LFS_HINT, context={"path": name})
    return content


def read_whole(path: Path) -> bytes:
    """Read a file of the user's.

    Raises:
        UsageError: It is a pointer of Git LFS (`lfs_pointer`).
        OSError: It cannot be read.
    """
    return refuse_lfs_pointer(path.read_bytes(), path)
