"""When to try again, and how long to wait before."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from .errors import ApiConnectionError, ApiStatusError

__all__ = ["IDEMPOTENT", "Backoff", "retry_after", "worth_retrying"]

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods that do no more when they are done twice."""

_NEVER = frozenset({501, 505, 511})
"""Errors of a server that stay what they are."""

_KEYED = frozenset({408, 425, 429, 502, 503, 504})
"""What is worth a second try for a call that carries an idempotency key; a 500 may have done half of it."""


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Pauses between attempts: random up to a bound that doubles, so that many clients do not come back as one."""

    base: float = 0.5
    """Bound of the first pause in seconds."""
    cap: float = 8.0
    """Largest bound in seconds."""
    longest_wait: float = 60.0
    """Longest ``Retry-After`` that is waited for, in seconds; a longer one is the caller's to decide about."""

    def pause(self, attempt: int, asked: float | None = None) -> float | None:
        """Seconds to wait after an attempt (from 0), or None to give up.

        Args:
            attempt: Which attempt has failed, from 0.
            asked: What the server asked for; it is obeyed, with a little on top.
        """
        jitter = random.uniform(0, min(self.cap, self.base * 2.0 ** min(attempt, 30)))
        if asked is None:
            return jitter
        return asked + min(jitter, 0.25) if asked <= self.longest_wait else None


def worth_retrying(error: ApiConnectionError | ApiStatusError, method: str, *, keyed: bool) -> bool:
    """Whether the same call may be made again.

    Args:
        error: What happened.
        method: The HTTP method.
        keyed: Whether the call carries an idempotency key.
    """
    if isinstance(error, ApiConnectionError):
        return not error.sent or keyed or method in IDEMPOTENT
    if method in IDEMPOTENT:
        return error.status in (408, 425, 429) or (error.status >= 500 and error.status not in _NEVER)
    return (keyed and error.status in _KEYED) or (error.rejected and error.status == 429)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a ``Retry-After`` header asks for, given as a number or as a date; None without one."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        when = _date(value)
        if when is None:
            return None
        # by the server's own clock, where it tells the time
        seconds = (when - (_date(headers.get("date", "")) or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if seconds == seconds else None  # not a number


def _date(text: str) -> datetime | None:
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
