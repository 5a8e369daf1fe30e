"""The unfinished file of a download: beside its target, locked while it grows, and found again by the next try."""

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
from coworld_core.quantities import shown_size

from .._on_disk import lock_still

__all__ = ["Part", "check_file_name", "inside", "open_part", "storage"]

_WRITTEN = 1 << 14
"""Bytes written in one call. For many at once Linux takes large pages that nothing has touched yet, and a virtual
machine that gives unused memory back has to fetch those again: twice the time, on the one it was measured on."""
_MAX_NAME = 255


@dataclass(kw_only=True)
class Part:
    """What has arrived so far, and what it is a part of."""

    path: Path
    file: FileIO
    kept: bool
    """Whether another call could find it: its name is not random."""
    size: int = 0
    validator: str = ""
    """What the server calls the content (``ETag``, or ``Last-Modified``), to tell that it is still the same."""
    total: int | None = None
    """How many bytes the whole has, if the server said so."""
    finished: bool = False
    """Whether the file has been moved to its target."""

    @property
    def resumable(self) -> bool:
        """Whether a later call could go on from here."""
        return self.kept and self.size > 0 and bool(self.validator)

    def write(self, pieces: Sequence[bytes]) -> None:
        """Append; runs in a worker thread."""
        file = self.file.fileno()
        for piece in pieces:
            left = memoryview(piece)
            while left:
                left = left[os.write(file, left[:_WRITTEN]) :]

    def restart(self) -> None:
        """Begin anew."""
        self.file.seek(0)
        self.file.truncate()
        self.size = 0

    def note(self, validator: str, total: int | None) -> None:
        """Remember what the server calls the content, and how much there is of it."""
        if (validator, total) != (self.validator, self.total):
            self.validator, self.total = validator, total
            if self.kept:
                with contextlib.suppress(OSError):
                    _beside(self.path).write_text(json.dumps({"validator": validator, "total": total}))


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.about")


@contextmanager
def open_part(target: Path, key: str) -> Generator[Part]:
    """The part of a download, for as long as the context is open.

    On leaving it stays if a later call could go on from it, and is removed otherwise. What has been renamed to its
    target is left alone. While another program writes the same part, a part of one's own is used.

    Args:
        target: Where the file will be; its directory is made when it is missing.
        key: What is downloaded, without what differs between two calls for the same.

    Raises:
        EnvironmentFault: It cannot be written.
        UsageError: The target is a directory, or its name is none.
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
            # while it is still locked: the next one must not find what is about to go
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
    # a hidden name that leaves room for its own suffix
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
    """Turn failures of the disk into an error that says what to do."""
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
    """A name, if it is that of a file in a directory and of nothing else.

    Raises:
        UsageError: Code ``file_name``.
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
    """A path below a directory, each part of it checked.

    Args:
        directory: Where files go.
        *names: The parts.

    Raises:
        UsageError: Code ``file_name``, when a part is no plain name, or a link would lead out of the directory.
    """
    path = directory
    for name in names:
        path = path / check_file_name(name)
    root = directory.resolve()
    if not path.parent.resolve().is_relative_to(root):
        raise UsageError(f"{path} leads out of {directory}.", code="file_name")
    return path
