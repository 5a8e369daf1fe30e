"""Leaving root, where the runner's files allow it.

Some runners keep config and directory to their own user, so the image starts as root; others open them to everybody.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

READ: Final = ("COGAME_CONFIG_URI", "COGAME_LOAD_REPLAY_URI")
WRITTEN: Final = ("COGAME_RESULTS_URI", "COGAME_SAVE_REPLAY_URI")


def leave_root(environment: Mapping[str, str]) -> bool:
    """Become the user `COWORLD_GAME_USER`, which the image sets, if that user can read and write what is needed.

    Call it before anything is opened. Returns whether the process is that user now.
    """
    user = environment.get("COWORLD_GAME_USER", "")
    # In the older replay mode each request names a file, which may be root's.
    if not user.isdecimal() or os.geteuid() != 0 or environment.get("COGAME_REPLAY_SERVER") == "1":
        return False
    number = int(user)
    try:
        os.setgroups([])
        os.setegid(number)
        os.seteuid(number)
    except PermissionError:
        # Root without the right to become somebody else has no other rights either.
        return False
    able = all(os.access(path, os.R_OK, effective_ids=True) for path in _paths(environment, READ)) and all(
        os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True) for path in _paths(environment, WRITTEN)
    )
    os.seteuid(0)
    os.setegid(0)
    if able:
        os.setgid(number)
        os.setuid(number)
    return able


def _paths(environment: Mapping[str, str], names: tuple[str, ...]) -> list[Path]:
    uris = (urlsplit(environment.get(name, "")) for name in names)
    return [Path(unquote(uri.path)) for uri in uris if uri.scheme in ("", "file") and uri.path]
