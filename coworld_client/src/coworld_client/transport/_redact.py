"""Keeping secrets out of messages and logs: tokens, and the queries of presigned URLs."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any, cast

from coworld_core.text.urls import HIDDEN, shown_url

__all__ = ["redact", "redact_json", "watch_loggers"]

_URL = re.compile(r"(?i)\b(https?://(?:\[[0-9a-f:.]*\])?[^\s\"'<>\\)\]}]+)")
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}")
_LOGGERS = ("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Redact the given secrets, credentials of HTTP headers, and the secret parts of URLs in a text."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    text = _BEARER.sub(rf"\g<1>{HIDDEN}", text)
    return _URL.sub(lambda match: shown_url(match[1], query=True), text)


def redact_json(value: Any, secrets: Iterable[str] = ()) -> Any:
    """Redact every string of a JSON value."""
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
    """Redacts log records: the HTTP library logs complete URLs, including presigned ones."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        shown = redact(text)
        if shown != text:
            record.msg, record.args = shown, ()
        return True


_redacting = _Redacting()


def watch_loggers() -> None:
    """Redact the HTTP library's log records. Calling this again has no effect."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_redacting)
