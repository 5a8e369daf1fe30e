"""Finds modules that a player imports and that neither its files nor the Python that runs coworld have."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import PurePosixPath

from .own_player import OwnPlayer
from .player_file import imported_names

__all__ = ["missing_imports"]


def missing_imports(player: OwnPlayer) -> dict[str, str]:
    """Return the modules that a player of Python cannot import here, each with the file that imports it.

    Only files that the player's first file leads to count. A module whose import is in a `try` is not missed.

    Args:
        player: The player; one with a Dockerfile brings what it installs, and is not looked at.
    """
    missing: dict[str, str] = {}
    waiting = _begin(player)
    seen = set(waiting)
    while waiting:
        file = waiting.pop()
        try:
            tree = ast.parse(player.files[file])
        except (SyntaxError, ValueError):
            continue  # The player reports it itself when it runs
        for name in sorted(imported_names(tree, optional=False)):
            own = _own_files(player, name)
            waiting += [found for found in own if found not in seen]
            seen.update(own)
            if not own and not _is_installed(name):
                missing.setdefault(name, file)
    return missing


def _begin(player: OwnPlayer) -> list[str]:
    """The files of Python that the player's command names; all of them if it names none."""
    if player.dockerfile:
        return []
    python = [name for name in player.files if name.endswith(".py")]
    named = {PurePosixPath(word).name for word in player.command}
    return [name for name in python if name in named] or python


def _own_files(player: OwnPlayer, module: str) -> list[str]:
    places = (f"{module}.py", f"{module}/", f"src/{module}.py", f"src/{module}/")
    return [name for name in player.files if name.endswith(".py") and name.startswith(places)]


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
