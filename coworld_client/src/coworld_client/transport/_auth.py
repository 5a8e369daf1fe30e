"""The identity that a client sends, and the origin it is sent to."""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import httpx2

from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.loopback import is_loopback

from ..errors import ApiError
from ..sign_in.credentials import Token

__all__ = ["Identity", "Origin", "check_elsewhere", "checked_headers", "is_inside", "mint_key", "origin_of"]

Origin = tuple[str, str, int]
"""Scheme, host and port."""

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[!-~]([ \t!-~]*[!-~])?")
_OWN = frozenset(
    (
        *("accept", "authorization", "connection", "content-length", "content-type", "cookie", "host"),
        *(
            "idempotency-key",
            "range",
            "te",
            "transfer-encoding",
            "upgrade",
            "user-agent",
            "x-team",
            "x-use-elevated-privileges",
        ),
    )
)
_SECRET_LENGTH = 8

_PORTS = {"http": 80, "https": 443}


def origin_of(url: httpx2.URL) -> Origin:
    """The origin of a URL, with the default port filled in."""
    return url.scheme, url.host.lower().rstrip("."), url.port or _PORTS.get(url.scheme, 0)


def mint_key() -> str:
    """A fresh idempotency key, for one call and its retries: 16 random bytes."""
    return secrets.token_hex(16)


def checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Check headers that a user adds to each request.

    Raises:
        UsageError: One is no header, or one that the client sets itself (`bad_header`).
    """
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not _VALUE.fullmatch(value):
            # Without the value, which may be a secret
            raise UsageError(f"{name!r} is not a header, or its value is none.", code="bad_header")
        if name.lower() in _OWN:
            raise UsageError(
                f"The header {name} is set by the client itself.",
                code="bad_header",
                hint="The token and the user agent are arguments of their own.",
            )
    return dict(headers)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A token, other headers of the user's, and the only origin they are sent to."""

    origin: Origin
    token: Token | None = None
    elevated: bool = False
    team: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        if self.elevated and self.token is not None and self.token.is_player:
            raise UsageError(
                "A player's session cannot ask for team rights.",
                code="elevated_player",
                hint=Hint("act_as_yourself", "Act as yourself: identity='user'."),
            )

    def headers_for(self, url: httpx2.URL) -> dict[str, str]:
        """The token and the user's headers for a URL; none for any other origin."""
        if origin_of(url) != self.origin:
            return {}
        if self.token is None:
            return dict(self.headers)
        headers = {**self.headers, "Authorization": f"Bearer {self.token.reveal()}"}
        if self.team is not None:
            headers["X-Team"] = quote(self.team)
        return {**headers, "X-Use-Elevated-Privileges": "true"} if self.elevated else headers

    @property
    def secrets(self) -> tuple[str, ...]:
        """Strings to redact from output."""
        own = () if self.token is None else (self.token.reveal(),)
        # A header may be a secret of a proxy; a short one is a word like any other
        return (*own, *(value for value in self.headers.values() if len(value) >= _SECRET_LENGTH))


def check_elsewhere(url: httpx2.URL, *, own: Origin, from_scheme: str) -> None:
    """Refuse an unsafe URL that a server points or redirects to.

    A server may point to any storage, but not from https to http, and not to this machine or its local link unless the
    server's own address is there: services at such addresses trust every client that can reach them.

    Raises:
        ApiError: Code `redirect_refused`.
    """
    scheme, host, _ = origin_of(url)
    why = None
    if scheme not in _PORTS:
        why = f"it is not an http or https address ({scheme or 'none'})"
    elif from_scheme == "https" and scheme == "http":
        why = "it leads from https to http"
    elif url.userinfo:
        why = "it has a user or a password in it"
    elif not host:
        why = "it names no host"
    elif is_inside(host) and not is_inside(own[1]):
        why = f"{host} is an address of this machine or its local link"
    if why is not None:
        raise ApiError(
            f"The server {own[1]} points to an address that is refused: {why}.",
            code="redirect_refused",
            hint="Check the server's address; ask whoever runs it if it is right.",
            context={"server": own[1]},
        )


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def is_inside(host: str) -> bool:
    """Whether a host is this machine or its local link."""
    address = _address(host)
    linked = address is not None and (address.is_link_local or address.is_unspecified)
    return linked or is_loopback(host, subdomains=True)
