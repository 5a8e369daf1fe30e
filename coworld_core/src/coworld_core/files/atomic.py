"""Write files atomically: a reader finds the complete new content or the previous one."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, data: bytes | Path | Iterable[bytes], *, mode: int = 0o666, sync: bool = False) -> None:
    """Write a file atomically, through a temporary file beside it that is renamed.

    A single file that is mounted into a container cannot be replaced, so the temporary file is copied over it instead.

    Args:
        path: The file, in an existing directory.
        data: The complete content, the file to copy it from, or the pieces of the content.
        mode: Permissions, subject to the umask.
        sync: Whether to flush the content to disk before renaming.

    Raises:
        OSError: The file cannot be written, or `data` cannot be read; the previous content is kept unless the file
            is such a mount.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        with os.fdopen(os.open(part, flags, mode), "wb") as file:
            if isinstance(data, bytes):
                file.write(data)
            elif isinstance(data, Path):
                with data.open("rb") as source:
                    shutil.copyfileobj(source, file)
            else:
                file.writelines(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        try:
            part.replace(path)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            shutil.copyfile(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
