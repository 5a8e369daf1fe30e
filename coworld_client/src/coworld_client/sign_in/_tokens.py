"""A token, a player's session, and the one spelling of a server's address."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NoReturn
from urllib.parse import urlsplit

from coworld_core.errors import UsageError

__all__ = ["DEFAULT_SERVER", "PlayerSession", "Token", "is_player_id", "normalise_server"]

DEFAULT_SERVER = "https://softmax.com/api"
"""The server that is meant when none is named."""

_PLAYER = "ply_"


class Token:
    """A secret that says who you are. It shows itself to nobody who does not ask by name.

    Args:
        value: The token: printable ASCII without white space; white space around it is dropped.

    Raises:
        UsageError: Code ``bad_token``, when it cannot be one. The message does not repeat it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        value = value.strip()
        if not value or len(value) > 16_384 or not re.fullmatch(r"[\x21-\x7e]+", value):
            raise UsageError(
                "The token is empty." if not value else "What was given as a token cannot be one.",
                code="bad_token",
                hint="A token is one word of letters, digits and signs, without spaces or line ends.",
            )
        self._value = value

    def reveal(self) -> str:
        """The token itself: for an ``Authorization`` header, and for nothing that is shown or logged."""
        return self._value

    @property
    def is_player(self) -> bool:
        """Whether it is a player's session rather than a user's token."""
        return self._value.startswith(_PLAYER)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and hmac.compare_digest(self._value, other._value)

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"<Token of a {'player' if self.is_player else 'user'}>"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a token is not pickled: it would lie in whatever the pickle goes into")


@dataclass(frozen=True, kw_only=True)
class PlayerSession:
    """What lets you act as one of your players, for a while."""

    player_id: str
    """``ply_<uuid>``."""
    token: Token
    """The session's own token."""
    expires_at: datetime
    """When it ends; aware of its time zone."""

    def good_for(self, now: datetime | None = None) -> timedelta:
        """How long it lasts from now; negative when it has ended."""
        return self.expires_at - (now or datetime.now(UTC))


def normalise_server(address: str) -> str:
    """One spelling for a server's address: scheme and host in lower case, no default port, no slash at the end.

    Args:
        address: ``http(s)://host[:port][/path]``; a path such as ``/api`` is part of the address.

    Raises:
        UsageError: Code ``bad_server``, when it is no such address, or has a user, a query or a fragment in it.
    """
    text = address.strip()
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _bad_server(text, str(error)) from None
    scheme = parts.scheme.lower()
    host = (parts.hostname or "").rstrip(".")
    if scheme not in ("http", "https"):
        raise _bad_server(text, "it does not begin with https:// or http://")
    if not host or re.search(r"[\s\x00-\x20\\%]", host):
        raise _bad_server(text, "it names no host")
    if parts.username is not None or parts.password is not None:
        raise _bad_server("", "it has a user or a password in it; sign in instead")
    if parts.query or parts.fragment:
        raise _bad_server(text.split("?")[0].split("#")[0], "it has a query or a fragment")
    if re.search(r"[\s\x00-\x20\\]", parts.path):
        raise _bad_server(text, "its path contains white space or a backslash")
    shown = f"[{host}]" if ":" in host else host
    if port is not None and port != {"http": 80, "https": 443}[scheme]:
        shown += f":{port}"
    return f"{scheme}://{shown}{parts.path.rstrip('/')}"


def _bad_server(text: str, why: str) -> UsageError:
    named = f"{text[:200]!r}" if text else "What was given"
    hint = f"Write {DEFAULT_SERVER}, or http://127.0.0.1:8787 for one on this machine."
    return UsageError(f"{named} is not the address of a server: {why}.", code="bad_server", hint=hint)


def is_player_id(text: str) -> bool:
    """Whether a text is the id of a player, such as ``ply_1f0c…``."""
    return re.fullmatch(r"(?:ply|player)_[A-Za-z0-9-]{1,100}", text) is not None
