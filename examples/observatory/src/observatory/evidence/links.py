"""Links to artifacts that work without a token, for a while: whoever has the link has the artifact."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import time
from dataclasses import dataclass
from urllib.parse import quote

__all__ = ["Link", "LinkSigner"]

_STEP = 3600
"""Links made within the same hour are the same, so that what was fetched by one is known by the next."""


@dataclass(frozen=True)
class Link:
    """A link, and until when it is good."""

    url: str
    expires_at: dt.datetime


class LinkSigner:
    """Makes links and recognises its own.

    Args:
        key: The secret; links made with another are not good.
        base_url: Where clients reach this server.
    """

    def __init__(self, key: bytes, base_url: str) -> None:
        self._key = key
        self._base_url = base_url

    def url(self, artifact_id: str, filename: str) -> Link:
        """A link to an artifact, good for an hour or two."""
        expires = (int(time.time()) // _STEP + 2) * _STEP
        signature = self._sign(artifact_id, expires)
        path = f"/observatory/files/{quote(artifact_id)}/{quote(filename)}"
        return Link(
            url=f"{self._base_url}{path}?expires={expires}&signature={signature}",
            expires_at=dt.datetime.fromtimestamp(expires, dt.UTC),
        )

    def is_good(self, artifact_id: str, expires: str, signature: str) -> bool:
        """Whether a link is one of ours; ``expired`` says whether it was good once."""
        return (
            expires.isascii()
            and expires.isdigit()
            and len(expires) < 16
            and hmac.compare_digest(self._sign(artifact_id, int(expires)).encode(), signature.encode())
        )

    @staticmethod
    def expired(expires: str) -> bool:
        """Whether its time is over."""
        return int(expires) <= time.time()

    def mark(self, text: str) -> str:
        """What only this server can make of a text; the same each time."""
        return hmac.new(self._key, f"mark\n{text}".encode(), hashlib.sha256).hexdigest()[:32]

    def _sign(self, artifact_id: str, expires: int) -> str:
        return hmac.new(self._key, f"{artifact_id}\n{expires}".encode(), hashlib.sha256).hexdigest()[:40]
