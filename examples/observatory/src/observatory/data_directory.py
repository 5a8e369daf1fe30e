"""Directories and files that only their owner can read, and the lock of a server's data directory."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.files import flock, write_whole

__all__ = ["locked_directory", "prepare_directory", "write_secret"]


def prepare_directory(path: Path) -> Path:
    """Create a directory that only its owner can read, and return it.

    Raises:
        UsageError: It cannot be created or made private, or is not a directory (code `bad_directory`).
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.stat().st_mode & 0o077:
            path.chmod(0o700)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be used as a private directory: {error.strerror or error}.",
            code="bad_directory",
            hint="Name a directory of your own with --data.",
        ) from error
    return path


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, atomically, and flushed to the disk before it is renamed.

    Raises:
        OSError: It cannot be written.
    """
    write_whole(path, content, mode=0o600, sync=True)


@contextmanager
def locked_directory(data: Path) -> Generator[None]:
    """Hold the directory's lock: a registry has one server at a time.

    Raises:
        EnvironmentFault: Another server holds it (code `already_running`).
    """
    with (data / "server.lock").open("w", encoding="utf-8") as file:
        if not flock(file.fileno()):
            raise EnvironmentFault(
                f"Another Observatory is already serving {data}.",
                code="already_running",
                hint="Stop it first, or give this one another --data directory.",
            )
        yield
