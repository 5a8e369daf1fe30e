"""Removing a program's files, whatever their depth, path length, number and permissions.

All operations are relative to an open directory, and no link is ever followed. A directory that is not empty is first
moved to the top of the tree, so that neither its depth nor its path length matters, and two descriptors suffice.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from coworld_core.text.terminal import strip_controls

__all__ = ["remove_tree"]

_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_ITSELF = getattr(os, "O_PATH", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_CLOSED = (errno.EACCES, errno.EPERM)
_FULL = (errno.ENOTEMPTY, errno.EEXIST)


def remove_tree(path: Path, *, last: str = "", timeout: float = math.inf) -> str:
    """Remove a directory and its contents. Blocks: run it in a worker thread.

    If something cannot be removed, everything else is, except the directories above it.

    Args:
        path: The directory; a link or a file in its place is removed itself.
        last: Name of an entry that is removed after everything else.
        timeout: Seconds it may take; whatever is left by then stays.

    Returns:
        Why the directory, or something in it, is still there; an empty string if everything is removed.
    """
    try:
        top = _open(str(path), None)
    except FileNotFoundError:
        return ""
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            return _describe_error(path, error)
        try:
            path.unlink(missing_ok=True)
        except OSError as failed:
            return _describe_error(path, failed)
        return ""
    try:
        reason = _Remover(top, timeout, spare=last).run()
        if reason:
            return f"{path}/{reason}"
        if last:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(last, dir_fd=top)
        path.rmdir()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return _describe_error(path, error)
    finally:
        os.close(top)
    return ""


class _Late(Exception):
    """Time is up."""


class _Remover:
    """Empties one directory.

    Args:
        top: A descriptor of the directory.
        timeout: Seconds it may take.
        spare: Name of an entry to leave alone.
    """

    def __init__(self, top: int, timeout: float, *, spare: str) -> None:
        self._top = top
        self._timeout = timeout
        self._until = time.monotonic() + timeout
        self._spare = spare
        self._prefix = f".removed-{secrets.token_hex(8)}-"
        """Random, so that no existing name can begin with it."""
        self._lifted = 0
        self._left: list[str] = []
        """Directories at the top, yet to be emptied."""
        self._reason = ""

    def run(self) -> str:
        """Empty the directory; returns the first reason why something could not be removed, or an empty string."""
        try:
            self._empty(self._top, ".", self._left.append)
            while self._left:
                name = self._left.pop()
                if self._attempt(name, self._top, lambda name=name: self._empty_below(name)):
                    self._attempt(name, self._top, lambda name=name: os.rmdir(name, dir_fd=self._top))
        except _Late:
            self._reason = self._reason or f"…: not all of it could be removed within {self._timeout:g} s"
        return self._reason

    def _empty_below(self, name: str) -> None:
        directory = _open(name, self._top)
        try:
            self._empty(directory, name, lambda below: self._remove_or_lift(below, directory))
        finally:
            os.close(directory)

    def _empty(self, directory: int, shown: str, on_directory: Callable[[str], None]) -> None:
        """Remove the files of a directory, and call `on_directory` for each directory in it."""
        # List everything first: removing entries during the listing could hide later ones
        names: list[tuple[str, bool]] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                self._check_time()
                names.append((entry.name, entry.is_dir(follow_symlinks=False)))
        for name, is_directory in names:
            self._check_time()
            if is_directory:
                self._attempt(name, directory, lambda name=name: on_directory(name), shown)
            elif directory != self._top or name != self._spare:
                self._attempt(name, directory, lambda name=name: os.unlink(name, dir_fd=directory), shown)

    def _check_time(self) -> None:
        if time.monotonic() > self._until:
            raise _Late

    def _remove_or_lift(self, name: str, parent: int) -> None:
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError as error:
            if error.errno not in _FULL:
                raise
        else:
            return
        self._lifted += 1
        lifted = f"{self._prefix}{self._lifted}"
        try:
            os.rename(name, lifted, src_dir_fd=parent, dst_dir_fd=self._top)
        except OSError as error:
            if error.errno not in _CLOSED:
                raise
            # Moving a directory requires write permission on it, too
            _unlock(name, parent)
            os.rename(name, lifted, src_dir_fd=parent, dst_dir_fd=self._top)
        self._left.append(lifted)

    def _attempt(self, name: str, parent: int, act: Callable[[], None], shown: str = ".") -> bool:
        """Call `act`, and once more after restoring permissions that a program removed; keep the first error."""
        for again in (True, False):
            try:
                act()
            except FileNotFoundError:
                return False
            except OSError as error:
                if again and error.errno in _CLOSED:
                    with contextlib.suppress(OSError):
                        os.fchmod(parent, 0o700)
                    with contextlib.suppress(OSError):
                        _unlock(name, parent)
                    continue
                self._reason = self._reason or _describe_error(name if shown == "." else f"{shown}/{name}", error)
                return False
            return True
        return False


def _open(name: str, parent: int | None) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        if error.errno not in _CLOSED:
            raise
        _unlock(name, parent)
        return os.open(name, _DIRECTORY, dir_fd=parent)


def _unlock(name: str, parent: int | None) -> None:
    """Give ourselves all permissions on a directory, and never on the target of a link."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
        return
    itself = os.open(name, _ITSELF | getattr(os, "O_DIRECTORY", 0), dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{itself}", 0o700)  # noqa: PTH101 - the open file, not one that has its name now
    finally:
        os.close(itself)


def _describe_error(name: object, error: OSError) -> str:
    # A name may contain any bytes, but is shown in terminals and in JSON
    shown = " ".join(strip_controls(os.fsencode(str(name)).decode("utf-8", "replace")).split())
    return f"{shown}: {error.strerror or error}"
