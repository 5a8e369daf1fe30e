"""Finds a player that a program's file defines, and that nothing runs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from coworld_core.rules.player_source import module_contents, player_form

from .own_player import OwnPlayer

__all__ = ["unrun_player"]

_MOST_BYTES = 1 << 20


def unrun_player(own: OwnPlayer | None, command: Sequence[str], context: Path | None) -> str | None:
    """Return what to do about a program that only defines a player; None if its file is not found or does more.

    Args:
        own: The user's own player, if it is one; its command is then its own.
        command: The command of another player.
        context: The directory on this machine that its image is built from, if it is known.
    """
    for word in own.command if own is not None else command:
        name = PurePosixPath(word).name
        if not name.endswith(".py"):
            continue
        try:
            content = own.files.get(name) if own is not None else context and (context / word).read_bytes()
            found = _only_player(content) if content and len(content) <= _MOST_BYTES else ""
        except (OSError, SyntaxError, ValueError, RecursionError):
            return None
        return (
            f"{name} defines {found}, but is run as a program, and nothing in it runs {found}. Run it with "
            f"python -m coworld_client.seat {name}, or name the file itself as the player."
            if found
            else None
        )
    return None


def _only_player(content: bytes) -> str:
    """Return the name of the player that a module defines; empty if there is none, or the module does more."""
    names, works = module_contents(ast.parse(content))
    return "" if works else player_form(names)
