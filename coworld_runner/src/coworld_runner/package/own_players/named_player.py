"""Reads the player that the user named."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.rules.player_directories import checkpoint_of
from coworld_core.text.phrases import closest

from .llm_player import LLM, read_llm
from .own_player import OwnPlayer
from .player_file import read_file
from .recorded_player import RECORDING, read_recording

__all__ = ["near_file", "no_such_player", "read_own_player"]


def read_own_player(word: str) -> OwnPlayer:
    """Read the player that the user named.

    Args:
        word: A path relative to the current directory (`~` is expanded), the training run `RUN` or its checkpoint
            `RUN@NAME`, `llm:…` or `recording:…`.

    Raises:
        UsageError: There is no such player, or it cannot be read or run; the message says why.
    """
    if word.startswith(LLM):
        return read_llm(word, os.environ)
    if word.startswith(RECORDING):
        return read_recording(word)
    path, name = Path(word).expanduser(), ""
    try:
        if checkpoint := checkpoint_of(str(path)):
            path, name = checkpoint.path, checkpoint.name
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise no_such_player(word, path) from None
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        if stat.S_ISDIR(status.st_mode):
            from .player_directory import read_directory

            return read_directory(path.absolute(), name=name)
        if stat.S_ISREG(status.st_mode):
            return read_file(path.absolute(), status)
    except OSError as error:
        raise _unreadable(path, error) from error
    raise UsageError(
        f"{path} is neither a file nor a directory, so it is not a player.",
        code="player_not_runnable",
        hint="Name a .py file, an executable, or a directory with a Dockerfile or a pyproject.toml.",
    )


def no_such_player(word: str, path: Path) -> UsageError:
    """The error for a word that names no file; it suggests one beside it."""
    near = near_file(path)
    return UsageError(
        f"There is no player at {word}: {path.absolute()} does not exist.",
        code="player_not_found",
        hint=f"Did you mean {word.removesuffix(path.name)}{near}?"
        if near
        else Hint("find_or_begin_player", "Paths are relative to the current directory."),
        context={"path": str(path.absolute())},
    )


def near_file(path: Path) -> str | None:
    """Return the name of the player, beside a missing path, that was probably meant; suffixes are ignored."""
    beside: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for entry in sorted(path.parent.iterdir())[:2000]:
            # A directory has names of every kind, and few mistype the first letter
            alike = entry.name[:1].casefold() == path.name[:1].casefold()
            if alike and (entry.is_dir() or entry.suffix == ".py" or os.access(entry, os.X_OK)):
                beside.setdefault(entry.stem, entry.name)
    near = closest(path.stem, beside)
    return beside[near] if near else None


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"The player {path} cannot be read: {error.strerror}.",
        code="player_unreadable",
        hint="Check that you may read it.",
        context={"path": str(path.absolute())},
    )
