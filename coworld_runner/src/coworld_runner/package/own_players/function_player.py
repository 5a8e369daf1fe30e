"""A player that is a function or a class in a Python file: the file is run, and plays with what has that name in it."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from typing import Any

from coworld_core.errors import UsageError
from coworld_core.files.lfs_pointers import read_whole

from .own_player import OwnPlayer
from .player_file import SEAT, with_imports

__all__ = ["read_function"]


def read_function(player: Any) -> OwnPlayer:
    """Read a player that was given as a function or a class, in any of the forms of `load_player`.

    Raises:
        UsageError: Another process cannot find it by a name in a file; the message says why.
    """
    if not (inspect.isfunction(player) or inspect.isclass(player)):
        raise _unseated(f"An object of type {type(player).__name__}", "only functions and classes have names in a file")
    name, outer = player.__name__, player.__qualname__.rpartition(".")[0]
    shown = f"The {'class' if inspect.isclass(player) else 'function'} {name}"
    if name == "<lambda>":
        raise _unseated("A lambda", "it has no name")
    if outer:
        raise _unseated(shown, f"it is defined inside {outer.removesuffix('.<locals>')}")
    if inspect.isclass(player) and not callable(getattr(player, "act", None)):
        raise _unseated(shown, "it has no method act")
    module = sys.modules.get(player.__module__)
    path = Path(getattr(module, "__file__", None) or "").absolute()
    if path.suffix != ".py" or getattr(module, name, None) is not player:
        raise _unseated(shown, "no Python file has it under this name")
    try:
        content = read_whole(path)
    except OSError as error:
        raise _unseated(shown, f"{path} cannot be read: {error.strerror}") from error
    if player.__module__ == "__main__" and not _is_guarded(content):
        raise _unseated(shown, f'the rest of {path.name} would run again, as it is not below if __name__ == "__main__"')
    return OwnPlayer(
        name=name,
        file=f"{path.name}:{name}",
        path=path,
        files=with_imports(path, content),
        command=(*SEAT, f"{{}}/{path.name}:{name}"),
        needs_client=True,
    )


def _is_guarded(content: bytes) -> bool:
    """Whether a script has a part that runs only if it is the program."""
    tests = [ast.dump(statement.test) for statement in ast.parse(content).body if isinstance(statement, ast.If)]
    return any("__name__" in test and "__main__" in test for test in tests)


def _unseated(shown: str, why: str) -> UsageError:
    return UsageError(
        f"{shown} cannot play an episode: {why}.",
        code="player_not_in_file",
        hint="Each player of an episode is a program of its own. Define it at the top level of a file and import it "
        "from there, or name the file, such as './bot.py'. `rollout` plays any function.",
    )
