"""Drops root privileges if the runner's files allow it.

Some runners make the game's config and directory accessible only to their own user, so an image has to start as root.
Others make them accessible to every user. The image names the user that the game may switch to in
`COWORLD_GAME_USER`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["USER_VARIABLE", "leave_root"]

USER_VARIABLE = "COWORLD_GAME_USER"
"""The variable with the id of the user and group that the game switches to; only the game's image sets it."""

_READ = ("COGAME_CONFIG_URI", "COGAME_LOAD_REPLAY_URI")
_WRITTEN = ("COGAME_RESULTS_URI", "COGAME_SAVE_REPLAY_URI", "COGAME_EVENTS_URI")


def leave_root(environment: Mapping[str, str]) -> bool:
    """Switch to the user that the image names, if that user can read and write the files that the environment names.

    Call this before opening files and before starting threads.

    Args:
        environment: The program's environment variables.

    Returns:
        Whether the program now runs as that user; otherwise nothing has changed.
    """
    user = environment.get(USER_VARIABLE, "")
    # In the older replay mode, requests name the replays, which may be readable by root only
    if not user.isdecimal() or os.geteuid() != 0 or environment.get("COGAME_REPLAY_SERVER") == "1":
        return False
    number = int(user)
    try:
        os.setgroups([])
        os.setegid(number)
        os.seteuid(number)
    except PermissionError:
        return False  # Root that may not switch users has no other privileges either
    able = _reaches(environment)
    os.seteuid(0)
    os.setegid(0)
    if able:
        os.setgid(number)
        os.setuid(number)
    return able


def _reaches(environment: Mapping[str, str]) -> bool:
    needed = [(path, os.R_OK) for path in _paths(environment, _READ)]
    needed += [(path.parent, os.W_OK | os.X_OK) for path in _paths(environment, _WRITTEN)]
    return all(os.access(path, mode, effective_ids=True) for path, mode in needed)


def _paths(environment: Mapping[str, str], names: tuple[str, ...]) -> list[Path]:
    uris = (urlsplit(environment.get(name, "")) for name in names)
    return [Path(unquote(uri.path)) for uri in uris if uri.scheme in ("", "file") and uri.path]
