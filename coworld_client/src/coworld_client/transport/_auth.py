"""The identity that a client sends, and the origin it is sent to."""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass

import httpx2

from coworld_core.errors import UsageError
from coworld_core.hints import Hint

from ..errors import ApiError
from ..sign_in.credentials import Token

__all__ = ["Identity", "Origin", "check_elsewhere", "is_inside", "mint_key", "origin_of"]

Origin = tuple[str, str, int]
"""Scheme, host and port."""

_PORTS = {"http": 80, "https": 443}


def origin_of(url: httpx2.URL) -> Origin:
    """The origin of a URL, with the default port filled in."""
    return url.scheme, url.host.lower().rstrip("."), url.port or _PORTS.get(url.scheme, 0)


def mint_key() -> str:
    """A fresh idempotency key, for one call and its retries: 16 random bytes."""
    return secrets.token_hex(16)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A token, and the only origin it is sent to."""

    origin: Origin
    token: Token | None = None
    elevated: bool = False

    def __post_init__(self) -> None:
        if self.elevated and self.token is not None and self.token.is_player:
            raise UsageError(
                "A player's session cannot ask for team rights.",
                code="elevated_player",
                hint=Hint("act_as_yourself", "Act as yourself: identity='user'."),
            )

    def headers_for(self, url: httpx2.URL) -> dict[str, str]:
        """The authentication headers for a URL; empty for any other origin."""
        if self.token is None or origin_of(url) != self.origin:
            return {}
        headers = {"Authorization": f"Bearer {self.token.reveal()}"}
        return {**headers, "X-Use-Elevated-Privileges": "true"} if self.elevated else headers

    @property
    def secrets(self) -> tuple[str, ...]:
        """Strings to redact from output."""
        return () if self.token is None else (self.token.reveal(),)


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
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_link_local or address.is_unspecified)
