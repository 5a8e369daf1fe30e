"""Temporary links to artifacts that work without a token."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import time
from dataclasses import dataclass
from urllib.parse import quote

__all__ = ["Link", "LinkSigner"]

_STEP = 3600
"""Links made within the same hour are equal, so that caches recognise the artifact."""


@dataclass(frozen=True)
class Link:
    """A link and its expiry."""

    url: str
    expires_at: dt.datetime


class LinkSigner:
    """Makes links and recognises its own.

    Args:
        key: The secret; links made with another key are invalid.
        base_url: The address at which clients reach this server.
    """

    def __init__(self, key: bytes, base_url: str) -> None:
        self._key = key
        self._base_url = base_url

    def url(self, artifact_id: str, filename: str) -> Link:
        """A link to an artifact, valid for one to two hours."""
        expires = (int(time.time()) // _STEP + 2) * _STEP
        signature = self._sign(artifact_id, expires)
        path = f"/observatory/files/{quote(artifact_id)}/{quote(filename)}"
        return Link(
            url=f"{self._base_url}{path}?expires={expires}&signature={signature}",
            expires_at=dt.datetime.fromtimestamp(expires, dt.UTC),
        )

    def is_good(self, artifact_id: str, expires: str, signature: str) -> bool:
        """Whether the signature is valid; see `expired` for the time."""
        return (
            expires.isascii()
            and expires.isdigit()
            and len(expires) < 16
            and hmac.compare_digest(self._sign(artifact_id, int(expires)).encode(), signature.encode())
        )

    @staticmethod
    def expired(expires: str) -> bool:
        """Whether a link has expired."""
        return int(expires) <= time.time()

    def ticket(self, text: str) -> str:
        """A part of a path that shows for one to two hours that this server has let somebody see something."""
        expires = (int(time.time()) // _STEP + 2) * _STEP
        return f"{expires}-{self._sign(text, expires)}"

    def admits(self, text: str, ticket: str) -> bool:
        """Whether a ticket is this server's, for this, and has not expired."""
        expires, _, signature = ticket.partition("-")
        return self.is_good(text, expires, signature) and not self.expired(expires)

    def mark(self, text: str) -> str:
        """A signature of a text that only this server can make; deterministic."""
        return hmac.new(self._key, f"mark\n{text}".encode(), hashlib.sha256).hexdigest()[:32]

    def _sign(self, artifact_id: str, expires: int) -> str:
        return hmac.new(self._key, f"{artifact_id}\n{expires}".encode(), hashlib.sha256).hexdigest()[:40]
