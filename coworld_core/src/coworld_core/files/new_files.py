"""Writes several files into a directory where none of them exists yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from ..errors import UsageError

__all__ = ["write_new_files"]


def write_new_files(directory: Path, files: Mapping[str, bytes], *, executable: Collection[str] = ()) -> None:
    """Write files; if one of them exists, none is written.

    Args:
        directory: The directory, which is made if it is missing.
        files: Contents by relative path, none of which leaves the directory.
        executable: Those that are executable.

    Raises:
        UsageError: One of them exists (`file_exists`).
        OSError: One cannot be written.
    """
    for name in files:
        if (directory / name).exists() or (directory / name).is_symlink():
            raise UsageError(
                f"There is {directory / name} already, and nothing is overwritten.",
                code="file_exists",
                hint="Name another directory.",
                context={"path": str(directory / name)},
            )
    for name, content in files.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(content)
        if name in executable:
            target.chmod(target.stat().st_mode | 0o111)
