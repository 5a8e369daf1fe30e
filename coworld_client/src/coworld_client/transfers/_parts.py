"""The partial file of a download: beside its target, locked while it grows, and resumed by the next attempt."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import cast

from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.text.size_text import shown_size

from .._file_lock import lock_still

__all__ = ["Part", "check_file_name", "inside", "open_part", "storage"]

_WRITTEN = 1 << 14
"""Bytes per write call. For larger writes Linux allocates large untouched pages, which a virtual machine that returns
unused memory to its host must fetch again: that doubled the time on the machine where it was measured."""
_MAX_NAME = 255


@dataclass(kw_only=True)
class Part:
    """The bytes that have arrived so far, and the content they belong to."""

    path: Path
    file: FileIO
    kept: bool
    """Whether a later call can find the file: its name is not random."""
    size: int = 0
    validator: str = ""
    """The server's `ETag` or `Last-Modified`, to check that the content is still the same."""
    total: int | None = None
    """Size of the whole content in bytes, if the server reported it."""
    finished: bool = False
    """Whether the file has been moved to its target."""

    @property
    def resumable(self) -> bool:
        """Whether a later call could resume from here."""
        return self.kept and self.size > 0 and bool(self.validator)

    def write(self, pieces: Sequence[bytes]) -> None:
        """Append pieces. Blocks."""
        file = self.file.fileno()
        for piece in pieces:
            left = memoryview(piece)
            while left:
                left = left[os.write(file, left[:_WRITTEN]) :]

    def restart(self) -> None:
        """Discard the content and start again."""
        self.file.seek(0)
        self.file.truncate()
        self.size = 0

    def note(self, validator: str, total: int | None) -> None:
        """Remember the validator and the total size of the content."""
        if (validator, total) != (self.validator, self.total):
            self.validator, self.total = validator, total
            if self.kept:
                with contextlib.suppress(OSError):
                    _beside(self.path).write_text(json.dumps({"validator": validator, "total": total}))


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.about")


@contextmanager
def open_part(target: Path, key: str) -> Generator[Part]:
    """Open the partial file of a download, and keep it locked while the context is open.

    On exit the part is kept if a later call could resume from it, and removed otherwise, unless it was renamed to its
    target. If another program is writing the same part, a separate one is used.

    Args:
        target: The file to download to; its directory is created if missing.
        key: Identifies the download; must be the same in every call for the same content.

    Raises:
        EnvironmentFault: The part cannot be written.
        UsageError: The target is a directory, or its name is not a file name.
    """
    check_file_name(target.name)
    if target.is_dir():
        raise UsageError(f"{target} is a directory, not a file to write to.", code="target_directory")
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    with storage(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        path, file, kept = _open(target, name)
    part = Part(path=path, file=file, kept=kept)
    with file:
        try:
            with storage(target):
                part.size = file.seek(0, os.SEEK_END)
                part.validator, part.total = _remembered(path) if kept else ("", None)
                if not part.resumable:
                    part.restart()
            yield part
        finally:
            # While still locked: the next call must not find a part that is about to be removed
            _leave(part)


def _leave(part: Part) -> None:
    if not part.finished and not part.resumable:
        with contextlib.suppress(OSError):
            part.path.unlink()
    if part.finished or not part.resumable:
        with contextlib.suppress(OSError):
            _beside(part.path).unlink()


def _open(target: Path, name: str) -> tuple[Path, FileIO, bool]:
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    # A hidden name, with room left for the suffix
    stem = target.name.encode()[: _MAX_NAME - 40].decode("utf-8", "ignore")
    path = target.with_name(f".{stem}.part-{name}")
    descriptor = os.open(path, flags, 0o600)
    with contextlib.suppress(OSError):
        if lock_still(descriptor, path):
            return path, os.fdopen(descriptor, "r+b", buffering=0), True
    os.close(descriptor)
    path = target.with_name(f".{stem}.part-{secrets.token_hex(8)}")
    return path, os.fdopen(os.open(path, flags | os.O_EXCL, 0o600), "r+b", buffering=0), False


def _remembered(path: Path) -> tuple[str, int | None]:
    try:
        value: object = json.loads(_beside(path).read_bytes()[:65_536])
    except (OSError, ValueError):
        value = None
    known = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    validator, total = known.get("validator"), known.get("total")
    if not isinstance(validator, str) or not validator.isprintable():
        return "", None
    return validator, total if isinstance(total, int) else None


@contextmanager
def storage(target: Path) -> Generator[None]:
    """Turn an `OSError` into an `EnvironmentFault` with a hint."""
    try:
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        room = f" ({shown_size(shutil.disk_usage(target.parent).free)} left)" if full and target.parent.is_dir() else ""
        raise EnvironmentFault(
            f"{target} cannot be written: {error.strerror or error}.",
            code="disk_full" if full else "not_writable",
            hint=f"Free some room{room}, or write somewhere else." if full else "Write to a directory of your own.",
            context={"path": str(target)},
        ) from error


def check_file_name(name: str) -> str:
    """Return the name if it is a plain file name, without any directory.

    Raises:
        UsageError: It is not (`file_name`).
    """
    if (
        name in {"", ".", ".."}
        or len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME
        or not name.isprintable()
        or "/" in name
        or "\\" in name
    ):
        raise UsageError(f"{name[:80]!r} is not a plain file name.", code="file_name")
    return name


def inside(directory: Path, *names: str) -> Path:
    """Join names to a directory, and check that the path stays inside it.

    Args:
        directory: The directory.
        *names: The parts of the path.

    Raises:
        UsageError: A part is not a plain file name, or a symbolic link leads out of the directory (`file_name`).
    """
    path = directory
    for name in names:
        path = path / check_file_name(name)
    root = directory.resolve()
    if not path.parent.resolve().is_relative_to(root):
        raise UsageError(f"{path} leads out of {directory}.", code="file_name")
    return path
