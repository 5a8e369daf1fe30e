"""Keeping secrets out of messages and logs: tokens, and the queries of presigned URLs."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import urlsplit

__all__ = ["HIDDEN", "redact", "redact_json", "shown_url", "watch_loggers"]

HIDDEN = "…"
"""What stands where a secret stood."""

_SECRET_PARAMETER = re.compile(
    r"(?i)^(x-amz-|x-goog-|x-ms-|sig(nature)?$|se$|sp$|sv$|awsaccesskeyid|key-pair-id|policy$|expires$|token$|access_?token"
    r"|auth|code$|secret|password|key$)"
)
_URL = re.compile(r"(?i)\b(https?://(?:\[[0-9a-f:.]*\])?[^\s\"'<>\\)\]}]+)")
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}")
_LOGGERS = ("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy")


def shown_url(url: object) -> str:
    """An address fit to be shown: without user and password, and without a query that may let somebody in."""
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


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without the given secrets, without credentials of HTTP headers, and with its URLs fit to be shown."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    text = _BEARER.sub(rf"\g<1>{HIDDEN}", text)
    return _URL.sub(lambda match: shown_url(match[1]), text)


def redact_json(value: Any, secrets: Iterable[str] = ()) -> Any:
    """A JSON value of which every text has been redacted."""
    secrets = tuple(secrets)
    match value:
        case str():
            return redact(value, secrets)
        case list():
            return [redact_json(item, secrets) for item in cast("list[Any]", value)]
        case dict():
            return {key: redact_json(item, secrets) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


class _Redacting(logging.Filter):
    """The HTTP library logs whole addresses, presigned ones too."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        shown = redact(text)
        if shown != text:
            record.msg, record.args = shown, ()
        return True


_redacting = _Redacting()


def watch_loggers() -> None:
    """See to it that the HTTP library's own log lines are redacted; calling it again does nothing."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_redacting)
