"""Leaving root, where the runner's files allow it.

Some runners keep the game's config and directory to their own user, so an image has to start as root. Others open them
to everybody. The image says with ``COWORLD_GAME_USER`` as which user the game can go on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["USER_VARIABLE", "leave_root"]

USER_VARIABLE = "COWORLD_GAME_USER"
"""The id of a user and group that the game becomes; nothing else of an image sets it."""

_READ = ("COGAME_CONFIG_URI", "COGAME_LOAD_REPLAY_URI")
_WRITTEN = ("COGAME_RESULTS_URI", "COGAME_SAVE_REPLAY_URI", "COGAME_EVENTS_URI")


def leave_root(environment: Mapping[str, str]) -> bool:
    """Become the user that the image names, if that user can read and write the files that the environment names.

    To be called before anything is opened and before there are threads.

    Args:
        environment: The program's variables.

    Returns:
        Whether the program is that user now; otherwise it goes on as it was.
    """
    user = environment.get(USER_VARIABLE, "")
    # an older way of showing replays names each in a request, and they may be root's
    if not user.isdecimal() or os.geteuid() != 0 or environment.get("COGAME_REPLAY_SERVER") == "1":
        return False
    number = int(user)
    try:
        os.setgroups([])
        os.setegid(number)
        os.seteuid(number)
    except PermissionError:
        return False  # root without the right to become somebody else has no other rights either
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
