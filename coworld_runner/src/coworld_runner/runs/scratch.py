"""A run's own directory: labelled with the run id before anything is in it, and locked while its runner lives.

Every run has one directory below `<temporary files>/coworld-<uid>/`, or below `$XDG_RUNTIME_DIR/coworld-<uid>/` if
another user has taken that name. The runtime directory always belongs to this user, but it comes second because it is
usually in memory, and games write gigabytes. The directory's name is the run id. It holds the files that units exchange
with the runner, and a lock file that the runner keeps locked. The lock tells a living run from a dead one: the kernel
drops it with the process, even after SIGKILL, so there is no pid to be mistaken about.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import stat
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.errors import EnvironmentFault
from coworld_core.files.locks import flock, is_free, while_opening
from coworld_core.ids import new_run_id
from coworld_core.operating_system import plays_here, require_posix, user_id

from ..backend import Found, Reaped
from ._tree_removal import remove_tree

__all__ = [
    "REMOVE_SECONDS",
    "Scratch",
    "find_scratch",
    "make_scratch",
    "open_scratch",
    "owner_is_alive",
    "reap_scratch",
    "remove_run",
    "run_is_alive",
    "scratch_root",
    "scratch_roots",
]

REMOVE_SECONDS = 20.0
"""The most seconds that removing the files of a run may take."""
_LOCK = "owner.lock"


def scratch_roots() -> dict[Path, str]:
    """Directories that may hold this user's runs, in order of preference, each with the reason not to trust it.

    The reason is empty if the directory is safe or does not exist yet.
    """
    user = user_id()
    places = [tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR") or ""]
    roots = [Path(place) / f"coworld-{user}" for place in dict.fromkeys(places) if place and Path(place).is_absolute()]
    return {root: _unsafe(root) for root in roots}


def scratch_root() -> Path:
    """Return the directory that contains the directories of this user's runs.

    An existing safe directory is preferred, so the choice does not change once one exists.
    """
    roots = scratch_roots()
    safe = [root for root, why in roots.items() if not why]
    there = [root for root in safe if root.is_dir()]
    return (there or safe or [*roots])[0]


def _unsafe(root: Path) -> str:
    if not plays_here():
        return ""  # No run can have made it
    try:
        # Check the opened descriptor, so that nothing can be swapped in between
        descriptor = _open_root(root)
    except FileNotFoundError:
        return ""
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            return "is not a directory"
        return f"cannot be opened ({error.strerror})"
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if status.st_uid != user_id():
        return "belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "is writable by other users"
    return ""


def _open_root(root: Path) -> int:
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


@dataclass(frozen=True)
class Scratch:
    """The directory of one run, private to its owner (mode 0700). A context manager: removed on leaving."""

    run_id: str
    path: Path
    lock: int
    """Descriptor of its lock file, which stays locked while this is open."""

    def directory(self, name: str, *, shared: bool = False) -> Path:
        """Make a directory for one unit.

        Args:
            name: The unit's name.
            shared: Whether a program under another user id (a container's) must be able to write into it. Other users
                of this machine cannot reach it, because the directory above is private.
        """
        path = self.path / name
        path.mkdir()
        path.chmod(0o777 if shared else 0o700)
        return path

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self, timeout: float = math.inf) -> str:
        """Remove the directory with its content, its lock last. Blocks.

        Args:
            timeout: The most seconds to take; the rest is left and found later as a dead run's.

        Returns:
            Why it still exists; an empty string if it does not.
        """
        try:
            return remove_run(self.path, timeout)
        finally:
            os.close(self.lock)


def remove_run(path: Path, timeout: float = math.inf) -> str:
    """Remove the directory of a run, its lock last; arguments and result are those of `remove_tree`."""
    return remove_tree(path, last=_LOCK, timeout=timeout)


def owner_is_alive(directory: Path) -> bool:
    """Return whether the runner that made a run's directory is still running on this machine; True if unknown.

    Unlike `run_is_alive`, this also covers runs of other users, and runs under another `TMPDIR`.
    """
    return not is_free(directory / _LOCK, unknown=False)


def run_is_alive(run_id: str) -> bool:
    """Return whether the runner of that run is still running on this machine as this user."""
    return any(not is_free(root / run_id / _LOCK) for root, why in scratch_roots().items() if not why)


def make_scratch(run_id: str | None = None) -> Scratch:
    """Make a directory for temporary files and keep it locked, until `Scratch.remove`.

    Args:
        run_id: The run whose directory it is, and its name; None if it is that of no run and gets a name of its own.

    Raises:
        EnvironmentFault: It cannot be made: the disk is full, permission is missing, or the root is unsafe.
    """
    require_posix()
    root, run_id = scratch_root(), run_id or new_run_id()
    path = root / run_id
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        if why := _unsafe(root):
            raise EnvironmentFault(
                f"{root} {why}, so nothing can be kept in it safely.",
                code="scratch_unsafe",
                hint="Remove it, or set TMPDIR or XDG_RUNTIME_DIR to a directory of your own.",
                context={"path": str(root)},
            )
        # Nobody takes a directory that is not locked yet for a dead run's
        with while_opening(root, shared=True):
            path.mkdir(mode=0o700)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            # Only waits for a process that is just checking the lock
            flock(lock, wait=True)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.rmdir()
        raise EnvironmentFault(
            f"The run's directory {path} cannot be made: {error.strerror}.",
            code="scratch_unwritable",
            hint="Free some room, or set TMPDIR to a directory you can write to.",
        ) from error
    return Scratch(run_id, path, lock)


@asynccontextmanager
async def open_scratch(
    run_id: str | None = None, *, on_leak: Callable[[Path, str], None] | None = None
) -> AsyncGenerator[Scratch]:
    """Make a directory for temporary files, keep it locked, and remove it with its content in a worker thread.

    Removing takes at most `REMOVE_SECONDS`, whatever a program has left; `coworld clean` removes the rest.

    Args:
        run_id: As for `make_scratch`.
        on_leak: Called with the path and the reason if it could not be removed.

    Raises:
        EnvironmentFault: See `make_scratch`.
    """
    scratch = make_scratch(run_id)
    try:
        yield scratch
    finally:
        with anyio.CancelScope(shield=True):
            reason = await anyio.to_thread.run_sync(scratch.remove, REMOVE_SECONDS)
            if reason and on_leak is not None:
                on_leak(scratch.path, reason)


def find_scratch(run_id: str | None = None) -> tuple[Found, ...]:
    """This user's run directories on this machine, except below roots that `scratch_roots` does not trust."""
    return tuple(item for root, why in scratch_roots().items() if not why for item in _find_below(root, run_id))


def _find_below(root: Path, run_id: str | None) -> list[Found]:
    try:
        with while_opening(root):
            entries = [entry for entry in sorted(root.iterdir()) if run_id is None or entry.name == run_id]
            alive = {entry: not is_free(entry / _LOCK) for entry in entries}
    except OSError:
        return []
    found: list[Found] = []
    for entry in entries:
        try:
            age = time.time() - entry.lstat().st_mtime
        except OSError:
            continue
        found.append(
            Found(
                kind="directory",
                id=str(entry),
                name=entry.name,
                run_id=entry.name,
                alive=alive[entry],
                age_seconds=age,
            )
        )
    return found


def reap_scratch(found: Sequence[Found], *, force: bool = False) -> tuple[Reaped, ...]:
    """Remove directories of dead runs, and with `force` those of living ones too."""
    reaped: list[Reaped] = []
    for item in found:
        if item.kind != "directory":
            continue
        if item.alive and not force:
            reaped.append(Reaped(found=item, removed=False, reason="its runner is still running"))
            continue
        reason = remove_run(Path(item.id))
        reaped.append(Reaped(found=item, removed=not reason, reason=reason))
    return tuple(reaped)
