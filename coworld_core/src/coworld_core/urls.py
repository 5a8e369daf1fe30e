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


def shown_url(url: object) -> str:
    """An address without user and password, fragment, and a query that may let somebody in."""
    try:
        parts = urlsplit(str(url))
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return HIDDEN
    host = f"[{host}]" if ":" in host else host
    place = f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}" if parts.scheme else parts.path
    if not parts.query:
        return place
    names = [pair.partition("=")[0] for pair in parts.query.split("&")]
    return f"{place}?{HIDDEN if any(map(_SECRET_PARAMETER.match, names)) else parts.query}"
