"""Tokens, player sessions, and normalised server addresses."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NoReturn
from urllib.parse import urlsplit

from coworld_core.errors import UsageError
from coworld_core.text.urls import authority

__all__ = ["DEFAULT_SERVER", "PlayerSession", "Token", "is_player_id", "normalise_server"]

DEFAULT_SERVER = "https://softmax.com/api"
"""The server used when none is given."""

_PLAYER = "ply_"


class Token:
    """An access token. Printing or formatting it does not show the secret; `reveal` returns it.

    Args:
        value: The token: printable ASCII without white space. Surrounding white space is removed.

    Raises:
        UsageError: The value is malformed (`bad_token`). The message does not repeat it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        value = value.strip()
        if not value or len(value) > 16_384 or not re.fullmatch(r"[\x21-\x7e]+", value):
            raise UsageError(
                "The token is empty." if not value else "This cannot be a token.",
                code="bad_token",
                hint="A token is one word of letters, digits and signs, without spaces or line ends.",
            )
        self._value = value

    def reveal(self) -> str:
        """The secret itself. Use it only to authenticate or to store it; never show or log it."""
        return self._value

    @property
    def is_player(self) -> bool:
        """Whether it belongs to a player's session rather than to a user."""
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
    """A session for acting as one of your players for a limited time."""

    player_id: str
    """`ply_<uuid>`."""
    token: Token
    """The session's token."""
    expires_at: datetime
    """When the session ends; timezone-aware."""

    def good_for(self, now: datetime | None = None) -> timedelta:
        """The time left; negative once the session has ended."""
        return self.expires_at - (now or datetime.now(UTC))


def normalise_server(address: str) -> str:
    """Normalise a server's address: lower-case scheme and host, no default port, no trailing slash.

    Args:
        address: `http(s)://host[:port][/path]`; a path such as `/api` is part of the address.

    Raises:
        UsageError: The address is malformed, or contains a user, a query or a fragment (`bad_server`).
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
    place = authority(host, port if port != {"http": 80, "https": 443}[scheme] else None)
    return f"{scheme}://{place}{parts.path.rstrip('/')}"


def _bad_server(text: str, why: str) -> UsageError:
    named = f"{text[:200]!r}" if text else "What was given"
    hint = f"Write {DEFAULT_SERVER}, or http://127.0.0.1:8787 for one on this machine."
    return UsageError(f"{named} is not the address of a server: {why}.", code="bad_server", hint=hint)


def is_player_id(text: str) -> bool:
    """Whether a string is a player's id, such as `ply_1f0c…`."""
    return re.fullmatch(r"(?:ply|player)_[A-Za-z0-9-]{1,100}", text) is not None
