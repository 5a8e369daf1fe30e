"""Addresses fit to be shown: without what lets somebody in."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

__all__ = ["HIDDEN", "shown_url"]

HIDDEN = "…"
"""What stands where a secret stood."""

_SECRET_PARAMETER = re.compile(
    r"(?i)^(x-amz-|x-goog-|x-ms-|sig(nature)?$|se$|sp$|sv$|awsaccesskeyid|key-pair-id|policy$|expires$|token$|access_?token"
    r"|auth|code$|secret|password|key$)"
)


def shown_url(url: object, *, query: bool = False) -> str:
    """An address without user and password, query and fragment, of at most 200 characters.

    Args:
        url: The address.
        query: Whether to show a query in which no parameter is known to let somebody in, and any length: for addresses
            of our own, whose parameters are known.
    """
    try:
        parts = urlsplit(str(url))
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return HIDDEN
    host = f"[{host}]" if ":" in host else host
    bare = parts._replace(netloc=f"{host}{f':{port}' if port else ''}", query="", fragment="")
    place = bare.geturl() if parts.scheme else parts.path
    if not query:
        return place[:200]
    if not parts.query:
        return place
    names = [pair.partition("=")[0] for pair in parts.query.split("&")]
    return f"{place}?{HIDDEN if any(map(_SECRET_PARAMETER.match, names)) else parts.query}"
