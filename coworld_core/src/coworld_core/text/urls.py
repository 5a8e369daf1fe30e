"""URLs: the place in them, and without their secrets for messages and logs."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

__all__ = ["HIDDEN", "authority", "shown_url"]

HIDDEN = "…"
"""Replaces a secret."""

_SECRET_PARAMETER = re.compile(
    r"(?i)^(x-amz-|x-goog-|x-ms-|sig(nature)?$|se$|sp$|sv$|awsaccesskeyid|key-pair-id|policy$|expires$|token$|access_?token"
    r"|auth|code$|secret|password|key$)"
)


def authority(host: str, port: int | None = None) -> str:
    """Host and port as in a URL: an IPv6 address in brackets, and no port if there is none."""
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port is not None else shown


def shown_url(url: object, *, query: bool = False) -> str:
    """A URL without user, password, query and fragment, cut to 200 characters.

    Args:
        url: The URL.
        query: Whether to keep the query if no parameter is known to hold a secret, and not to cut the URL. Use it for
            our own URLs, whose parameters are known.
    """
    try:
        parts = urlsplit(str(url))
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return HIDDEN
    bare = parts._replace(netloc=authority(host, port or None), query="", fragment="")
    place = bare.geturl() if parts.scheme else parts.path
    if not query:
        return place[:200]
    if not parts.query:
        return place
    names = [pair.partition("=")[0] for pair in parts.query.split("&")]
    return f"{place}?{HIDDEN if any(map(_SECRET_PARAMETER.match, names)) else parts.query}"
