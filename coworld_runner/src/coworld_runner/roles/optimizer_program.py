"""Which program improves a player: an optimizer of the manifest, a file with a function, an image, or a command."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.hints import Hint

from ..package.own_players.own_player import PYTHON, OwnPlayer
from ..package.own_players.player_file import only_defines
from ..package.player_names import is_bare, is_player_path
from ..package.resolver import Package
from .role_program import RoleProgram, find_role

__all__ = ["LOCAL_COMMAND", "Optimizer", "find_optimizer"]

LOCAL_COMMAND = "local-command"
"""Stands for an image where there is none: commands of the user run on this machine."""
_OWN_VARIABLES = ("HOME", "USER", "LOGNAME", "SHELL", "TERM", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
"""What a command finds its own settings by; local programs get a directory of their own as home otherwise."""


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """A program that improves players."""

    program: RoleProgram
    local: bool = False
    """Whether it is a command that runs on this machine, wherever the episodes are played."""

    def __str__(self) -> str:
        return self.program.id


def find_optimizer(package: Package, word: str | None = None, *, run: Sequence[str] = ()) -> Optimizer:
    """Find the program that improves a player.

    Args:
        package: The Coworld.
        word: An id of the manifest, a file of Python with a function `optimize`, an image, or a command line, which
            runs in the directory of the player's working copy. None: the only optimizer of the manifest.
        run: The command of an image; empty: its own.

    Raises:
        UsageError: There is none (`role_unknown`), or it cannot be run (`role_not_runnable`).
    """
    declared = package.manifest.section("optimizer")
    if word is None and not declared:
        raise UsageError(
            f"{package.manifest.game.name} declares no optimizer.",
            code="role_unknown",
            hint=Hint("name_optimizer", "Name a file, a command or an image, or declare one in the manifest."),
            context={"role": "optimizer", "ids": []},
        )
    if word is None or any(entry.id == word for entry in declared):
        return Optimizer(program=find_role(package, "optimizer", word))
    words = _tokens(word)
    if len(words) == 1 and not _is_command(words[0]):
        return Optimizer(program=find_role(package, "optimizer", words[0], run=run))
    return Optimizer(program=_command(package, words), local=True)


def _tokens(line: str) -> list[str]:
    if Path(line).is_file():
        return [line]
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{line!r} cannot be read as a command: {error}.", code="role_not_runnable") from None
    if not words:
        raise UsageError("The command that improves the player is empty.", code="role_not_runnable")
    return words


def _is_command(word: str) -> bool:
    """Whether a single word is a command: a program on this machine, or a file that does more than define something."""
    path = Path(word).expanduser()
    if not path.is_file():
        return is_bare(word) and not is_player_path(word) and shutil.which(word) is not None
    return path.suffix != ".py" or only_defines(path, path.read_bytes()) is None


def _command(package: Package, command: Sequence[str]) -> RoleProgram:
    """A command that runs in the player's directory; files that it names are found from the current one."""
    first, *more = command
    if first.endswith(".py") and Path(first).expanduser().is_file():
        first, more = "python", [first, *more]
    elif shutil.which(first) is None:
        raise UsageError(
            f"There is no program {first!r} on this machine.",
            code="role_not_runnable",
            hint="Name a command, a file of Python with a function optimize(task, player), an optimizer of the "
            "manifest, or an image with its tag.",
            context={"program": first},
        )
    placed = [first if os.sep not in first else str(Path(first).expanduser().absolute()), *map(_placed, more)]
    own = OwnPlayer(
        name=Path(command[0]).stem,
        file=Path(command[0]).name,
        path=Path.cwd(),
        files={"command.json": json.dumps(placed).encode()},
        command=(PYTHON, "-m", "coworld_runner.kit.roles", "{}/command.json"),
    )
    runnable = package.manifest.game.runnable.model_copy(
        update={
            "type": "optimizer",
            "image": LOCAL_COMMAND,
            "run": (),
            "env": {name: os.environ[name] for name in _OWN_VARIABLES if name in os.environ},
            "resources": None,
        }
    )
    return RoleProgram(role="optimizer", id=shlex.join(command)[:200], runnable=runnable, own=own)


def _placed(word: str) -> str:
    path = Path(word).expanduser()
    try:
        return str(path.absolute()) if path.is_file() else word
    except (OSError, ValueError):
        return word
