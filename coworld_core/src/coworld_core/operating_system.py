"""On which operating systems coworld plays, and what it does without elsewhere."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from .errors import EnvironmentFault
from .hints import Hint

__all__ = ["SYSTEMS", "plays_here", "require_posix", "user_id"]

SYSTEMS = "Linux and macOS"
"""Where episodes are played; `require_posix` says it in words."""


def plays_here() -> bool:
    """Return whether this system has the processes, signals and file locks of POSIX, with which episodes are played.

    Elsewhere manifests are validated, records are read and platforms are used.
    """
    return os.name == "posix" and find_spec("fcntl") is not None


def require_posix() -> None:
    """Refuse what needs processes, signals and file locks of POSIX.

    Raises:
        EnvironmentFault: This system lacks them (code `system_unsupported`).
    """
    if not plays_here():
        raise EnvironmentFault(
            f"coworld plays on {SYSTEMS}. Here it only validates manifests, reads records and uses platforms.",
            code="system_unsupported",
            hint=Hint("install_wsl", "On Windows, install WSL 2, and play there."),
            context={"platform": sys.platform},
        )


def user_id() -> int | None:
    """Return the id of the user of this process; None on systems whose users have none."""
    return os.getuid() if hasattr(os, "getuid") else None
