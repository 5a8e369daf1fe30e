"""Which paths of a game others may ask for: those of its operator are closed wherever strangers may come."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

__all__ = ["is_operator_path", "plain_path", "quoted_path"]

_OPERATOR: Final = ("admin", "client/admin", "clients/admin")
_BELOW_OPERATOR: Final = tuple(f"{path}/" for path in _OPERATOR)


def plain_path(path: str) -> str | None:
    """Normalise a decoded path, so that a game cannot read it differently; None if that is impossible.

    Games may drop empty segments and `.`, treat a backslash as a slash, cut off text after a semicolon, and decode
    again. Check the normalised path, and send it to the game instead of the one that was asked for.

    Returns:
        The path without a slash at either end.
    """
    if any(character in path for character in "\\;%") or not path.isprintable():
        return None
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return None if ".." in parts else "/".join(parts)


def is_operator_path(path: str) -> bool:
    """Whether a normalised path is the operator's, who has no token: the page and socket `admin`, and all below."""
    folded = path.casefold()
    return folded in _OPERATOR or folded.startswith(_BELOW_OPERATOR)


def quoted_path(path: str, *, asked: str) -> str:
    """Encode a normalised path for a request; the slash at the end of the one that was asked for is kept."""
    end = "/" if path and asked.endswith("/") else ""
    return "/" + quote(path, safe="/:@!$&'()*+,=~-._") + end
