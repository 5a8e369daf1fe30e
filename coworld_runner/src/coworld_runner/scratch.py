"""The run's own directory: labelled before anything is in it, locked while its runner lives.

Every run has one directory below ``<temporary files>/coworld-<uid>/``. Its name is the run id; it holds what units
exchange with the runner, and a lock file that the runner keeps locked. The lock is how anyone tells a living run
from a dead one: the kernel drops it with the process, even after SIGKILL, so there is no pid to be mistaken about.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coworld_core.errors import EnvironmentFault

from .backend import Found, Reaped

__all__ = [
    "Scratch",
    "find_scratch",
    "open_scratch",
    "owner_is_alive",
    "reap_scratch",
    "run_is_alive",
    "scratch_root",
]

_LOCK = "owner.lock"


def scratch_root() -> Path:
    """The directory below which this user's runs keep theirs."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"coworld-{user}"


@dataclass(frozen=True)
class Scratch:
    """The directory of one run. Only its owner may look into it (mode 0700)."""

    run_id: str
    path: Path

    def directory(self, name: str, *, shared: bool = False) -> Path:
        """Make a directory for one unit.

        Args:
            name: The unit's name.
            shared: Whether a program under another user id (a container's) must be able to write into it. Nobody
                else on this machine can reach it, since the directory above is closed.
        """
        path = self.path / name
        path.mkdir()
        path.chmod(0o777 if shared else 0o700)
        return path


def _is_locked(descriptor: int) -> bool:
    import fcntl

    try:
        # shared, so that two who look at the same time do not take each other for the owner
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


@contextmanager
def _guard(root: Path, *, alone: bool) -> Generator[None]:
    """Keep a directory that was just made, and is not locked yet, from being taken for a dead run's."""
    import fcntl

    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def owner_is_alive(directory: Path) -> bool:
    """Whether the runner that made a run's directory still runs on this machine; True when that cannot be told.

    Unlike ``run_is_alive`` it knows runs of other users, and of the same one under another ``TMPDIR``.
    """
    try:
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    try:
        return _is_locked(descriptor)
    finally:
        os.close(descriptor)


def run_is_alive(run_id: str) -> bool:
    """Whether the runner of that run still runs on this machine, as this user."""
    try:
        descriptor = os.open(scratch_root() / run_id / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return _is_locked(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_scratch(run_id: str, *, on_leak: Callable[[Path, str], None] | None = None) -> Generator[Scratch]:
    """Make the run's directory, keep it locked, and remove it with all it holds.

    Args:
        run_id: The run's label.
        on_leak: Told the path and the reason when it could not be removed.

    Raises:
        EnvironmentFault: It cannot be made: no room, no permission, or the root belongs to someone else.
    """
    import fcntl

    root = scratch_root()
    path = root / run_id
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        owner = root.lstat()
        if not stat.S_ISDIR(owner.st_mode) or (hasattr(os, "getuid") and owner.st_uid != os.getuid()):
            raise EnvironmentFault(
                f"{root} is not a directory of yours, so nothing can be kept in it safely.",
                code="scratch_unsafe",
                hint="Remove it, or set TMPDIR to a directory of your own.",
            )
        with _guard(root, alone=False):
            path.mkdir(mode=0o700)
            descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            # waits for nobody but one who is just looking
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.rmdir()
        raise EnvironmentFault(
            f"The run's directory {path} cannot be made: {error.strerror}.",
            code="scratch_unwritable",
            hint="Free some room, or set TMPDIR to a directory you can write to.",
        ) from error
    try:
        yield Scratch(run_id, path)
    finally:
        try:
            reason = remove_tree(path)
        finally:
            os.close(descriptor)
        if reason and on_leak is not None:
            on_leak(path, reason)


def remove_tree(path: Path) -> str:
    """Remove a directory with all it holds, its lock file last; returns why it is still there, or an empty string."""
    reasons: list[str] = []

    def note(_function: object, name: str, error: BaseException) -> None:
        # a program may have taken our right to write away from a directory of ours
        parent = Path(name).parent
        with contextlib.suppress(OSError):
            parent.chmod(0o700)
            target = Path(name)
            if target.is_dir() and not target.is_symlink():
                target.chmod(0o700)
                shutil.rmtree(target, ignore_errors=True)
            else:
                target.unlink()
            if not os.path.lexists(name):
                return
        reasons.append(f"{name}: {getattr(error, 'strerror', None) or error}")

    try:
        entries = list(path.iterdir())
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path}: {error.strerror}"
    for entry in entries:
        if entry.name == _LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            _rmtree(entry, note)
        else:
            try:
                entry.unlink()
            except OSError as error:
                reasons.append(f"{entry}: {error.strerror}")
    if reasons:
        return reasons[0]
    _rmtree(path, note)
    return reasons[0] if reasons else ""


def _rmtree(path: Path, note: Callable[[object, str, BaseException], None]) -> None:
    # ``onexc`` came with 3.12 and replaced ``onerror``, which warns there
    import sys

    if sys.version_info >= (3, 12):
        shutil.rmtree(path, onexc=note)
    else:
        shutil.rmtree(path, onerror=lambda function, name, info: note(function, name, info[1]))


def find_scratch(run_id: str | None = None) -> tuple[Found, ...]:
    """Directories of runs on this machine, of this user."""
    root = scratch_root()
    try:
        with _guard(root, alone=True):
            entries = [entry for entry in sorted(root.iterdir()) if run_id is None or entry.name == run_id]
            alive = {entry: run_is_alive(entry.name) for entry in entries}
    except OSError:
        return ()
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
    return tuple(found)


def reap_scratch(found: Sequence[Found], *, force: bool = False) -> tuple[Reaped, ...]:
    """Remove directories of dead runs (of living ones too with ``force``)."""
    reaped: list[Reaped] = []
    for item in found:
        if item.kind != "directory":
            continue
        if item.alive and not force:
            reaped.append(Reaped(found=item, removed=False, reason="its runner is still running"))
            continue
        reason = remove_tree(Path(item.id))
        reaped.append(Reaped(found=item, removed=not reason, reason=reason))
    return tuple(reaped)
