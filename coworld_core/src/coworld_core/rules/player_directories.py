"""Finds what plays in a directory: its one file that plays, or the newest checkpoint of a training run.

A training run is a directory of checkpoints, each of which is a directory that plays, with its weights beside its
file: `run/step-500/main.py` or `run/checkpoints/500/main.py`. The newest is the one with the greatest number in its
name, or the one that the file or link `latest` names. `RUN@NAME` is the checkpoint of that name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import UsageError
from ..text.phrases import closest, listed
from .player_source import FORMS, module_contents, player_form

__all__ = [
    "RunCheckpoint",
    "checkpoint_numbered",
    "checkpoint_of",
    "defines_player",
    "names_checkpoint",
    "player_entry",
]

ENTRIES: Final = ("main.py", "bot.py", "player.py")
"""Names by which the file of a directory's player is known."""
LATEST: Final = "latest"
"""The name of the newest checkpoint of every run."""

_RECIPES = ("Dockerfile", "pyproject.toml")
_FOLDER = "checkpoints"
_NUMBER = re.compile(r"\d+(?=\D*$)")
_MOST_NAME = 200
"""Bytes of a file that names a checkpoint, at most."""


def player_entry(directory: Path) -> Path:
    """Return the file of a directory that is its player; what lies beside it belongs to the player, too.

    It is the only one of `main.py`, `bot.py` and `player.py`, or else the only file that defines a player in any of
    the forms.

    Raises:
        UsageError: There is none, or more than one.
    """
    found = _entries(directory)
    if len(found) == 1:
        return found[0]
    if not found:
        inside = [name for name, path in _directories(directory).items() if _plays(path)]
        raise UsageError(
            f"{directory} has no file that is its player: none is called {listed(ENTRIES, word='or')}, and none "
            f"defines {listed(FORMS, word='or')}.",
            code="player_not_runnable",
            hint=f"Name a directory in it that has one: {listed(inside, limit=4, word='or')}."
            if inside
            else "Give one of its files that name, or name a directory with a Dockerfile or a pyproject.toml.",
        )
    names = listed((f"{directory.name}/{file.name}" for file in found), limit=4, word="or")
    raise UsageError(
        f"{directory} has {len(found)} files that could be its player.",
        code="player_not_runnable",
        hint=f"Name the file: {names}.",
    )


@dataclass(frozen=True, kw_only=True)
class RunCheckpoint:
    """A checkpoint of a training run.

    Attributes:
        path: Its directory.
        name: Its name and that of its run: `run@step-500`.
    """

    path: Path
    name: str


def checkpoint_of(word: str) -> RunCheckpoint | None:
    """Return the checkpoint that a player's name stands for; None if the name is not that of a training run.

    Args:
        word: The directory of a run, which stands for its newest checkpoint, or `RUN@NAME`. A directory that plays
            itself is no run.

    Raises:
        UsageError: The run has no such checkpoint, or that is incomplete.
    """
    place = Path(word)
    if place.is_dir():
        if any((place / name).is_file() for name in _RECIPES) or _entries(place):
            return None
        run = _Run(place)
        return run.newest() if run.alias(LATEST) or run.numbered() else None
    if not names_checkpoint(word):
        return None
    before, _, name = word.rpartition("@")
    return _Run(Path(before)).named(name)


def names_checkpoint(word: str) -> bool:
    """Whether a player's name has the form `RUN@NAME`, where RUN is a directory. It may have no such checkpoint."""
    before, _, name = word.rpartition("@")
    # What has a colon is the digest of an image
    return bool(before and name) and ":" not in name and Path(before).is_dir() and not Path(word).exists()


def checkpoint_numbered(word: str, number: int) -> Path | None:
    """Return the checkpoint of a run whose whole name is a number; None if there is none, or the word names no run."""
    if not Path(word).is_dir() or checkpoint_of(word) is None:
        return None
    return _Run(Path(word)).numbered_as(number)


