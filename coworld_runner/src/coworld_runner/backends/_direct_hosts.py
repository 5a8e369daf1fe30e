"""Keeps the proxies that an image or a user names away from what a unit reaches directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

__all__ = ["asked_proxy", "proxies_of", "without_proxy"]

_EXCEPTIONS = ("NO_PROXY", "no_proxy")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy", "socks_proxy")


def without_proxy(environment: Mapping[str, str], hosts: Sequence[str]) -> dict[str, str]:
    """Return both spellings of NO_PROXY, with hosts added to what they name already.

    Args:
        environment: The whole environment.
        hosts: The hosts to reach directly.
    """
    lists: dict[str, str] = {}
    for name, other in (_EXCEPTIONS, _EXCEPTIONS[::-1]):
        # Programs read one of the two, so a list that is set once is meant for both
        named = [entry.strip() for entry in environment.get(name, environment.get(other, "")).split(",")]
        # Python understands a star only if it stands alone
        lists[name] = "*" if "*" in named else ",".join(dict.fromkeys(filter(None, (*named, *hosts))))
    return lists


def proxies_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name a proxy."""
    return {name: value for name, value in environment.items() if value and name.lower() in _PROXIES}


def asked_proxy(proxies: Mapping[str, str], tail: str) -> str:
    """Say that a unit asked a proxy for what it reaches directly, if the end of its log names one of them; else empty.

    Args:
        proxies: The variables that name a proxy.
        tail: The end of the log.
    """
    for name, value in proxies.items():
        host = urlsplit(value if "://" in value else f"//{value}").hostname
        if host and host in tail:
            return (
                f"It asked the proxy that {name} names ({host}) for what is reached directly, although NO_PROXY says "
                "so: have it connect without a proxy, for example by proxy=None of Python's websockets."
            )
    return ""