class _Run:
    """The checkpoints in a directory."""

    def __init__(self, directory: Path) -> None:
        self._place = directory
        self._home = directory / _FOLDER if (directory / _FOLDER).is_dir() else directory
        self._found = _directories(self._home)
        self._playing = {name: path for name, path in self._found.items() if _plays(path)}

    def named(self, name: str) -> RunCheckpoint:
        return self.newest() if name == LATEST else self._one(self.alias(name) or name, named_by=name)

    def newest(self) -> RunCheckpoint:
        meant = self.alias(LATEST) or (LATEST if LATEST in self._found else "")
        if meant:
            return self._one(meant, named_by=LATEST)
        numbered = self.numbered()
        if not numbered:
            raise self._missing(
                f"{self._place} has no checkpoint with a number in its name, and nothing named {LATEST!r}"
            )
        # A directory of the same series that is newer has been begun, or what should play in it was forgotten
        begun = [name for name in self._found if _series(name) == _series(numbered[0])]
        return self._one(max(begun, key=_order))

    def numbered(self) -> list[str]:
        """The checkpoints with a number, newest first; none if they are not of one series."""
        names = [name for name in self._playing if _NUMBER.search(name)]
        alike = len({_series(name) for name in names}) == 1
        return sorted(names, key=_order, reverse=True) if alike else []

    def numbered_as(self, number: int) -> Path | None:
        return next((path for name, path in self._playing.items() if name.isdecimal() and int(name) == number), None)

    def alias(self, name: str) -> str:
        """The name of the checkpoint that a file or a link of the run names; empty if there is none."""
        if not name or "/" in name or name in (".", ".."):
            return ""
        for place in dict.fromkeys((self._place, self._home)):
            file = place / name
            if file.is_dir() and file.is_symlink():
                return file.resolve().name
            if file.is_file() and not file.suffix and file.stat().st_size <= _MOST_NAME:
                return file.read_text("utf-8", "replace").strip().rpartition("/")[2]
        return ""

    def _one(self, name: str, *, named_by: str = "") -> RunCheckpoint:
        if name in self._playing:
            return RunCheckpoint(path=self._playing[name], name=f"{self._place.resolve().name}@{name}")
        said = f"{self._place}/{named_by} names {name!r}, but " if named_by not in ("", name) else ""
        if name in self._found:
            raise self._missing(
                f"{said}{self._found[name]} has no file that plays, as if it had not been written whole"
            )
        raise self._missing(f"{said}{self._place} has no checkpoint {name!r}", near=name)

    def _missing(self, problem: str, *, near: str = "") -> UsageError:
        names = sorted(self._playing, key=_order, reverse=True)
        meant = closest(near, [*names, LATEST]) if near and names else None
        known = f"It has {listed(names, limit=6)}." if names else "A checkpoint is a directory with a file that plays."
        return UsageError(
            f"{problem}.",
            code="no_checkpoint",
            hint=f"Did you mean {self._place}@{meant}? {known}" if meant else known,
            context={"run": str(self._place), "checkpoints": names[:100]},
        )


def _entries(directory: Path) -> list[Path]:
    """The files of a directory that could be its player."""
    files = sorted(entry for entry in directory.iterdir() if entry.suffix == ".py" and entry.is_file())
    return [file for file in files if file.name in ENTRIES] or [file for file in files if defines_player(file)]


def defines_player(file: Path) -> bool:
    """Whether a file of Python defines a player in one of the forms; it is not run."""
    try:
        names, _ = module_contents(ast.parse(file.read_bytes()))
    except (SyntaxError, ValueError, RecursionError):
        return False
    # One that is only imported has a file of its own
    defined = {name: by for name, by in names.items() if not isinstance(by, ast.ImportFrom)}
    return bool(player_form(defined))


def _directories(place: Path) -> Mapping[str, Path]:
    """The directories in a directory by name; those that begin with a dot may be half written."""
    return {entry.name: entry for entry in sorted(place.iterdir()) if entry.is_dir() and not entry.name.startswith(".")}


def _plays(directory: Path) -> bool:
    return any((directory / name).is_file() for name in _RECIPES) or bool(_entries(directory))


def _series(name: str) -> str:
    return _NUMBER.sub("#", name)


def _order(name: str) -> tuple[int, str]:
    number = _NUMBER.search(name)
    return (int(number[0]) if number else -1, name)
